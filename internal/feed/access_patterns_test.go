package feed_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/embedded"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

var update = flag.Bool("update", false, "write docs/ACCESS_PATTERNS.md")

// accessPattern is one row of docs/ACCESS_PATTERNS.md.
type accessPattern struct {
	name, keys string
	do         func(ctx context.Context, s *sample) error
}

// sample is the network in which the patterns are measured. viewer and 20 authors follow each other,
// and each author has two posts of 280 characters. viewer has made 20 comments and 20 likes on these
// posts. One post has 20 comments and 20 likes.
type sample struct {
	*world
	authors []string
	post    feed.Post
	ids     []string // the ids of the newest 20 posts
	comment feed.Comment
	// measure sets the sum of the units to 0 once the sample is complete.
	measure func()
}

const (
	sampleText  = 280
	sampleUsers = 20
)

func newSample(t *testing.T, clock *clock, change ...func(*config)) *sample {
	t.Helper()
	w := newWorldAt(t, clock, change...)
	s := &sample{world: w}
	s.authors = w.crowd("viewer", sampleUsers, 0)
	text := strings.Repeat("x", sampleText)
	var posts []feed.Post
	for range 2 {
		for _, author := range s.authors {
			posts = append(posts, w.post(author, text))
		}
	}
	for _, author := range s.authors {
		w.follow(author, "viewer")
	}
	s.post = posts[len(posts)-1]
	act := func(user string, p feed.Post) {
		w.clock.add(time.Millisecond)
		require.NoError(t, w.Like(t.Context(), user, p.ID))
		c, err := w.CreateComment(t.Context(), user, p.ID, text)
		require.NoError(t, err)
		s.comment = c
	}
	for _, p := range posts[len(posts)-sampleUsers:] {
		s.ids = append(s.ids, p.ID)
		act("viewer", p)
	}
	for _, user := range s.authors[:sampleUsers-1] {
		act(user, s.post)
	}
	w.deliver()
	w.clock.add(2 * time.Minute)
	return s
}

func pageOf[T any](_ page.List[T], err error) error { return err }

func readPatterns() []accessPattern {
	var first page.Request
	patterns := []accessPattern{
		{"profile", "`u#U`", func(ctx context.Context, s *sample) error { _, err := s.User(ctx, "viewer"); return err }},
		{"counts", "`u#U`, the same query", func(ctx context.Context, s *sample) error { _, err := s.User(ctx, "viewer"); return err }},
		{"followers", "`u#U#follower`", func(ctx context.Context, s *sample) error { return pageOf(s.Followers(ctx, "viewer", first)) }},
		{"following", "`u#U#following`", func(ctx context.Context, s *sample) error { return pageOf(s.Following(ctx, "viewer", "viewer", first)) }},
		{"is-following and are-friends", "`u#U#following` / `u#F`, both ways", func(ctx context.Context, s *sample) error {
			_, err := s.Relationship(ctx, "viewer", "viewer", s.authors[0])
			return err
		}},
		{"friends", "`u#U#following` merged with `u#U#follower`", func(ctx context.Context, s *sample) error { return pageOf(s.Friends(ctx, "viewer", first)) }},
		{"posts by user", "`u#U#post`, descending", func(ctx context.Context, s *sample) error {
			return pageOf(s.PostsByUser(ctx, access.Viewer{}, s.authors[0], feed.PostRange{}, first))
		}},
		{"posts by user and day", "`u#U#post`, a range of ULIDs", func(ctx context.Context, s *sample) error {
			day := s.post.CreatedAt.Truncate(24 * time.Hour)
			return pageOf(s.PostsByUser(ctx, access.Viewer{}, s.authors[0], feed.PostRange{Since: day, Until: day.AddDate(0, 0, 1)}, first))
		}},
		{"post by id", "`p#P` / `info`, then `u#A#post` / `p#P`", func(ctx context.Context, s *sample) error {
			_, err := s.Post(ctx, access.Viewer{}, s.post.ID)
			return err
		}},
		{"comments of a post", "`p#P#comment`, and `p#P` / `info`", func(ctx context.Context, s *sample) error {
			return pageOf(s.Comments(ctx, access.Viewer{}, s.post.ID, first))
		}},
		{"comments by user", "GSI1 `u#U#comment`, descending; `p#P` / `info` of their posts", func(ctx context.Context, s *sample) error {
			return pageOf(s.CommentsByUser(ctx, access.Viewer{}, "viewer", first))
		}},
		{"likers of a post", "`p#P` / `info`, then `p#P#likelist`, each shard", func(ctx context.Context, s *sample) error {
			return pageOf(s.Likers(ctx, access.Viewer{}, s.post.ID, first))
		}},
		{"like count", "`p#P#likecount` / `count`, and `p#P` / `info`", func(ctx context.Context, s *sample) error {
			_, err := s.LikeCount(ctx, access.Viewer{}, s.post.ID)
			return err
		}},
		{"did U like P", "`p#P` / `info`, then `p#P#likelist` / `u#U`", func(ctx context.Context, s *sample) error {
			_, err := s.LikeOf(ctx, access.Viewer{}, s.post.ID, "viewer")
			return err
		}},
		{"posts liked by U", "GSI1 `u#U#like`, descending; `p#P` / `info` of them", func(ctx context.Context, s *sample) error {
			return pageOf(s.LikesByUser(ctx, access.Viewer{}, "viewer", first))
		}},
		{"home by push", "`u#U#timeline` and `u#U#home`; then posts; authors and counts; own likes by GSI1 `u#U#like`", func(ctx context.Context, s *sample) error {
			return pageOf(s.cold().Home(ctx, "viewer", home.Query{}, first))
		}},
		{"home by pull", "`u#U#following` and the mutes of `u#U#home`; `u#A#post` of each, 100 at a time; then as by push", func(ctx context.Context, s *sample) error {
			return pageOf(s.cold().Home(ctx, "viewer", home.Query{Pull: true}, first))
		}},
		{"home by push, names and counts known", "the same, within half a like window", func(ctx context.Context, s *sample) error {
			return pageOf(s.Home(ctx, "viewer", home.Query{}, first))
		}},
		{"home by push, names known", "the same, within a minute", func(ctx context.Context, s *sample) error {
			s.clock.add(likeWindow)
			return pageOf(s.Home(ctx, "viewer", home.Query{}, first))
		}},
		{"news of a home, none", "`u#U#timeline` above an id, and `u#U#home`", func(ctx context.Context, s *sample) error {
			_, err := s.HomeNews(ctx, "viewer", home.Query{After: s.post.ID}, first)
			return err
		}},
		{"view of a post", "as 9, which has the number of comments; with the author, the like count, and the own like, bookmark and repost", func(ctx context.Context, s *sample) error {
			_, err := s.cold().PostView(ctx, access.As("viewer"), s.post.ID)
			return err
		}},
		{"views of posts by user", "as 7, with the same for each", func(ctx context.Context, s *sample) error {
			return pageOf(s.cold().PostViewsByUser(ctx, access.As("viewer"), s.authors[0], feed.PostRange{}, first))
		}},
		{"views of posts liked by U", "as 15, with posts and the same for each", func(ctx context.Context, s *sample) error {
			return pageOf(s.cold().LikedPostViews(ctx, access.As("viewer"), "viewer", first))
		}},
		{"views of 20 posts by id", "`p#P` / `info`, then posts and the same for each", func(ctx context.Context, s *sample) error {
			_, err := s.cold().PostViews(ctx, access.As("viewer"), s.ids)
			return err
		}},
		{"followers as users", "as 3, with profiles, and the reader's own edges in the range of their ids", func(ctx context.Context, s *sample) error {
			return pageOf(viewed(ctx, s.cold().EdgeViews, s.authors[0])(s.cold().Followers(ctx, "viewer", first)))
		}},
		{"following as users", "as 4, with the same", func(ctx context.Context, s *sample) error {
			return pageOf(viewed(ctx, s.cold().EdgeViews, s.authors[0])(s.cold().Following(ctx, "viewer", "viewer", first)))
		}},
		{"friends as users", "as 6, with the same", func(ctx context.Context, s *sample) error {
			return pageOf(viewed(ctx, s.cold().EdgeViews, s.authors[0])(s.cold().Friends(ctx, "viewer", first)))
		}},
		{"likers as users", "as 12, with the same", func(ctx context.Context, s *sample) error {
			return pageOf(viewed(ctx, s.cold().LikerViews, "viewer")(s.cold().Likers(ctx, access.Viewer{}, s.post.ID, first)))
		}},
		{"comments with their authors", "as 10, with the same", func(ctx context.Context, s *sample) error {
			return pageOf(viewed(ctx, s.cold().CommentViews, "viewer")(s.cold().Comments(ctx, access.Viewer{}, s.post.ID, first)))
		}},
		{"comments by user with their posts", "as 11, with the reads of 24 for each post", func(ctx context.Context, s *sample) error {
			return pageOf(s.cold().CommentViewsByUser(ctx, access.As("viewer"), "viewer", first))
		}},
		{"20 users by id", "the profiles and edges of 25 alone", func(ctx context.Context, s *sample) error {
			_, err := s.cold().UserViews(ctx, "viewer", s.authors)
			return err
		}},
		{"20 users by id, names known", "the same, within a minute", func(ctx context.Context, s *sample) error {
			_, err := s.UserViews(ctx, "viewer", s.authors)
			return err
		}},
		{"blocked users", "`u#U#block`", func(ctx context.Context, s *sample) error { return pageOf(s.Blocks(ctx, "viewer", first)) }},
		{"muted users", "`u#U#home`, below the marks", func(ctx context.Context, s *sample) error { return pageOf(s.Mutes(ctx, "viewer", first)) }},
		{"home by push, a post of the page deleted", "as 16; then 3 entries, and 2 of their posts", func(ctx context.Context, s *sample) error {
			return s.homeWithout(ctx, s.ids[5:6])
		}},
		{"home by push, five posts of the page deleted", "as 16; then 8 entries, and 7 of their posts", func(ctx context.Context, s *sample) error {
			return s.homeWithout(ctx, s.ids[5:10])
		}},
		{"home by push, within a minute after 20 follows", "as 16, and `u#A#post` of each", func(ctx context.Context, s *sample) error {
			s.users("latecomer")
			for _, author := range s.authors {
				s.follow("latecomer", author)
			}
			s.measure()
			return pageOf(s.cold().Home(ctx, "latecomer", home.Query{}, first))
		}},
		{"opening of a live home", "as 1; `u#U#timeline` and `u#U#home`; the like counts of 20 posts, and `p#P` / `info` of those that have likes", func(ctx context.Context, s *sample) error {
			if _, err := s.cold().HasProfile(ctx, "viewer", true); err != nil {
				return err
			}
			seen, err := s.HomeStreamed(ctx, "viewer", "")
			if err != nil {
				return err
			}
			_, err = s.LikeChanges(ctx, "viewer", seen)
			return err
		}},
		{"the authors of a live home", "`u#U#following`, and `u#U#home` below the marks", func(ctx context.Context, s *sample) error {
			_, _, err := s.Heard(ctx, "viewer", 5000)
			return err
		}},
		{"look at a live home, nothing new", "`u#U#timeline` above the window, and `u#U#home`", func(ctx context.Context, s *sample) error {
			seen, err := s.HomeStreamed(ctx, "viewer", "")
			if err != nil {
				return err
			}
			s.measure()
			for _, err := range s.Arrivals(ctx, "viewer", seen) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"look at the like counts of a live home, nothing new", "`p#P#likecount` / `count`", func(ctx context.Context, s *sample) error {
			seen, err := s.HomeStreamed(ctx, "viewer", "")
			if err != nil {
				return err
			}
			if _, err = s.LikeChanges(ctx, "viewer", seen); err != nil {
				return err
			}
			s.cold().measure()
			_, err = s.LikeChanges(ctx, "viewer", seen)
			return err
		}},
		{"tick of the tail of live homes, no new post", "GSI1 `made#T#n`, each shard, and `changed#T`", func(ctx context.Context, s *sample) error {
			_, err := s.PostsMade(ctx, s.cold().clock.now())
			return err
		}},
		{"bookmarks", "`u#U#bookmark`, descending; `p#P` / `info` of the posts", func(ctx context.Context, s *sample) error {
			for _, author := range s.authors {
				s.bookmark("viewer", s.world.post(author, strings.Repeat("x", sampleText)))
			}
			s.measure()
			return pageOf(s.Bookmarks(ctx, "viewer", first))
		}},
		{"views of bookmarks", "the same, with posts, authors, counts and own likes", func(ctx context.Context, s *sample) error {
			return pageOf(s.cold().BookmarkViews(ctx, "viewer", first))
		}},
		{"did U bookmark P", "`p#P` / `info`, then `u#U#bookmark` / `p#P`", func(ctx context.Context, s *sample) error {
			list, err := s.Bookmarks(ctx, "viewer", page.Request{Limit: 1})
			if err == nil {
				s.measure()
				_, err = s.BookmarkOf(ctx, "viewer", list.Items[0].PostID)
			}
			return err
		}},
		{"read markers", "`u#U#marker`", func(ctx context.Context, s *sample) error {
			if _, err := s.SetMarker(ctx, "viewer", "home", s.post.ID); err != nil {
				return err
			}
			s.measure()
			return pageOf(s.Markers(ctx, "viewer", first))
		}},
		{"a read marker", "`u#U#marker` / `m#NAME`", func(ctx context.Context, s *sample) error {
			_, err := s.MarkerOf(ctx, "viewer", "home")
			return err
		}},
		{"home by push, as views", "as 16; the reader's bookmarks in `u#U#bookmark` and reposts in `u#U#repost` in the range of the posts, and `u#U` / `info`", func(ctx context.Context, s *sample) error {
			s.fillHome()
			return pageOf(s.cold().Home(ctx, "viewer", home.Query{View: true}, first))
		}},
		{"home by push, as views, names and counts known", "as 18, with the same", func(ctx context.Context, s *sample) error {
			return pageOf(s.Home(ctx, "viewer", home.Query{View: true}, first))
		}},
	}
	return append(patterns, noticePatterns()...)
}

// homeWithout deletes some posts of the home's first page, unless the posts are deleted already, and
// then reads the home.
func (s *sample) homeWithout(ctx context.Context, posts []string) error {
	for _, post := range posts {
		p, err := s.Post(ctx, access.Viewer{}, post)
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		s.deletePosts(p)
	}
	s.measure()
	return pageOf(s.cold().Home(ctx, "viewer", home.Query{}, page.Request{}))
}

// fillHome makes the first page of the home whole, after the deletions of other rows.
func (s *sample) fillHome() {
	for _, author := range s.authors {
		p := s.world.post(author, strings.Repeat("x", sampleText))
		s.clock.add(time.Millisecond)
		require.NoError(s.t, s.Like(s.t.Context(), "viewer", p.ID))
	}
	s.deliver()
	s.clock.add(2 * time.Minute)
	s.measure()
}

// cold makes the process drop all data that calls share.
func (s *sample) cold() *sample {
	s.clock.add(time.Minute)
	return s
}

func writePatterns() []accessPattern {
	return []accessPattern{
		{"make a profile", "`u#U` / `info`", func(ctx context.Context, s *sample) error {
			_, err := s.PutProfile(ctx, "newcomer", feed.ProfileInput{Name: "Newcomer"})
			return err
		}},
		{"rename", "`u#U` / `info`, and the counts", func(ctx context.Context, s *sample) error { return s.rename(ctx, "viewer", "Viewer") }},
		{"first follow of a reader", "two edges, two counts, the mark, the presence, and a look for a block", func(ctx context.Context, s *sample) error { return s.Follow(ctx, "newcomer", "viewer") }},
		{"follow again", "nothing", func(ctx context.Context, s *sample) error { return s.Follow(ctx, "newcomer", "viewer") }},
		{"follow", "two edges, two counts, the mark, and a look for a block", func(ctx context.Context, s *sample) error {
			return s.Follow(ctx, "newcomer", s.authors[0])
		}},
		{"unfollow", "two edges, two counts, the mark", func(ctx context.Context, s *sample) error { return s.Unfollow(ctx, "newcomer", "viewer") }},
		{"post", "post, post by id (in GSI1 too), count, own entry", func(ctx context.Context, s *sample) error {
			_, err := s.CreatePost(ctx, "viewer", feed.PostInput{Content: feed.Content{Text: strings.Repeat("x", sampleText)}})
			return err
		}},
		{"post with an Idempotency-Key", "the record, then the same", func(ctx context.Context, s *sample) error {
			_, err := s.CreatePost(ctx, "viewer", feed.PostInput{Content: feed.Content{Text: strings.Repeat("x", sampleText)}, IdempotencyKey: "key"})
			return err
		}},
		{"edit", "the post, and the log of changes `changed#T`", func(ctx context.Context, s *sample) error {
			text := strings.Repeat("y", sampleText)
			_, err := s.EditPost(ctx, s.post.AuthorID, s.post.ID, feed.PostEdit{Text: &text})
			return err
		}},
		{"comment", "the user's counts; then the comment, in GSI1 too, and the post's count", func(ctx context.Context, s *sample) error {
			_, err := s.CreateComment(ctx, "viewer", s.post.ID, strings.Repeat("x", sampleText))
			return err
		}},
		{"delete a comment", "the comment, in GSI1 too, and the post's count", func(ctx context.Context, s *sample) error {
			return s.DeleteComment(ctx, s.comment.AuthorID, s.comment.PostID, s.comment.ID)
		}},
		{"like or unlike", "the event only", func(ctx context.Context, s *sample) error { return s.Like(ctx, "viewer", s.post.ID) }},
		{"like or unlike again", "the event only: it is known for two seconds that the author has no blocks", func(ctx context.Context, s *sample) error { return s.Like(ctx, "viewer", s.post.ID) }},
		{"delete a post", "post, post by id (leaves GSI1), count, and the log of changes `changed#T`", func(ctx context.Context, s *sample) error {
			return s.DeletePost(ctx, s.post.AuthorID, s.post.ID)
		}},
		{"delete a post that the table does not have", "post by id, as a tombstone", func(ctx context.Context, s *sample) error {
			err := s.DeletePost(ctx, "viewer", s.world.ids(1)[0])
			if missing, ok := errors.AsType[*fault.Error](err); ok && missing.Kind == fault.NotFound {
				return nil
			}
			return err
		}},
		{"mute", "both halves of the mute", func(ctx context.Context, s *sample) error { return s.Mute(ctx, "viewer", s.authors[0]) }},
		{"mute again", "nothing", func(ctx context.Context, s *sample) error { return s.Mute(ctx, "viewer", s.authors[0]) }},
		{"unmute", "both halves of the mute", func(ctx context.Context, s *sample) error { return s.Unmute(ctx, "viewer", s.authors[0]) }},
		{"bookmark", "both halves of the bookmark", func(ctx context.Context, s *sample) error { return s.Bookmark(ctx, "viewer", s.ids[0]) }},
		{"bookmark again", "nothing", func(ctx context.Context, s *sample) error { return s.Bookmark(ctx, "viewer", s.ids[0]) }},
		{"end a bookmark", "both halves of the bookmark", func(ctx context.Context, s *sample) error { return s.Unbookmark(ctx, "viewer", s.ids[0]) }},
		{"first position of a read marker", "the marker", func(ctx context.Context, s *sample) error {
			_, err := s.SetMarker(ctx, "viewer", "news", s.ids[1])
			return err
		}},
		{"next position of a read marker", "the marker", func(ctx context.Context, s *sample) error {
			_, err := s.SetMarker(ctx, "viewer", "news", s.ids[2])
			return err
		}},
		{"lower position of a read marker", "nothing", func(ctx context.Context, s *sample) error {
			_, err := s.SetMarker(ctx, "viewer", "news", s.ids[1])
			return err
		}},
		{"delete a read marker", "the marker", func(ctx context.Context, s *sample) error { return s.DeleteMarker(ctx, "viewer", "news") }},
		{"block of a friend", "both sides, two notes, and two unfollows", func(ctx context.Context, s *sample) error { return s.Block(ctx, "viewer", s.authors[1]) }},
		{"block again", "nothing", func(ctx context.Context, s *sample) error { return s.Block(ctx, "viewer", s.authors[1]) }},
		{"unblock", "both sides", func(ctx context.Context, s *sample) error { return s.Unblock(ctx, "viewer", s.authors[1]) }},
		{"block of a stranger", "both sides", func(ctx context.Context, s *sample) error { return s.Block(ctx, "viewer", s.authors[1]) }},
		{"like of an author with blocks", "the event only", func(ctx context.Context, s *sample) error { return s.Like(ctx, "newcomer", s.ids[1]) }},
		{"remove oneself", "the note of the removal in the place of the profile and in GSI1 `made#T#n`, after the event", func(ctx context.Context, s *sample) error { return s.DeleteProfile(ctx, "newcomer") }},
		{"remove oneself again", "nothing", func(ctx context.Context, s *sample) error { return s.DeleteProfile(ctx, "newcomer") }},
		{"make a profile after a removal", "the profile in the place of the note", func(ctx context.Context, s *sample) error {
			_, err := s.PutProfile(ctx, "newcomer", feed.ProfileInput{Name: "Newcomer"})
			return err
		}},
		{"follow again after a removal", "two edges, and a look for a block", func(ctx context.Context, s *sample) error { return s.Follow(ctx, "newcomer", s.authors[0]) }},
		markPattern(),
		{"take a post down", "post, post by id (leaves GSI1), count, and the log of changes `changed#T`", func(ctx context.Context, s *sample) error {
			_, err := s.TakeDown(ctx, "moderation", s.ids[3], strings.Repeat("x", 100))
			return err
		}},
		{"repost", "`p#P` / `info` with its flag, a look for a block, the binding in `u#U#repost`; then as a post", func(ctx context.Context, s *sample) error {
			_, err := s.cold().Repost(ctx, "viewer", s.ids[4])
			return err
		}},
		{"repost again", "nothing", func(ctx context.Context, s *sample) error { _, err := s.Repost(ctx, "viewer", s.ids[4]); return err }},
		{"end a repost", "as the deletion of a post, then the binding", func(ctx context.Context, s *sample) error { return s.EndRepost(ctx, "viewer", s.ids[4]) }},
	}
}

func TestAccessPatternsCostWhatTheirPageSays(t *testing.T) {
	store, err := embedded.Create("data", embedded.Options{FS: vfs.NewMem(), SweepEvery: -1, MemoryBytes: 4 << 20})
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, store.Close())
	}()
	got := measurePatterns(t, store, newClock())
	diff := cmp.Diff(got, measurePatterns(t, tabletest.NewMemory(), newClock()))
	assert.Empty(t, diff, "embedded and the table in memory bill differently (-embedded +memory)")
	large := measurePatterns(t, tabletest.NewMemory(), newClock(), withData(`{"a":"`+strings.Repeat("x", 1016)+`"}`))
	golden(t, filepath.Join("..", "..", "docs", "ACCESS_PATTERNS.md"), accessPatternsPage(got, large))
}

// withData gives each post, comment and profile of a world custom data.
func withData(data string) func(*config) { return func(c *config) { c.data = data } }

// A row has no units for a mechanism that its call does not need.
func TestAnUnusedMechanismCostsNothing(t *testing.T) {
	want := measurePatterns(t, tabletest.NewMemory(), newClock())
	for name, change := range map[string]func(*config){
		"small custom data": withData(`{"a":1}`),
		"reactions":         func(c *config) { c.Reactions = []string{"love", "wow"} },
		"notifications": func(c *config) {
			c.Notices = func(context.Context, ...messages.Event) error { return nil }
		},
	} {
		assert.Empty(t, cmp.Diff(want, measurePatterns(t, tabletest.NewMemory(), newClock(), change)), "%s (-without +with)", name)
	}
}

// golden compares a file with its new contents, or writes the new contents.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not what the code does; go test ./internal/feed -run AccessPatterns -update writes it (-file +code):\n%s", file, diff)
	}
}

// measured is one pattern's calls and their cost.
type measured struct {
	Name, Operations string
	Read, Write      float64
}

// measurePatterns measures all patterns on a table: the reads, then the writes.
func measurePatterns(t *testing.T, store table.Store, clock *clock, change ...func(*config)) []measured {
	t.Helper()
	var mu sync.Mutex
	var units table.Units
	var tp *tap
	s := newSample(t, clock, append(change, sharing, active(14), withLimit(1_000_000), func(c *config) {
		tp = &tap{Store: table.Measure(store, func(_ table.Op, u table.Units, _ error) {
			mu.Lock()
			defer mu.Unlock()
			units = units.Plus(u)
		})}
		c.Store = tp
	})...)
	s.measure = func() {
		tp.take()
		mu.Lock()
		defer mu.Unlock()
		units = table.Units{}
	}
	var all []measured
	for _, p := range slices.Concat(readPatterns(), writePatterns(), windowPatterns()) {
		s.measure()
		require.NoError(t, p.do(t.Context(), s), p.name)
		mu.Lock()
		all = append(all, measured{p.name, operationsOf(tp.take()), units.Read, units.Write})
		mu.Unlock()
	}
	return all
}

// accessPatternsPage writes the measured patterns as docs/ACCESS_PATTERNS.md. large has the units with 1 KB of custom data.
func accessPatternsPage(got, large []measured) string {
	var b strings.Builder
	fmt.Fprintf(&b, accessPatternsHead, sampleUsers, sampleText)
	b.WriteString("| pattern | operations | keys | RCU |\n|---|---|---|---|\n")
	reads := readPatterns()
	for i, p := range reads {
		fmt.Fprintf(&b, "| %d. %s | %s | %s | %g |\n", i+1, p.name, got[i].Operations, p.keys, got[i].Read)
	}
	b.WriteString(accessPatternsWrites)
	rows := func(first string, patterns []accessPattern, got []measured) {
		fmt.Fprintf(&b, "| %s | operations | writes | RCU | WCU |\n|---|---|---|---|---|\n", first)
		for i, p := range patterns {
			fmt.Fprintf(&b, "| %s | %s | %s | %g | %g |\n", p.name, got[i].Operations, p.keys, got[i].Read, got[i].Write)
		}
	}
	rows("call", writePatterns(), got[len(reads):])
	fmt.Fprintf(&b, accessPatternsLikes, likeUnits(false), likeUnits(true))
	rows("window", windowPatterns(), got[len(reads)+len(writePatterns()):])
	b.WriteString(accessPatternsEnd)
	b.WriteString("| pattern | RCU | WCU |\n|---|---|---|\n")
	for i, m := range large {
		if m != got[i] {
			fmt.Fprintf(&b, "| %s | %g | %g |\n", m.Name, m.Read, m.Write)
		}
	}
	return b.String()
}

// operationsOf lists the kinds of calls of a pattern with their numbers.
func operationsOf(calls []call) string {
	names := map[table.Op]string{
		table.OpGet: "GetItem", table.OpBatchGet: "BatchGetItem", table.OpQuery: "Query", table.OpPut: "PutItem",
		table.OpUpdate: "UpdateItem", table.OpDelete: "DeleteItem", table.OpTransact: "TransactWriteItems",
	}
	var order []string
	count, keys := map[string]int{}, map[string]int{}
	for _, c := range calls {
		name := names[c.op]
		if !isWrite(c) && !c.consistent {
			name += "~"
		}
		if count[name] == 0 {
			order = append(order, name)
		}
		count[name]++
		keys[name] += c.keys
	}
	slices.Sort(order) // concurrent calls have no order
	for i, name := range order {
		if strings.HasPrefix(name, "BatchGet") || strings.HasPrefix(name, "Transact") {
			order[i] += fmt.Sprintf("(%d)", keys[name])
		}
		if count[name] > 1 {
			order[i] += fmt.Sprintf("×%d", count[name])
		}
	}
	return strings.Join(order, ", ")
}

// likeUnits returns the cost of the aggregator's put of a new like.
func likeUnits(indexed bool) float64 {
	like := schema.Like{
		Post: "01J00000000000000000000000", User: "viewer", Kind: schema.KindLike, Version: "01J00000000000000000000000",
		Flush: schema.Flush{Inc: "261121abcdef", Seq: 1}, Indexed: indexed,
	}
	it := like.Item()
	return table.WriteCost(nil, &it).Write
}

const accessPatternsHead = `# Access patterns and their cost

For people who change a read or a write, or who plan capacity. After this page you know the keys and
the capacity units of each API call, as DynamoDB bills them. A test compares the page with the code:
` + "`go test ./internal/feed -run AccessPatterns -update`" + ` writes the page.

The sample is a user who follows %[1]d authors, who follow back, each with two posts
of %[2]d characters; %[1]d comments and %[1]d likes by the user, and as many of one post. Pages of lists
have 20. ` + "`BatchGetItem(20)` reads 20 items, `×2` is two calls, and `~` is eventually consistent, at half the price." + `
No request scans. The embedded table bills the units by DynamoDB's size rules.
LocalStack bills by other rules: ` + "`internal/feed/testdata/units_localstack.json`" + ` has its units.

## Reads

`

const accessPatternsWrites = `
An empty list also reads its user's profile, because the user may be unknown. If a list has to skip many
items, the request makes 12 calls at most, and returns a short page with a cursor. A page
with few deleted posts (a home, bookmarks, likes and comments by user) first reads few more posts,
in 3 more calls at most; then it reads 100 at a time, at 104 units. Views take 8 more calls at
most. If the names are known, a view costs half a unit for its like count, and a page also the
reader's own likes or edges.

## Writes

In a transaction each write costs twice as much. A comment rewrites its post's item: 2 WCU for each KB
of the post. RCU are the reads before the writes. Readers have 14 active days: the Query of
the marks reads the presence, and the first follow writes it. A refresh or an enrolment costs
1 WCU for each followee, and 2 or 4 more; a return 1 WCU for each followee, 2 more, and 1 for
each missed post, 200 at most. A sweep of a removal reads the profile and the note, 10
ranges of the user, and the profile again for each page: 1 RCU. The limit of an hour is on
(` + "`FANFARE_USER_UNITS`" + `): without it an unfollow costs 1 RCU less, a comment 1 WCU, and a rename
3 WCU; a call that causes more than a thousandth of the limit costs 1 RCU more, and the first
comment of an hour 1 WCU more.

`

const accessPatternsLikes = `
The aggregator's put of a like costs %g WCU, and %g with the index of likes by user: one more
for each like. ` + "`FANFARE_LIKES_BY_USER=off`" + ` saves this unit and switches off "posts liked by U". A reaction of any
kind costs as much as a like. The aggregator's units, with m actions of a post in one window
(` + "`TestWhatEachKindOfActionCosts`, `TestALedgerOfWeeksCostsNoMoreThanANewOne`" + `):

| action | WCU without the index | WCU with the index | RCU |
|---|---|---|---|
| first like | 1 + 1/m | 2 + 1/m | 0.5/m |
| unlike | 1 + 1/m | 2 + 1/m | 1 + 0.5/m |
| another kind, a like after an unlike, or a repeated like, by the API | 1 + 1/m | 2 + 1/m | 1 + 0.5/m |
| the same by another producer | 2 + 1/m | 3 + 1/m | 0.5/m |

With ` + "`FANFARE_NOTIFICATIONS=on`" + ` the notifier writes each notification once a window; with ` + "`off`" + ` nothing is sent
or written. Each row is a window with one event. A further unknown actor costs half an RCU more (one RCU in a window of
mentions), a further comment one RCU. An open stream reads the unread notifications once a minute (` + "`TestWhatAnIdleStreamCosts`" + `).
The look at like counts of a live home reads the post by id of each changed count, the reader's edge to each of these authors, and
the mutes. The first counts within a second of a look need neither the edges nor the mutes.

`

const accessPatternsEnd = `
If another aggregator counted a user's last action, the window reads the ledger once, and
each unknown note of an end once: 1 RCU each. An aggregator writes the note of its end once a day, at 1 WCU. A flush costs 1 WCU while the
count with its ledger has at most 1 KB: some 50 aggregators that flush one post in a day. With
70 aggregators a flush costs 2 or 3. A like that waited for 50 minutes reads its user's profile and note: 2 RCU.

## With custom data

Custom data cost only their KBs (` + "`TestAnUnusedMechanismCostsNothing`" + `). With 1 KB in each post, comment and
profile these rows differ. A comment rewrites its post, so 4 KB on the post make each comment cost 8 WCU more.

`

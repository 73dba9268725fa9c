package feed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file contains bookmarks (docs/decisions/0050). Only its user sees a bookmark. A bookmark does
// not change the post.

// MaxBookmarks is the number of bookmarks that one user may have. Each new bookmark reads all of the
// user's bookmarks, so MaxBookmarks bounds the cost of a new bookmark (I11). Concurrent calls may
// exceed the bound by the number of these calls.
const MaxBookmarks = 1000

// Bookmarked is a post in a user's list of bookmarks. Version is the post's place in the list.
type Bookmarked struct {
	PostID, Version string
	BookmarkedAt    time.Time
}

func ownBookmarks() ownList[schema.Bookmark] {
	return ownList[schema.Bookmark]{
		all: func(user string) table.Query {
			return table.Query{PK: schema.BookmarksPK(user), Low: schema.SortBookmark, High: schema.SortBookmarkEnd}
		},
		parse: schema.ParseBookmark, former: func(b schema.Bookmark, after string) bool { return b.V <= after }, same: sameBookmark,
		end: (*Service).endBookmark, most: MaxBookmarks, sort: "bookmark", full: "you have %d bookmarks, the most that you may: delete one first",
	}
}

// OwnBookmarks returns the bookmarks of user.
func (s *Service) OwnBookmarks(user string) Own { return ownBookmarks().of(s, user) }

func bookmarkedOf(b schema.Bookmark) Bookmarked {
	return Bookmarked{b.Post, b.V, access.TimeOf(b.V)}
}

// Bookmark puts a post at the head of user's list. A call may be repeated: the post keeps its place.
func (s *Service) Bookmark(ctx context.Context, user, post string) error {
	after, byID, err := s.access.WriterAndPost(ctx, access.As(user), user, post)
	if err == nil {
		err = s.notBlocked(ctx, user, byID.Author)
	}
	if err != nil {
		return err
	}
	return s.makeBookmark(ctx, user, post, after, func() (string, error) { return s.access.IDs.After(after) })
}

// makeBookmark makes a bookmark, unless the user has made the bookmark in the present life. The
// version of a bookmark of the present life is above after.
func (s *Service) makeBookmark(ctx context.Context, user, post, after string, version func() (string, error)) error {
	return s.access.RetryChanged(func() (changed bool, err error) {
		stored, err := s.storedBookmark(ctx, user, post)
		if err != nil {
			return false, err
		}
		same, err := ownBookmarks().place(stored, after, func() error { return s.mayBookmarkMore(ctx, user, after) })
		if err != nil || same == nil {
			return false, err
		}
		var ops []table.TransactOp
		if stored != nil {
			ops = append(ops, table.TransactOp{Delete: &table.DeleteInput{Key: schema.BookmarkKey(user, stored.V)}})
		}
		v, err := version()
		if err != nil {
			return false, fmt.Errorf("feed: %w", err)
		}
		listed, byPost := schema.Bookmark{User: user, Post: post, V: v}.Items()
		err = s.access.Transact(ctx, append(ops, table.TransactOp{Put: &table.PutInput{Item: byPost, If: same}}, table.TransactOp{Put: &table.PutInput{Item: listed}})...)
		return access.ConditionFailed(err), fault.Wrap("table", err)
	})
}

// ImportBookmark makes a bookmark with a past time, unless the post was deleted.
func (s *Service) ImportBookmark(ctx context.Context, user, post string, at time.Time) error {
	after, _, err := s.access.WriterAndPost(ctx, access.AnyAudience(access.Operator), user, post)
	if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	return s.makeBookmark(ctx, user, post, after, func() (string, error) { return id.Named(above(after, at), post+"\x00"+user) })
}

// deadBookmarks is the maximum number of bookmarks of deleted posts that one call ends.
const deadBookmarks = 10

// mayBookmarkMore refuses a bookmark beyond MaxBookmarks. The bookmarks of former lives do not count.
// mayBookmarkMore first ends bookmarks of deleted posts, because no list shows these bookmarks, so their
// user could not end them.
func (s *Service) mayBookmarkMore(ctx context.Context, user, after string) error {
	all, err := ownBookmarks().ofThisLife(ctx, s, user, after)
	if err != nil || len(all) < MaxBookmarks {
		return err
	}
	posts := make([]string, len(all))
	for i, b := range all {
		posts[i] = b.Post
	}
	living, err := s.access.LivingPosts(ctx, access.AnyAudience(access.Limit), posts)
	if err != nil {
		return err
	}
	dead := slices.DeleteFunc(all, func(b schema.Bookmark) bool { _, lives := living[b.Post]; return lives })
	if len(dead) == 0 {
		return ownBookmarks().refusal()
	}
	for _, b := range dead[:min(len(dead), deadBookmarks)] {
		if _, err := s.endBookmark(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// Unbookmark ends a bookmark. A call may be repeated, and may name a deleted post.
func (s *Service) Unbookmark(ctx context.Context, user, post string) error {
	if err := s.access.RequireWriter(ctx, user); err != nil {
		return err
	}
	stored, err := s.storedBookmark(ctx, user, post)
	if err != nil || stored == nil {
		return err
	}
	_, err = s.endBookmark(ctx, *stored)
	return err
}

// endBookmark ends a bookmark if its user has not renewed the bookmark after the read, and reports
// whether the bookmark no longer exists.
func (s *Service) endBookmark(ctx context.Context, b schema.Bookmark) (ended bool, err error) {
	return s.transactIfUnchanged(ctx, []table.TransactOp{
		{Delete: &table.DeleteInput{Key: schema.BookmarkOfKey(b.User, b.Post), If: table.Any{table.Absent{}, sameBookmark(b)}}},
		{Delete: &table.DeleteInput{Key: schema.BookmarkKey(b.User, b.V)}},
	})
}

// sameBookmark holds while a bookmark has not changed since the read.
func sameBookmark(b schema.Bookmark) table.Cond {
	return table.Equal{Name: schema.AttrVersion, Value: table.S(b.V)}
}

// storedBookmark returns user's bookmark of a post, nil for none.
func (s *Service) storedBookmark(ctx context.Context, user, post string) (*schema.Bookmark, error) {
	it, err := s.access.Get(ctx, schema.BookmarkOfKey(user, post), true)
	if err != nil {
		return nil, err
	}
	return ownBookmarks().stored(it)
}

// BookmarkOf returns user's bookmark of a post, if the list of bookmarks shows it.
func (s *Service) BookmarkOf(ctx context.Context, user, post string) (Bookmarked, error) {
	seen, err := s.access.LivingPost(ctx, access.As(user), post)
	if err != nil {
		return Bookmarked{}, err
	}
	stored, err := s.storedBookmark(ctx, user, post)
	if err != nil {
		return Bookmarked{}, err
	}
	blocked, err := s.access.Get(ctx, schema.BlockKey(user, seen.Ref().Author), true)
	if err != nil {
		return Bookmarked{}, err
	}
	if stored == nil || blocked != nil {
		return Bookmarked{}, fault.NotFoundf("you have no bookmark of post %s", post)
	}
	return bookmarkedOf(*stored), nil
}

// CallsOfKept is the number of table calls of KeptOf, apart from the posts that are read by key and from the user's
// reposts: the query, and the profile. The reads of the reposts do not come out of the calls of the page.
const CallsOfKept = 2

// keptFor returns KeptOf for a viewer with Kept, nil for any other viewer.
func (s *Service) keptFor(ctx context.Context, calls *page.Budget, viewer Viewer, refs []access.Ref) (map[string]Kept, error) {
	if !viewer.Kept {
		return nil, nil
	}
	return s.KeptOf(ctx, calls, viewer.ID(), refs)
}

// KeptOf returns what user keeps about some posts, by one round trip, and by one more if user has reposted some of the
// posts. No read is consistent. calls counts only the bookmarks that are read by key.
func (s *Service) KeptOf(ctx context.Context, calls *page.Budget, user string, refs []access.Ref) (map[string]Kept, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	var own []schema.Bookmark
	bookmarks := keptThings{schema.BookmarksPK(user), func(post string) table.Key { return schema.BookmarkOfKey(user, post) }, func(it table.Item) error {
		b, err := schema.ParseBookmark(it)
		own = append(own, b)
		return err
	}}
	bound := map[string]string{} // the posts, by the ids of their reposts
	reposts := keptThings{schema.RepostsPK(user), func(post string) table.Key { return schema.RepostKey(user, post) }, func(it table.Item) error {
		b, err := schema.ParseRepost(it)
		bound[b.R] = b.Of
		return err
	}}
	var profile *table.Item
	err := s.access.All(ctx,
		func(ctx context.Context) (err error) {
			profile, err = s.access.Recent.One(ctx, schema.ProfileKey(user))
			return err
		},
		func(ctx context.Context) error { return s.readKept(ctx, calls, bookmarks, refs) },
		func(ctx context.Context) error { return s.readKept(ctx, &page.Budget{}, reposts, refs) })
	if err != nil {
		return nil, err
	}
	var living map[string]access.Seen // a repost that was deleted as a post may leave its binding
	if ids := slices.Sorted(maps.Keys(bound)); len(ids) > 0 {
		if living, err = s.access.LivingPosts(ctx, access.As(user), ids); err != nil {
			return nil, err
		}
	}
	after, kept := "", make(map[string]Kept, len(own))
	if profile != nil {
		after = profile.Str(schema.AttrAfter)
	}
	for _, b := range own {
		kept[b.Post] = Kept{Bookmarked: !ownBookmarks().former(b, after)}
	}
	for repost := range living {
		of := kept[bound[repost]]
		of.Reposted = true
		kept[bound[repost]] = of
	}
	return kept, nil
}

// keptThings are the things of one sort that a user keeps about posts. keep is called with each of them.
type keptThings struct {
	pk   string
	key  func(post string) table.Key
	keep func(table.Item) error
}

// readKept reads the things of one sort: by one query, and the rest by key.
func (s *Service) readKept(ctx context.Context, calls *page.Budget, of keptThings, refs []access.Ref) error {
	rest := refs
	if len(refs) > 1 {
		var err error
		if rest, err = s.ownOfPosts(ctx, table.Query{PK: of.pk}, refs, of.keep); err != nil {
			return err
		}
		calls.Spend(access.Batches(len(rest)))
	}
	keys := make([]table.Key, len(rest))
	for i, r := range rest {
		keys[i] = of.key(r.Post)
	}
	found, err := s.access.BatchGet(ctx, keys, false)
	for _, it := range found {
		err = errors.Join(err, fault.Wrap("table", of.keep(it)))
	}
	return err
}

// Bookmarks lists user's bookmarks of living posts, the newest bookmark first. Bookmarks leaves out a
// post while a block exists between the post's author and user.
func (s *Service) Bookmarks(ctx context.Context, user string, in page.Request) (page.List[Bookmarked], error) {
	list, _, err := s.BookmarksWithPosts(ctx, user, in)
	return list, err
}

// BookmarksWithPosts returns the list of Bookmarks, and the posts by id.
func (s *Service) BookmarksWithPosts(ctx context.Context, user string, in page.Request) (page.List[Bookmarked], map[string]access.Seen, error) {
	noted, err := s.access.Get(ctx, schema.HasBlocksKey(user), true)
	if err != nil {
		return page.List[Bookmarked]{}, nil, err
	}
	living := s.access.LivingFor(access.As(user))
	author := func(b Bookmarked) string { return living.Posts[b.PostID].Ref().Author }
	ofLiving := access.OfLivingPosts(ctx, living, shownAs(schema.ParseBookmark, bookmarkedOf), func(b Bookmarked) string { return b.PostID })
	fill := access.RefillOfLivingPosts()
	fill.Budget.Spend(1 + callsOfBlocks)
	fill.Calls += callsOfBlocks
	list, err := listing[Bookmarked]{
		scope: page.ListByID("bookmarks", user, ""), sortKey: schema.BookmarkSK, position: func(b Bookmarked) string { return b.Version }, fill: fill,
		query: table.Query{PK: schema.BookmarksPK(user), Low: schema.SortBookmark, High: schema.SortBookmarkEnd, Descending: true, Consistent: true},
		read: func(items []table.Item) ([]Bookmarked, error) {
			shown, err := ofLiving(items)
			if err != nil || noted == nil {
				return shown, err
			}
			authors := make([]string, len(shown))
			for i, b := range shown {
				authors[i] = author(b)
			}
			blocked, err := s.blockedAmong(ctx, user, authors)
			return slices.DeleteFunc(shown, func(b Bookmarked) bool { return blocked[author(b)] }), err
		},
	}.page(ctx, s, in)
	return list, living.Posts, err
}

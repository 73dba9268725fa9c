package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/removal"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/likeagg"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// traffic makes random calls of five users. Each call takes some milliseconds.
type traffic struct {
	t     *testing.T
	rng   *rand.Rand
	store table.Store
	s     domain
	now   time.Time
	posts []schema.Post
	made  int
	// gone has the users who were removed at least once.
	gone map[string]bool
}

func newTraffic(t *testing.T, seed uint64, store table.Store) *traffic {
	t.Helper()
	w := &traffic{t: t, rng: rand.New(rand.NewPCG(seed, 1)), store: store, now: today, gone: map[string]bool{}}
	clock := func() time.Time { return w.now }
	way := access.New(access.Config{Store: store, Publisher: sink{}, IDs: id.NewGenerator(clock), Now: clock, Lifetimes: lifetime.Fixed(timelineTTL)})
	s := feed.New(feed.Config{Access: way, LikesByUser: true})
	w.s = domain{s, home.New(home.Config{Access: way, Items: s, Mutes: s}), removal.New(way, s)}
	return w
}

// call makes a call, which the service may refuse.
func (w *traffic) call() {
	w.now = w.now.Add(time.Duration(1+w.rng.IntN(20)) * time.Millisecond)
	ctx, s, users := w.t.Context(), w.s, []string{"ann", "bob", "cid", "dan", "eve"}
	user, other := users[w.rng.IntN(len(users))], users[w.rng.IntN(len(users))]
	w.made++
	text := fmt.Sprint("call ", w.made)
	var post schema.Post
	if len(w.posts) > 0 {
		post = w.posts[w.rng.IntN(len(w.posts))]
	}
	var err error
	switch w.rng.IntN(19) {
	case 0, 1, 2:
		in := feed.PostInput{Content: feed.Content{Text: text}}
		if w.rng.IntN(3) == 0 {
			in.ExpiresAt = w.now.Add(time.Duration(1+w.rng.IntN(3)) * time.Second)
		}
		if w.rng.IntN(3) == 0 {
			in.QuoteOf = post.ID
		}
		var p feed.Post
		if p, err = s.CreatePost(ctx, user, in); err == nil {
			w.posts = append(w.posts, schema.Post{ID: p.ID, Author: user})
		}
	case 3:
		err = s.DeletePost(ctx, post.Author, post.ID)
	case 4, 5:
		err = s.Follow(ctx, user, other)
	case 6:
		err = s.Unfollow(ctx, user, other)
	case 7:
		err = s.Block(ctx, user, other)
	case 8:
		err = s.Unblock(ctx, user, other)
	case 9:
		err = s.Mute(ctx, user, other)
	case 10:
		_, err = s.CreateComment(ctx, user, post.ID, text)
	case 11:
		err = s.Bookmark(ctx, user, post.ID)
	case 12:
		_, err = s.SetMarker(ctx, user, "home", text)
	case 13:
		err = likeagg.Direct(ctx, likeagg.Config{Store: w.store, Now: func() time.Time { return w.now }, Window: time.Millisecond}, nil, func(_ context.Context, add func(likeagg.UserAction) error) error {
			return add(likeagg.UserAction{Post: post.ID, User: user, Kind: "like", Version: id.Floor(w.now)})
		})
	case 14:
		_, err = s.PutProfile(ctx, user, feed.ProfileInput{Name: text})
	case 15, 16:
		_, err = s.Repost(ctx, user, post.ID)
	case 17:
		err = s.EndRepost(ctx, user, post.ID)
	case 18:
		if user != "eve" && w.rng.IntN(3) == 0 {
			err = s.DeleteProfile(ctx, user)
			w.gone[user] = true
		}
	}
	_ = err // a refusal is an outcome of a random call
}

// busy is a table with calls of users before each read.
type busy struct {
	table.Store
	w *traffic
}

func (b busy) call() {
	for b.w.rng.IntN(2) == 0 {
		b.w.call()
	}
}

func (b busy) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	b.call()
	return b.Store.Get(ctx, in)
}

func (b busy) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	b.call()
	return b.Store.BatchGet(ctx, in)
}

func (b busy) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	b.call()
	in.PageSize = 2
	return b.Store.Scan(ctx, in)
}

func (b busy) Query(ctx context.Context, in table.Query) iter.Seq2[table.Page, error] {
	in.PageSize = 2
	return func(yield func(table.Page, error) bool) {
		b.call()
		for page, err := range b.Store.Query(ctx, in) {
			if !yield(page, err) {
				return
			}
			b.call()
		}
	}
}

// seeds is the number of random exports.
const seeds = 150

// An import accepts each export beside random calls between any two reads. The export has each line that the table had
// before and after, exactly once, except the lines of users who were removed meanwhile, and of their posts.
func TestAnExportBesideTrafficIsImported(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			here := tabletest.NewMemory()
			_, err := transfer.Import(t.Context(), config(here), []string{file(t, append(network(),
				rec{"type": "user", "id": "dan", "name": "Dan", "time": ago(10 * day)},
				rec{"type": "user", "id": "eve", "name": "Eve", "time": ago(10 * day)},
				rec{"type": "follow", "follower_id": "ann", "author_id": "cid", "time": ago(day)})...)})
			require.NoError(t, err)
			w := newTraffic(t, seed, here)
			for range 60 {
				w.call()
			}
			w.now = w.now.Add(10 * time.Minute) // no id is ahead any more
			cfg := config(here)
			cfg.Now = func() time.Time { return w.now }
			quiet := func() string {
				cfg.Store, cfg.Alone = here, true
				var out bytes.Buffer
				require.NoError(t, transfer.Export(t.Context(), cfg, &out))
				return out.String()
			}
			clear(w.gone)
			before := quiet()
			cfg.Store, cfg.Alone = busy{here, w}, false
			var out bytes.Buffer
			require.NoError(t, transfer.Export(t.Context(), cfg, &out))
			after := quiet()
			imported(t, out.String(), w.now)
			removed := slices.Collect(maps.Keys(w.gone)) // and then their posts
			for line := range strings.Lines(before) {
				named := slices.ContainsFunc(removed, func(id string) bool { return strings.Contains(line, `"`+id+`"`) })
				if post, is := strings.CutPrefix(line, `{"type":"post","id":"`); is && named {
					removed = append(removed, post[:26])
				}
			}
			for line := range strings.Lines(before) {
				named := slices.ContainsFunc(removed, func(id string) bool { return strings.Contains(line, `"`+id+`"`) })
				if !named && strings.Contains(after, line) {
					assert.Equal(t, 1, strings.Count(out.String(), line), line)
				}
			}
		})
	}
}

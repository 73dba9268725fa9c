package live_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/live"
	"fanfare/internal/planttest"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// A post arrives at each moment of the opening of a second stream: while the stream begins, replays,
// waits for its turn, looks once more and joins. Both streams get the post once.
func TestAPostThatComesWhileAStreamJoinsIsSentOnce(t *testing.T) {
	t.Parallel()
	const latency, opening = 20 * time.Millisecond, 600 * time.Millisecond
	for at := time.Duration(0); at < opening && !t.Failed(); at += 3 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t, tabletest.NewMemory())
			first := a.client(t, "ann", "")
			_, last := a.client(t, "ann", "").leave()
			want := a.fill(t, "ann", 30, false)
			<-time.After(2*poll + poll/2)
			a.slow(latency)
			second := make(chan *client, 1)
			go func() {
				c, err := a.connect(t, live.Caller{User: "ann"}, last)
				assert.NoError(t, err)
				second <- c
			}()
			<-time.After(at)
			post := a.post(t, "author")
			a.deliver(t, "author", post, "ann")
			want = append(want, post)
			<-time.After(5 * poll)
			for i, c := range []*client{first, <-second} {
				got, _ := c.leave()
				assert.Equalf(t, want, got, "stream %d: a post comes %s after the opening", i, at)
			}
		})
	}
}

// Streams of one home have separate windows. A post that is older than other posts reaches each
// stream, and an older like count reaches each stream, too.
func TestStreamsKeepTheirOwnWindows(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t, tabletest.NewMemory())
			var posts, late []string
			for range n + 2 {
				posts, late = append(posts, a.post(t, "author")), append(late, a.post(t, "author"))
			}
			for _, post := range posts {
				a.deliver(t, "author", post, "ann")
			}
			liked := posts[n+1]
			for _, it := range []table.Item{
				{Key: schema.LikeCountKey(liked), Attrs: []table.Attr{{Name: schema.AttrLikes, Value: table.N(3)}}},
				schema.PostRef{ID: liked, Author: "author", LikeShards: 1}.Item(),
			} {
				_, err := a.store.Put(t.Context(), table.PutInput{Item: it})
				require.NoError(t, err)
			}
			var clients []*client
			for range 3 {
				clients = append(clients, a.client(t, "ann", ""))
			}
			late = late[max(0, len(late)-10):]
			for i := range late {
				a.deliver(t, "author", late[len(late)-1-i], "ann")
				<-time.After(poll)
			}
			<-time.After(5 * poll)
			for i, c := range clients {
				got, _ := c.leave()
				assert.ElementsMatchf(t, late, got, "stream %d of a home of %d posts", i, len(posts))
				assert.Equalf(t, []string{liked + " 3"}, c.likes, "stream %d", i)
			}
		})
	}
}

// The tests of this package must find each of these bugs.
func TestPlantedBugsAreFound(t *testing.T) {
	t.Parallel()
	const (
		stream, hub, share = "internal/live/stream.go", "internal/live/home.go", "internal/live/share.go"
		arrivals           = "internal/feed/home/arrivals.go"
	)
	for name, b := range map[string]struct {
		edit       planttest.Edit
		test, want string
	}{
		"a stream joins without the last replay in its turn": {
			planttest.Edit{File: stream, Old: "err = st.home.locked(ctx, func() error { return st.tryToJoin(ctx) })", New: "err = st.home.locked(ctx, func() error { return st.home.join(ctx, st) })"},
			"TestAPostThatComesWhileAStreamJoinsIsSentOnce", "after the opening",
		},
		"the window of a stream is the home's": {
			planttest.Edit{File: stream, Old: "st.seen = hm.seen.Clone(); !", New: "st.seen = hm.seen; !"},
			"TestStreamsKeepTheirOwnWindows", "of a home of",
		},
		"the window of the home is a stream's": {
			planttest.Edit{File: hub, Old: "hm.seen = st.seen.Clone()", New: "hm.seen = st.seen"},
			"TestClientsMoveBetweenProcesses", "got",
		},
		"windows share the memory of their posts": {
			planttest.Edit{File: arrivals, Old: "posts: slices.Clone(v.posts), shown", New: "posts: v.posts, shown"},
			"TestStreamsKeepTheirOwnWindows", "of a home of",
		},
		"windows share the memory of their like counts": {
			planttest.Edit{File: arrivals, Old: "likes: map[string]PostLikes{}, behind: v.behind}", New: "likes: v.likes, behind: v.behind}"},
			"TestStreamsKeepTheirOwnWindows", "Not equal",
		},
		"replays do not rest": {
			planttest.Edit{File: share, Old: "return max(0, time.Until(s.paid[user]))", New: "return 0 * time.Until(s.paid[user])"},
			"TestAReplayRests", "is not less than or equal to",
		},
		"a share ends with its streams": {
			planttest.Edit{File: "internal/live/live.go", Old: "delete(h.homes, hm.user)", New: "delete(h.homes, hm.user); delete(h.shares.paid, hm.user)"},
			"TestAReplayRests", "An error is expected",
		},
		"like counts for a stream are not charged": {
			planttest.Edit{File: hub, Old: "err := hm.read(ctx, st, unitsOfLikes, func(ctx context.Context) error {\n\t\t// The joined", New: "err := hm.hub.reading(ctx, func(ctx context.Context) error {\n\t\t// The joined"},
			"TestAUserThatReconnectsReadsNoMoreThanItsShare", "Max difference",
		},
		"open streams outlive the profile": {
			planttest.Edit{File: "internal/live/keep.go", Old: "hm.stop(ErrNoProfile)", New: "return nil"},
			"TestStreamsEndWithTheProfileOfTheirUser", "a stream is open",
		},
	} {
		t.Run(name, func(t *testing.T) {
			binary := planttest.Build(t, planttest.Overlay(t, planttest.Root(t), []planttest.Edit{b.edit}))
			planttest.MustFail(t, binary, b.test, b.want, 1)
		})
	}
}

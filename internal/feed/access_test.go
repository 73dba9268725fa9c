package feed_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/backoff"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// uneven is a table in which a read of the key late takes a second, and a read of the key lost fails.
type uneven struct {
	table.Store
	late, lost table.Key
}

func (u *uneven) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if in.Key == u.late {
		if err := backoff.Wait(ctx, time.Second); err != nil {
			return table.GetResult{}, err
		}
	}
	if in.Key == u.lost {
		return table.GetResult{}, errDown
	}
	return u.Store.Get(ctx, in)
}

// A writer without a profile gets the error of the missing profile, even if the post is missing, too.
// If a read fails, the writer gets neither of these two errors.
func TestTheSameErrorComesFirstWhicheverReadEndsFirst(t *testing.T) {
	profile, post := schema.ProfileKey("nobody"), schema.PostByIDKey(id.Min)
	for _, late := range []table.Key{profile, post} {
		for lost, want := range map[table.Key]fault.Kind{
			{}: fault.ProfileMissing, profile: fault.Unavailable, post: fault.Unavailable,
		} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(c *config) { c.Store = &uneven{c.Store, late, lost} })
				_, err := w.CreateComment(t.Context(), "nobody", id.Min, "x")
				wantKind(t, err, want)
			})
		}
	}
}

// A local table is read on the request's own goroutine, and after a failed read no further read
// follows.
func TestReadsOfALocalTableComeOneAfterTheOther(t *testing.T) {
	const latency = 10 * time.Millisecond
	for _, local := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, tp := tapped(t, func(c *config) { c.Local = local })
			w.users("ann")
			p := w.post("ann", "x")
			tp.latency = latency
			tp.take()
			began := time.Now()
			_, err := w.LikeCount(t.Context(), access.Viewer{}, p.ID)
			require.NoError(t, err)
			reads := 1 // one round trip is enough for all reads
			if local {
				reads = 2
			}
			assert.Equal(t, time.Duration(reads)*latency, time.Since(began), "local %v", local)
			tp.take()
			_, err = w.LikeCount(t.Context(), access.Viewer{}, id.Min)
			wantKind(t, err, fault.NotFound)
			assert.Len(t, tp.take(), map[bool]int{false: 2, true: 1}[local], "local %v", local)
		})
	}
}

// Concurrent reads of one post share one read of the table, except in a process with the table on its
// own disk.
func TestReadsAreSharedUnlessTheTableIsLocal(t *testing.T) {
	const readers = 10
	for _, c := range []struct {
		name string
		key  func(p feed.Post) table.Key
		call func(ctx context.Context, w *world, p feed.Post) error
	}{
		{"a post by key", func(p feed.Post) table.Key { return schema.PostKey("ann", p.ID) }, func(ctx context.Context, w *world, _ feed.Post) error {
			return pageOf(w.Home(ctx, "ann", home.Query{}, page.Request{}))
		}},
		{"a post by id", func(p feed.Post) table.Key { return schema.PostByIDKey(p.ID) }, func(ctx context.Context, w *world, p feed.Post) error {
			return w.Like(ctx, "ann", p.ID)
		}},
		{"a profile with counts", func(feed.Post) table.Key { return table.Key{PK: schema.UserPK("ann")} }, func(ctx context.Context, w *world, _ feed.Post) error {
			_, err := w.User(ctx, "ann")
			return err
		}},
	} {
		for _, local := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w, tp := tapped(t, func(c *config) { c.Local = local })
				w.users("ann")
				p := w.post("ann", "x")
				w.deliver()
				tp.latency = 10 * time.Millisecond
				tp.take()
				ended := make(chan error)
				for range readers {
					go func() { ended <- c.call(t.Context(), w, p) }()
				}
				for range readers {
					require.NoError(t, <-ended)
				}
				reads := 0
				for _, call := range tp.take() {
					if call.consistent && call.key == c.key(p) {
						reads++
					}
				}
				if local {
					assert.Equal(t, readers, reads, c.name)
				} else {
					assert.LessOrEqual(t, reads, 3, c.name)
				}
			})
		}
	}
}

// A transaction that conflicts is sent ten times, after waits that double from 20 up to 400
// milliseconds. In this test the jitter halves each wait.
func TestAConflictIsTriedAgainAfterWaitsThatDouble(t *testing.T) {
	const all = 10 + 20 + 40 + 80 + 160 + 4*200
	for _, c := range []struct {
		patience, takes time.Duration
		sent            int
	}{{time.Hour, all * time.Millisecond, 10}, {50 * time.Millisecond, 50 * time.Millisecond, 3}} {
		synctest.Test(t, func(t *testing.T) {
			w, tp := tapped(t, func(c *config) { c.Jitter = func() float64 { return 0.5 } })
			w.users("ann", "bob")
			sent := 0
			tp.set(func(c call) failure {
				if c.op == table.OpTransact {
					sent++
					return conflicts
				}
				return works
			})
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			defer cancel()
			wantKind(t, w.Mute(ctx, "ann", "bob"), fault.Unavailable)
			assert.Equal(t, c.takes, time.Since(began))
			assert.Equal(t, c.sent, sent)
		})
	}
}

package pair

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/stream"
)

// seedOf returns the messages of the seed of a primary whose stores have n keys each.
func seedOf(t *testing.T, n int) (messages []message) {
	t.Helper()
	mem := vfs.NewMem()
	opened, err := stream.Open(stream.Config{FS: mem, Dir: "stream", Spool: 1 << 20, Log: zap.NewNop()}, stream.Position{})
	require.NoError(t, err)
	receiver := opened.Hold()
	dbs := map[string]*disk.DB{}
	for store := stream.Queue; store <= stream.Table; store++ {
		db, err := openTestStore(disk.TappedFS{FS: mem, Tap: opened.Tap(store)}, storeDir(store))
		require.NoError(t, err)
		for key := range n {
			require.NoError(t, db.Set(fmt.Append(nil, key), []byte("value"), pebble.Sync))
			if key == n/2 {
				require.NoError(t, db.Flush())
			}
		}
		dbs[storeDir(store)] = db
	}
	near, far := net.Pipe()
	timing := Timing{Heartbeat: time.Minute, Lease: time.Hour}.withClock()
	p := &Primary{cfg: PrimaryConfig{FS: mem, Seeds: "seeds", SeedRate: 1 << 30, Timing: timing}, stream: opened, role: &Role{Mode: ModeAlone}, tenure: &tenure{}, changed: make(chan struct{})}
	p.promise.begin(timing)
	p.checkpoint = func(_ context.Context, dir string) error {
		err := disk.MakeDir(mem, dir)
		for name, db := range dbs {
			err = errors.Join(err, db.Checkpoint(mem.PathJoin(dir, name)))
		}
		return err
	}
	s := &session{primary: p, link: newLink(near, time.Minute), receiver: receiver, at: receiver.Restart()}
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() { written <- s.write(ctx) }()
	for standby := newLink(far, time.Minute); ; {
		m, err := standby.receive()
		require.NoError(t, err)
		if messages = append(messages, m); m.kind == msgWhole {
			break
		}
	}
	stop()
	require.NoError(t, far.Close())
	require.Error(t, <-written)
	for _, db := range dbs {
		require.NoError(t, db.Close(func() {}))
	}
	return messages
}

// keysIn returns the number of keys that the stores of a standby have.
func keysIn(t *testing.T, s *Standby) (n int) {
	t.Helper()
	for _, db := range s.apply.dbs {
		it, err := db.NewIter(nil)
		require.NoError(t, err)
		for valid := it.First(); valid; valid = it.Next() {
			if string(it.Value()) == "value" {
				n++
			}
		}
		require.NoError(t, it.Close())
	}
	return n
}

// A seed of which any message is missing, doubled or damaged is no copy: the standby opens no store, and asks for another seed.
func TestASeedWithoutAMessageIsNoCopy(t *testing.T) {
	t.Parallel()
	all := seedOf(t, 100)
	require.Greater(t, len(all), 12)
	seeds := map[string][]message{"": all}
	for i := 1; i < len(all); i++ {
		seeds[fmt.Sprintf("without message %d, of kind %d", i, all[i].kind)] = slices.Delete(slices.Clone(all), i, i+1)
		if all[i].kind != msgWhole {
			seeds[fmt.Sprintf("message %d, of kind %d, twice", i, all[i].kind)] = slices.Insert(slices.Clone(all), i, all[i])
		}
		if all[i].kind == msgContent {
			flipped := slices.Clone(all)
			flipped[i].data = slices.Clone(all[i].data)
			flipped[i].data[0] ^= 1
			seeds[fmt.Sprintf("message %d, flipped", i)] = flipped
		}
	}
	for name, messages := range seeds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, ctx := openTestStandby(t, ModeSeeding, peer{primaryHello(ModeAlone), messages})
				_, err := s.Run(ctx)
				require.NoError(t, err)
				if name == "" {
					require.Equal(t, ModeFollowing, s.role.Mode)
					require.NoError(t, s.apply.follower.Finish())
					require.Equal(t, 200, keysIn(t, s))
				} else {
					assert.Equal(t, ModeSeeding, s.role.Mode, "the standby takes the seed for a whole copy")
					assert.Nil(t, s.apply, "a store is open")
				}
				require.NoError(t, s.Close())
			})
		})
	}
}

// A standby opens the stores that it has, and never makes one: an empty store would be promoted with nothing.
func TestAStandbyMakesNoStore(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"data/queue", "data/table", "data/table/marker.manifest"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			s, _ := openTestStandby(t, ModeFollowing)
			require.NoError(t, s.Close())
			names, err := s.cfg.FS.List("data/table")
			require.NoError(t, err)
			for _, name := range names {
				if strings.HasPrefix("data/table/"+name, lost) {
					require.NoError(t, s.cfg.FS.Remove("data/table/"+name))
				}
			}
			if !strings.Contains(lost, "marker") {
				require.NoError(t, s.cfg.FS.RemoveAll(lost))
			}
			_, err = OpenStandby(s.cfg)
			require.ErrorIs(t, err, ErrDamagedCopy)
			names, err = s.cfg.FS.List("data")
			require.NoError(t, err)
			require.Subset(t, []string{"queue", "table", TailDir}, names)
		})
	}
}

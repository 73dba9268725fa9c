package daemon_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/daemon"
	"fanfare/internal/disk"
	"fanfare/internal/pair"
	queueembedded "fanfare/internal/queue/embedded"
	logs "fanfare/internal/stream"
	tableembedded "fanfare/internal/table/embedded"
)

// cut is a connection that ends after the first ack.
type cut struct {
	net.Conn
	writes int // the hello, then acks
	down   *atomic.Bool
}

func (c *cut) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.writes++; c.writes == 2 {
		c.down.Store(true)
		err = errors.Join(err, c.Close())
	}
	return n, err
}

// The first ack of the standby lets a primary open its stores, which waits for more acks. If the standby is promoted instead, the
// primary still becomes its standby.
func TestAStartThatIsReplacedBecomesAStandby(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	one.start(false)
	ann := tokens(t, one.dir)(t, "ann")
	two.start(true)
	two.untilPaired()
	called(t, one.at.HTTP, ann, "paired")
	require.NoError(t, one.stop())
	require.NoError(t, two.stop())

	cfg := two.settings()
	role, err := pair.LoadRole(two.dir)
	require.NoError(t, err)
	down := new(atomic.Bool)
	register, err := daemon.OpenRegister(withAWS(t.Context(), two.register), cfg.Register)
	require.NoError(t, err)
	standby, err := pair.OpenStandby(pair.StandbyConfig{
		Register: register, FailoverAfter: cfg.FailoverAfter,
		Role: role, Dir: two.dir, Stream: filepath.Join(two.dir, "stream"), DataFormat: 1 << 10, Version: "test", Log: zap.NewNop(),
		Timing: pair.Timing{Heartbeat: cfg.Heartbeat(), Patience: cfg.StandbyTimeout, Lease: cfg.Lease},
		Dial: func(ctx context.Context) (net.Conn, error) {
			if down.Load() {
				return nil, errors.New("the link is cut")
			}
			conn, err := pair.Keys{Cert: cfg.PeerCert, Key: cfg.PeerKey, CA: cfg.PeerCA}.Dial(ctx, cfg.Peer)
			return &cut{Conn: conn, down: down}, err
		},
		Open: func(store logs.Store, path string) (*disk.DB, error) {
			if store == logs.Queue {
				return queueembedded.OpenReplica(path, zap.NewNop(), disk.Logged)
			}
			return tableembedded.OpenReplica(path, zap.NewNop(), disk.Logged)
		},
	})
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() {
		_, err := standby.Run(t.Context())
		ran <- err
	}()
	one.patience = 5 * time.Second // it is not alone before the promotion
	one.begin(false)
	until(t, "the cut of the link", down.Load)
	require.NoError(t, standby.Promote(t.Context(), false))
	require.NoError(t, <-ran)
	require.NoError(t, standby.Close())
	two.start(false)
	until(t, "the standby", func() bool {
		select {
		case one.at = <-one.ready:
			return true
		default:
			return false
		}
	})
	assert.True(t, one.at.Standby)
	one.untilPaired()
	called(t, two.at.HTTP, ann, "paired again")
}

// A primary whose stores were put back answers nothing beside its standby, and the register still allows the promotion (P9).
func TestAPrimaryWithOldStoresEnds(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	one.start(false)
	ann := tokens(t, one.dir)(t, "ann")
	two.start(true)
	two.untilPaired()
	require.NoError(t, one.stop())
	old := filepath.Join(t.TempDir(), "old")
	require.NoError(t, os.CopyFS(old, os.DirFS(one.dir)))
	one.start(false)
	called(t, one.at.HTTP, ann, "later")
	one.untilPaired()
	require.NoError(t, one.stop())
	role, err := os.ReadFile(filepath.Join(one.dir, pair.RoleFile))
	require.NoError(t, err)
	lock := filepath.Join(t.TempDir(), "LOCK") // a disk that is put back as a whole has its lock file; a copy of the files is refused
	require.NoError(t, os.Rename(filepath.Join(one.dir, "LOCK"), lock))
	require.NoError(t, os.RemoveAll(one.dir))
	require.NoError(t, os.CopyFS(one.dir, os.DirFS(old)))
	one.begin(false)
	require.ErrorIs(t, <-one.ended, pair.ErrCopied)
	one.ended = nil
	require.NoError(t, os.Rename(lock, filepath.Join(one.dir, "LOCK")))
	require.NoError(t, os.WriteFile(filepath.Join(one.dir, pair.RoleFile), role, 0o600))
	one.begin(false)
	require.ErrorIs(t, <-one.ended, pair.ErrRewound)
	one.ended = nil
	_, err = admin.Promote().Do(t.Context(), two.client(), admin.Promotion{PrimaryIsGone: true})
	require.NoError(t, err)
	two.await(false)
	text := two.profile(ann)
	assert.Contains(t, text, "later")
}

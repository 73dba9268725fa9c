package pair

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// troubled returns a standby of which one store is in trouble: its log cannot be written, and holds the goroutine that applies.
func troubled(t *testing.T, trouble error) *following {
	t.Helper()
	s := &Standby{cfg: StandbyConfig{FS: vfs.NewMem(), Timing: Timing{Heartbeat: 10 * time.Millisecond}.withClock()}}
	files := disktest.New(vfs.NewMem())
	dbs := map[stream.Store]*disk.DB{}
	for _, store := range []stream.Store{stream.Queue, stream.Table} {
		db, err := disk.Open(nil, storeDir(store), zap.NewNop(), &pebble.Options{FS: files, FormatMajorVersion: pebble.FormatValueSeparation}, disk.Format{Key: []byte("format"), Known: 1})
		require.NoError(t, err)
		dbs[store] = db
	}
	var err error
	s.tail, err = openTail(s.cfg.FS, TailDir, tailSize)
	require.NoError(t, err)
	s.apply, err = newApplier(s.tail, dbs)
	require.NoError(t, err)
	files.Set(func(op, name string, _ int) error {
		if op == "write" && strings.Contains(name, "queue") && strings.HasSuffix(name, ".log") {
			return trouble
		}
		return nil
	})
	require.NoError(t, dbs[stream.Queue].Set([]byte("key"), make([]byte, 100_000), pebble.NoSync))
	disktest.Until(t, func() bool { return s.apply.trouble() != nil })
	t.Cleanup(func() { files.Set(nil) })
	return &following{standby: s, applying: make(chan struct{}), endApply: func() {}, stopped: t.Context().Done()}
}

// A store whose disk has failed holds the goroutine that applies forever. The standby ends with the reason.
func TestAFailedStoreEndsTheStandby(t *testing.T) {
	t.Parallel()
	f := troubled(t, syscall.EIO)
	require.ErrorIs(t, f.confirm(), disk.ErrFailed, "a standby confirms what its stores will never have")
	require.ErrorIs(t, f.stopApply(), disk.ErrFailed)
	_, err := f.standby.apply.step(t.Context())
	require.ErrorIs(t, err, disk.ErrFailed, "a standby without its stores takes over")
	require.ErrorIs(t, f.standby.closeData(), disk.ErrFailed)
}

// A stop does not wait for room on the disk of a store.
func TestAStopDoesNotWaitForRoom(t *testing.T) {
	t.Parallel()
	f := troubled(t, syscall.ENOSPC)
	require.NoError(t, f.standby.apply.lost())
	stopped := make(chan struct{})
	close(stopped)
	f.stopped = stopped
	require.ErrorIs(t, f.stopApply(), disk.ErrFull)
	require.ErrorIs(t, f.standby.closeData(), disk.ErrFull)

	f = troubled(t, syscall.ENOSPC) // no goroutine applies
	require.ErrorIs(t, f.standby.closeData(), disk.ErrFull)
}

// A standby whose store has found damage is no copy of its primary.
func TestADamagedStoreEndsTheStandby(t *testing.T) {
	t.Parallel()
	f := troubled(t, syscall.ENOSPC)
	require.ErrorIs(t, f.standby.apply.dbs[stream.Table].Damaged(disk.ErrDamaged), disk.ErrDamaged)
	_, err := f.standby.apply.step(t.Context())
	require.ErrorIs(t, err, ErrDamagedCopy)
}

// A start of the primary reads the logs of its stores one after the other, so behind the last safe point the tail may have a write of the queue
// without the earlier write of the table on which it depends. A standby that gives writes up ends at the safe point.
func TestAStandbyThatGivesWritesUpEndsAtTheSafePoint(t *testing.T) {
	t.Parallel()
	options := func(fs vfs.FS) *pebble.Options {
		return &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatValueSeparation}
	}
	source := vfs.NewMem()
	db, err := pebble.Open("queue", options(source))
	require.NoError(t, err)
	require.NoError(t, db.Set([]byte("key"), nil, pebble.Sync))
	require.NoError(t, db.Close())
	for _, givesUp := range []bool{false, true} {
		files := vfs.NewMem()
		dbs := map[stream.Store]*disk.DB{}
		for _, store := range []stream.Store{stream.Queue, stream.Table} {
			dbs[store], err = disk.Open(nil, storeDir(store), zap.NewNop(), options(files), disk.Format{Key: []byte("format"), Known: 1})
			require.NoError(t, err)
		}
		tail, err := openTail(files, TailDir, tailSize)
		require.NoError(t, err)
		for frame, err := range follow.Logs(source, "queue", stream.Queue, stream.Place{}, 0) {
			require.NoError(t, err)
			require.NoError(t, tail.append(frame))
		}
		_, err = tail.sync()
		require.NoError(t, err)
		apply, err := newApplier(tail, dbs)
		require.NoError(t, err)
		exact, err := apply.finish(t.Context(), givesUp)
		require.NoError(t, err)
		require.Equal(t, !givesUp, exact)
		_, closer, err := dbs[stream.Queue].Get([]byte("key"))
		if givesUp {
			require.ErrorIs(t, err, pebble.ErrNotFound)
		} else {
			require.NoError(t, err)
			require.NoError(t, closer.Close())
		}
		require.NoError(t, apply.close())
	}
}

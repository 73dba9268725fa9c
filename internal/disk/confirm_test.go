package disk_test

import (
	"cmp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
)

const patience = 2 * time.Second

// machine is another machine, which confirms the log of a store.
type machine struct {
	tap      *recorder
	patience time.Duration // 0 is patience

	mu      sync.Mutex
	away    chan struct{} // nil while the machine confirms at once
	unasked bool          // no other machine is needed
	early   bool          // a place was asked for before it was synced
}

func (m *machine) confirmed(log, offset uint64) <-chan struct{} {
	m.tap.mu.Lock()
	synced := m.tap.synced[log]
	m.tap.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.early = m.early || synced < offset
	if m.away != nil || m.unasked {
		return m.away
	}
	now := make(chan struct{})
	close(now)
	return now
}

func (m *machine) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = make(chan struct{})
}

func (m *machine) come() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.away)
	m.away = nil
}

// openPaired opens a store whose log another machine confirms.
func openPaired(stop <-chan struct{}, below vfs.FS, m *machine) (*disk.DB, error) {
	m.tap = newRecorder()
	fs := disk.TappedFS{FS: below, Tap: m.tap, Confirmed: m.confirmed, Patience: cmp.Or(m.patience, patience)}
	return disk.Open(stop, "data", zap.NewNop(), &pebble.Options{FS: fs}, disk.Format{Key: []byte("format"), Known: 1})
}

// answered reports whether a write was answered, and fails the test if the answer is an error.
func answered(t *testing.T, done <-chan error) bool {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		require.NoError(t, err)
		return true
	default:
		return false
	}
}

// P1: a write is answered once this machine and the other machine have it.
func TestAWriteIsAnsweredOnceAnotherMachineHasIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		db, err := openPaired(nil, vfs.NewMem(), m)
		require.NoError(t, err)
		require.True(t, answered(t, write(db, "both")))

		m.leave()
		done := write(db, "late")
		<-time.After(patience - time.Millisecond)
		assert.False(t, answered(t, done))
		assert.NoError(t, db.Health(), "within the patience")
		trouble, _ := db.State()
		began := time.Now()
		<-trouble
		assert.Equal(t, time.Millisecond, time.Since(began))
		assert.ErrorIs(t, db.Health(), disk.ErrUnconfirmed)
		<-time.After(time.Minute)
		assert.False(t, answered(t, done))
		assert.ErrorIs(t, db.Health(), disk.ErrUnconfirmed)

		m.come()
		assert.True(t, answered(t, done))
		assert.NoError(t, db.Health(), "the state passes without a restart")

		m.mu.Lock()
		m.unasked = true
		m.mu.Unlock()
		assert.True(t, answered(t, write(db, "alone")))
		assert.False(t, m.early)
		require.NoError(t, db.Close(func() {}))
		m.tap.check(t)
	})
}

// A confirmed write is no trouble, however late its writer looks: a stop confirms all writes, and then closes a store without trouble.
func TestAConfirmedWriteIsNeverLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := openPaired(nil, vfs.NewMem(), &machine{patience: -1})
		require.NoError(t, err)
		for range 100 { // the timer and the confirmation are both ready
			trouble, _ := db.State()
			require.True(t, answered(t, write(db, "both")))
			select {
			case <-trouble:
				t.Fatal(disk.ErrUnconfirmed)
			default:
			}
		}
		require.NoError(t, db.Close(func() {}))
	})
}

// Both troubles at once are no trouble only when both have passed.
func TestAFullDiskAndAnAbsentMachineAreTwoTroubles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, full := &machine{}, disktest.New(vfs.NewMem())
		db, err := openPaired(nil, full, m)
		require.NoError(t, err)
		m.leave()
		full.Fill(0)
		done := write(db, "a")
		<-time.After(time.Minute)
		assert.ErrorIs(t, db.Health(), disk.ErrFull)
		full.Set(nil)
		<-time.After(time.Minute)
		assert.ErrorIs(t, db.Health(), disk.ErrUnconfirmed)
		m.come()
		assert.True(t, answered(t, done))
		assert.NoError(t, db.Health())
		require.NoError(t, db.Close(func() {}))
	})
}

// A start of a pair writes, so it waits as long as the other machine is away.
func TestAStartWaitsForTheOtherMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, mem := &machine{}, vfs.NewMem()
		m.leave()
		done := make(chan opened, 1)
		go func() {
			db, err := openPaired(nil, mem, m)
			done <- opened{db, err}
		}()
		<-time.After(time.Minute)
		assert.Empty(t, done)
		m.come()
		got := <-done
		require.NoError(t, got.err)
		m.leave()
		recovered := make(chan error, 1)
		go func() { recovered <- got.db.Recover(nil, func() error { return <-write(got.db, "a") }) }()
		<-time.After(time.Minute)
		assert.False(t, answered(t, recovered))
		m.come()
		assert.True(t, answered(t, recovered))
		require.NoError(t, got.db.Close(func() {}))
	})
}

func TestAStopEndsAStartThatWaitsForTheOtherMachine(t *testing.T) {
	t.Parallel()
	m, stop := &machine{patience: time.Millisecond}, make(chan struct{})
	m.leave()
	close(stop)
	_, err := openPaired(stop, vfs.NewMem(), m)
	assert.ErrorIs(t, err, disk.ErrUnconfirmed)
}

// A stop does not wait for the other machine: the next start continues with the same log.
func TestAStopGivesUpWhileTheOtherMachineIsAway(t *testing.T) {
	t.Parallel()
	m, mem := &machine{patience: time.Millisecond}, vfs.NewCrashableMem()
	db, err := openPaired(nil, mem, m)
	require.NoError(t, err)
	m.leave()
	done := write(db, "a")
	trouble, _ := db.State()
	<-trouble
	err = db.Close(func() {})
	assert.ErrorIs(t, err, disk.ErrUnconfirmed)
	assert.Empty(t, done)
	after := open(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	_, closer, err := after.Get([]byte("a"))
	require.NoError(t, err)
	assert.NoError(t, closer.Close())
	assert.NoError(t, after.Close(func() {}))
}

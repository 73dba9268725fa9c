package pair_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/pair"
)

// diskFaults returns the faults of a standby's disk that pass. Each function begins a fault, and returns the function that ends it.
func diskFaults() map[string]func(*disktest.FS) (end func()) {
	fail := func(err error, op, file string) func(*disktest.FS) func() {
		return func(fs *disktest.FS) func() {
			fs.Set(func(did, name string, _ int) error {
				if did == op && strings.Contains(name, file) {
					return err
				}
				return nil
			})
			return func() { fs.Set(nil) }
		}
	}
	return map[string]func(*disktest.FS) func(){
		"full":             fail(syscall.ENOSPC, "write", "data"),
		"a failing sync":   fail(syscall.EIO, "sync", "tail"),
		"a failing create": fail(syscall.EMFILE, "create", "tail"),
		"a hanging sync": func(fs *disktest.FS) func() {
			released := make(chan struct{})
			fs.Set(func(did, name string, _ int) error {
				if did == "sync" && strings.Contains(name, "tail") {
					<-released
				}
				return nil
			})
			return func() { fs.Set(nil); close(released) }
		},
	}
}

// away expects that the standby counts as away: the primary answers alone.
func (w *world) away(a *machine) {
	w.Helper()
	pass(2 * timing.Patience)
	w.mode(a, pair.ModeAlone)
	w.works()
}

// A standby whose disk is full, fails or hangs confirms nothing: it counts as away. With room again, the two are a pair again,
// without a seed.
func TestAStandbyWithoutItsDiskIsAway(t *testing.T) {
	t.Parallel()
	for name, begin := range diskFaults() {
		t.Run(name, func(t *testing.T) {
			inPair(t, 2, func(w *world, a, b *machine) {
				disk := b.loadRole().Disk
				end := begin(b.disk)
				w.away(a)
				pass(time.Duration(w.rng.IntN(20_000)) * time.Millisecond)
				w.away(a)
				if name != "a hanging sync" {
					w.until(func() bool { return b.standby.Status().Reason != "" }) // a try has none until the disk fails
				}
				end()
				w.settle()
				w.works()
				require.Equal(w, disk, b.loadRole().Disk, "the standby gets a seed")
				w.end()
			})
		})
	}
}

// Bytes that are damaged on the way end the session, and the next session brings them again.
func TestDamageOnTheWayLosesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(w *world) {
		w.boot()
		w.settle()
		for range 20 {
			pass(time.Duration(w.rng.IntN(2000)) * time.Millisecond)
			w.network.damage()
		}
		require.NotZero(w, w.logs.FilterMessage("session ended").Len())
		pass(5 * time.Second)
		w.works()
		w.end()
	})
}

// A standby whose data are damaged at rest does not start, and names the way out: a seed.
func TestADamagedStandbyIsSeeded(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(w *world) {
		w.boot()
		_, b := w.settle()
		pass(2 * time.Second)
		b.exit()
		names, err := b.mem.List("data/tail")
		require.NoError(w, err)
		data := readFile(w, b.mem, "data/tail/"+names[len(names)-1])
		data[len(data)/2] ^= 1
		f, err := b.mem.Create("data/tail/"+names[len(names)-1], "test")
		require.NoError(w, err)
		_, err = f.Write(data)
		require.NoError(w, err)
		require.NoError(w, f.Close())
		b.begin()
		_, err = pair.OpenStandby(pair.StandbyConfig{Role: b.loadRole(), FS: b.mem, Dir: "data", Timing: b.timing()})
		require.ErrorIs(w, err, pair.ErrDamagedCopy)
		b.replace(pair.RoleStandby) // the way out: a seed
		b.boot()
		w.settle()
		w.works()
		w.end()
	})
}

func readFile(w *world, fs vfs.FS, name string) []byte {
	w.Helper()
	f, err := fs.Open(name)
	require.NoError(w, err)
	info, err := f.Stat()
	require.NoError(w, err)
	data := make([]byte, info.Size())
	_, err = f.ReadAt(data, 0)
	require.NoError(w, err)
	require.NoError(w, f.Close())
	return data
}

package archiving_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/stormtest"
	"fanfare/internal/stream"
)

func decode(t require.TestingT, text []byte) (frames []stream.Frame) {
	for r := stream.NewReader(bytes.NewReader(text)); ; {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return frames
		}
		require.NoError(t, err)
		frames = append(frames, f)
	}
}

func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time

// inBubble runs a test for some seeds, for fewer in the inner loop.
func inBubble(t *testing.T, seeds int, test func(w *world)) {
	t.Helper()
	for seed := range stormtest.Runs(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, uint64(seed))
				defer func() {
					if t.Failed() {
						for _, e := range w.logs.All() {
							t.Log(e.Time.Format("15:04:05"), e.Level, e.Message, e.ContextMap())
						}
						w.abandon()
					}
				}()
				test(w)
			})
		})
	}
}

// Whatever happens to the process, its disk's unsynced bytes and the archive: once the archive answers, it
// has what the directory has.
func TestAnArchiveHasWhatTheDirectoryHas(t *testing.T) {
	t.Parallel()
	seeds := 20
	if testing.Short() {
		seeds = 4
	}
	inBubble(t, seeds, func(w *world) {
		w.start()
		for range 25 {
			switch w.rng.IntN(10) {
			case 0, 1, 2, 3:
				w.write(w.rng.IntN(40))
			case 4, 5:
				pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
			case 6:
				w.objects.set(w.rng.IntN(2) == 0)
			case 7:
				w.stop()
				w.start()
			case 8:
				w.die(100)
				w.start()
			default:
				w.die(w.rng.IntN(101))
				w.start()
			}
		}
		w.write(5)
		w.objects.set(false)
		pass(5 * time.Minute)
		require.Empty(w, w.logs.FilterLevelExact(zap.ErrorLevel).All())
		require.NoError(w, errors.Join(w.Late(), w.Gap()))
		w.stop()
		w.same(false)
		w.same(true)
	})
}

// Writes never wait for an archive that is away. The frames that the spool has no room for are a
// gap, which the next base ends.
func TestAFullSpoolIsAGap(t *testing.T) {
	t.Parallel()
	inBubble(t, 6, func(w *world) {
		w.spool = 100 << 10
		w.start()
		w.write(10)
		pass(3 * time.Second)
		require.NoError(w, errors.Join(w.Late(), w.Gap()))
		w.objects.set(true)
		for range 100 {
			w.write(20)
			pass(time.Second)
		}
		require.ErrorContains(w, w.Late(), "the archive lacks the writes of the last")
		require.LessOrEqual(w, w.Spooled(), w.spool)
		require.ErrorContains(w, w.Gap(), "the spool was full", "the gap is known before the archive returns")
		require.EqualValues(w, 1, w.Gaps())
		if w.rng.IntN(2) == 0 { // the next process finds the gap
			w.die(100)
			w.start()
		}
		w.objects.set(false)
		pass(5 * time.Minute)
		require.NoError(w, errors.Join(w.Late(), w.Gap()), "the base ended the gap")
		require.EqualValues(w, 1, w.Gaps())
		w.write(20)
		w.stop()
		w.same(true)
	})
}

// A process without an archive leaves no frames, so the archive needs a base.
func TestAProcessWithoutAnArchiveMakesAGap(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(w *world) {
		w.start()
		w.write(30)
		w.stop()
		w.openStores(func(stream.Store) vfs.FS { return w.mem })
		w.write(30)
		w.closeStores()
		w.objects.set(w.rng.IntN(2) == 0)
		w.start()
		w.objects.set(false)
		pass(5 * time.Minute)
		require.EqualValues(w, 1, w.Gaps())
		w.write(30)
		w.stop()
		w.same(true)
	})
}

// copied returns a copy of the directory and of its state.
func (w *world) copied() (*vfs.MemFS, string) {
	w.Helper()
	mem, dir := w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: w.rng}), w.TempDir()
	text, err := os.ReadFile(filepath.Join(w.dir, archive.StateFile))
	require.NoError(w, err)
	require.NoError(w, os.WriteFile(filepath.Join(dir, archive.StateFile), text, 0o600))
	return mem, dir
}

// A store that is idle after a write without a sync does not hold up the archive. Pebble writes whole blocks.
func TestAnUnsyncedWriteReachesTheArchive(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		w.start()
		pass(5 * time.Minute) // the base is made, which syncs the logs, too
		for _, store := range stores {
			for range 4 { // more than a block, and less than a memtable
				require.NoError(w, w.dbs[store].Set([]byte("key"), make([]byte, 10_000), pebble.NoSync))
			}
		}
		pass(3 * time.Second)
		require.Zero(w, w.Behind())
		w.stop()
		w.same(false)
	})
}

// A snapshot of the directory must not end the writer of the newer data, also if the archive
// answers only after the start.
func TestAnOldCopyIsRefusedAtTheStartAndLater(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		w.start()
		w.write(20)
		mem, dir := w.copied()
		w.write(20)
		w.stop()

		_, err := w.open(mem, dir)
		require.ErrorIs(w, err, archive.ErrOldCopy)
		assert.True(w, archive.Refused(err))

		original, originalDir := w.mem, w.dir
		w.mem, w.dir = mem, dir
		w.objects.set(true)
		w.start()
		w.write(50)
		w.die(100)
		w.start() // the second start has more data than the archive, but is a copy all the same
		w.write(50)
		w.objects.set(false)
		select {
		case err = <-w.ran:
		case <-time.After(time.Hour):
		}
		require.ErrorIs(w, err, archive.ErrOldCopy)
		w.closeStores()
		require.NoError(w, w.Close())

		w.mem, w.dir = original, originalDir
		w.start()
		w.write(5)
		w.stop()
		w.same(false)
	})
}

// Two copies of one directory run: the one that starts last ends the other one.
func TestTheWriterOfAnOlderTermIsStopped(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		w.start()
		w.write(20)
		pass(2 * time.Second)
		mem, dir := w.copied()
		second, err := w.open(mem, dir)
		require.NoError(w, err)
		w.write(1)
		err = <-w.ran
		_, fenced := errors.AsType[*archive.FencedError](err)
		require.Truef(w, fenced, "%v", err)
		assert.True(w, archive.Refused(err))
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		w.closeStores()
		assert.ErrorContains(w, w.Drain(ctx), "another process took over")
		require.NoError(w, errors.Join(w.Close(), second.Close()))
	})
}

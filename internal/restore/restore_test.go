package restore_test

import (
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/objects"
)

// inMemory returns an empty store of objects.
func inMemory(t require.TestingT) objects.Store {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("archive", 0o700))
	store, err := objects.OpenDirectory(mem, "archive")
	require.NoError(t, err)
	return store
}

// A restore to any time has exactly the writes that were answered by then, and perhaps some that were begun: over
// restarts and power cuts, gaps, and restored directories that continue on another machine.
func TestARestoreHasTheWritesOfItsTime(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	under := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		home, err := os.MkdirTemp(under, "world") //nolint:usetesting // each world has a directory of its own
		require.NoError(t, err)
		defer func() { require.NoError(t, os.RemoveAll(home)) }()
		w := newWorld(t, inMemory(t), home, seen)
		defer func() { w.stop() }()
		seed := rapid.Uint64()
		write := func(t *rapid.T) {
			store := rapid.SampledFrom(stores).Draw(t, "store")
			for range rapid.IntRange(1, 8).Draw(t, "batches") {
				w.write(store, seed.Draw(t, "seed"), rapid.Bool().Draw(t, "sync"))
			}
		}
		most := rapid.SampledFrom([]int{500, 5000, 1 << 20})
		settle := func(t *rapid.T) { w.settle(most.Draw(t, "most")) }
		restores := 0
		draw := func(t *rapid.T) *restored {
			if restores++; restores > 4 {
				return nil // they take most of the time
			}
			return w.restore(w.clock.Load() + 3 - rapid.Int64Range(0, w.clock.Load()+3).Draw(t, "back"))
		}
		w.base(func() { write(t) })
		t.Repeat(map[string]func(*rapid.T){
			"write":      write,
			"write more": write,
			"receive":    func(t *rapid.T) { w.receive(most.Draw(t, "most")) },
			"settle":     settle,
			"idle":       func(*rapid.T) { w.idle() },
			"base":       func(t *rapid.T) { w.base(func() { write(t) }) },
			"gap":        func(*rapid.T) { w.drop() },
			"crash": func(t *rapid.T) {
				kept := rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "kept")
				w.crash(kept, seed.Draw(t, "seed"), func() {})
			},
			"restore": func(t *rapid.T) { draw(t) },
			"move": func(t *rapid.T) {
				if r := draw(t); r != nil {
					w.move(r)
				}
			},
		})
		w.settle(most.Draw(t, "most"))
		w.restore(0)
		w.restore(rapid.Int64Range(1, w.clock.Load()).Draw(t, "at"))
		w.begins()
	})
	t.Logf("%v", seen)
	if testing.Short() {
		return // few worlds do not have all outcomes
	}
	for _, outcome := range []string{"restored", "over terms", "moved", "*restore.EarlyError", "*restore.LateError", "*restore.GapError"} {
		assert.NotZero(t, seen[outcome], outcome)
	}
}

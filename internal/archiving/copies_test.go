package archiving_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/datadir"
	"fanfare/internal/strictjson"
)

// printed gives the directory of a world its lock file, by which a copy is known.
func (w *world) printed() {
	w.Helper()
	require.NoError(w, os.WriteFile(filepath.Join(w.dir, "LOCK"), nil, 0o600))
}

// reprint changes the print that a directory has stored, as if the directory had been somewhere else.
func reprint(tb testing.TB, dir string, edit func(*datadir.Print)) {
	tb.Helper()
	file := filepath.Join(dir, archive.StateFile)
	text, err := os.ReadFile(file)
	require.NoError(tb, err)
	var state archive.State
	require.NoError(tb, strictjson.UnmarshalSummed(text, &state))
	require.NotNil(tb, state.Print)
	edit(state.Print)
	text, err = strictjson.MarshalSummed(state)
	require.NoError(tb, err)
	require.NoError(tb, os.WriteFile(file, text, 0o600))
}

func otherBoot(p *datadir.Print) { p.Boot = "the boot before" }

// otherNode is what changes when a volume moves, or when its disk is cloned.
func otherNode(p *datadir.Print) {
	p.Boot, p.Device, p.Inode = "the boot of another machine", p.Device+1, p.Inode+1
}

// A directory that is still the same one starts without a question, and without a wait if its process ended in order.
func TestTheOriginalStartsWithoutAQuestion(t *testing.T) {
	t.Parallel()
	orders := []struct {
		name  string
		edit  func(*datadir.Print)
		crash bool
		waits bool
	}{
		{"a reboot", otherBoot, false, false},
		{"an upgrade", func(*datadir.Print) {}, false, false},
		{"a container made anew", func(p *datadir.Print) { p.Device++ }, false, false},
		{"a volume that moves to another node", otherNode, false, false},
		{"a kill", func(*datadir.Print) {}, true, false},
		{"a power cut", otherBoot, true, true},
		{"a container that was killed and made anew", func(p *datadir.Print) { p.Device++ }, true, true},
		{"a node that is lost", otherNode, true, true},
	}
	inBubble(t, 2, func(w *world) {
		w.printed()
		w.start()
		for _, order := range orders {
			w.write(10)
			pass(3 * time.Second)
			w.write(5)
			if order.crash {
				w.die(100)
			} else {
				w.stop()
			}
			reprint(w, w.dir, order.edit)
			w.start()
			w.write(5)
			pass(5 * time.Second)
			assert.Equal(w, order.waits, w.Behind() > 0, order.name)
			pass(2 * time.Minute)
			assert.Zero(w, w.Behind(), order.name)
			assert.Zero(w, w.Gaps(), order.name)
		}
		w.stop()
		w.same(false)
		w.same(true)
	})
}

// A copy of the files is refused at once. A clone of the whole disk is refused as soon as the archive shows that the original lives, also if
// the original has no writes. The original continues in both cases.
func TestACopyEndsNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit   func(*datadir.Print)
		later  bool
		writes bool
	}{
		"files":                   {func(p *datadir.Print) { p.Born-- }, false, false},
		"files, busy":             {func(p *datadir.Print) { p.Born-- }, false, true},
		"a disk, other machine":   {otherNode, true, false},
		"a disk, the same one":    {otherBoot, true, false},
		"a disk, a busy original": {otherNode, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.printed()
				w.start()
				w.write(20)
				pass(3 * time.Second)
				mem, dir := w.copied()
				require.NoError(w, os.Link(filepath.Join(w.dir, "LOCK"), filepath.Join(dir, "LOCK")))
				reprint(w, dir, c.edit)
				second, err := w.open(mem, dir)
				if c.later {
					require.NoError(w, err)
					if c.writes {
						w.write(3)
					}
					ran := make(chan error, 1)
					ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
					defer cancel() // a copy that is not refused runs on
					go func() { ran <- second.Run(ctx, func(context.Context, string) error { return nil }) }()
					err = <-ran
					require.NoError(w, second.Close())
				}
				require.ErrorIs(w, err, archive.ErrCopied)
				assert.True(w, archive.Refused(err))
				if c.writes {
					w.write(3)
				}
				pass(3 * time.Minute)
				w.write(5)
				pass(3 * time.Second)
				w.stop() // nobody has ended the original
				w.same(true)
			})
		})
	}
}

// An archive that is away while a directory waits delays the decision, and changes nothing else.
func TestAnArchiveThatIsAwayDelaysTheDecision(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		w.printed()
		w.start()
		w.write(10)
		pass(3 * time.Second)
		w.die(100)
		reprint(w, w.dir, otherNode)
		w.start()
		w.objects.set(true)
		w.write(10)
		pass(10 * time.Minute)
		w.objects.set(false)
		pass(2 * time.Minute)
		assert.Zero(w, w.Behind())
		w.stop()
		w.same(true)
	})
}

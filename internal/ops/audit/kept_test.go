package audit_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// tidy makes one walk as an auditor does, and fails the test if there is a finding.
func (w *world) tidy(when string) {
	w.t.Helper()
	_, err := w.audit.Run(w.t.Context(), audit.Walk{Tidy: true, Found: func(f audit.Finding) error {
		w.t.Errorf("%s: a finding although nothing is damaged: %+v", when, f)
		return nil
	}})
	w.must(err)
}

// hidden checks that the two items of bob's block and the two items of eve's mute against ann
// exist, or that none of them exists.
func (w *world) hidden(there bool, when string) {
	w.t.Helper()
	for _, key := range []table.Key{
		schema.BlockKey("bob", "ann"), schema.BlockKey("ann", "bob"), schema.MuteKey("eve", "ann"), schema.MuterKey("ann", "eve"),
	} {
		assert.Equalf(w.t, there, w.item(key) != nil, "%s: %v", when, key)
	}
}

// A block and a mute against a removed user are kept while the note of the removal exists, and after the user has
// returned. At each step of the removal they are no findings. After the note has expired, the walk ends them.
func TestTheWalkEndsKeptBlocksOfUsersWhoAreGoneForGood(t *testing.T) {
	t.Parallel()
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, open(t))
				w.people("ann", "bob", "eve")
				w.must(w.Block(t.Context(), "bob", "ann"))
				w.must(w.Block(t.Context(), "ann", "bob"))
				w.must(w.Mute(t.Context(), "eve", "ann"))
				w.tidy("before the removal")
				event, err := w.AskToForget(t.Context(), "ann")
				w.must(err)
				for range 3 {
					w.tidy("during the removal")
					_, err = w.Forget(t.Context(), "ann", event, 1)
					w.must(err)
				}
				w.forget("ann", event)
				w.tidy("after the removal")
				w.hidden(true, "after the removal")
				w.mended()
				w.hidden(true, "after a repair")
				w.people("ann")
				w.tidy("after the return")
				w.hidden(true, "after the return")
				event, err = w.AskToForget(t.Context(), "ann")
				w.must(err)
				w.forget("ann", event)
				all, _ := w.walk(false)
				assert.Empty(t, all)
				w.drop(schema.ForgottenKey("ann")) // as if the note had expired
				w.walk(false)
				w.hidden(true, "after a walk that only looks")
				for range 3 { // reads may be stale
					w.tidy("a year later")
				}
				w.hidden(false, "a year later")
				w.tidy("after that")
			})
		})
	}
}

// A user whose profile was lost by damage looks like a removed user whose note has expired. Only
// the counts of the user show the difference.
func TestTheWalkKeepsTheBlocksOfAUserWhoseProfileIsLost(t *testing.T) {
	t.Parallel()
	for count, does := range map[string]func(w *world){
		"posts":     func(w *world) { w.post("ann") },
		"followers": func(w *world) { w.must(w.Follow(t.Context(), "eve", "ann")) },
		"followees": func(w *world) { w.must(w.Follow(t.Context(), "ann", "eve")) },
	} {
		w := newWorld(t, tabletest.NewMemory())
		w.people("ann", "bob", "eve")
		w.must(w.Block(t.Context(), "bob", "ann"))
		w.must(w.Mute(t.Context(), "eve", "ann"))
		does(w)
		w.quiet()
		w.drop(schema.ProfileKey("ann"))
		_, err := w.audit.Run(t.Context(), audit.Walk{Tidy: true, Repair: true})
		w.must(err)
		w.hidden(true, count)
	}
}

// If one side of a block against a removed user is lost, a repair makes it from the other side.
func TestARepairMakesAKeptBlockWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, lost := range []table.Key{schema.BlockKey("bob", "ann"), schema.BlockKey("ann", "bob")} {
			w := newWorld(t, tabletest.NewMemory())
			w.people("ann", "bob", "eve")
			w.must(w.Block(t.Context(), "bob", "ann"))
			w.must(w.Mute(t.Context(), "eve", "ann"))
			event, err := w.AskToForget(t.Context(), "ann")
			w.must(err)
			w.forget("ann", event)
			w.drop(lost)
			all, _ := w.walk(true)
			assert.Len(t, all, 1)
			w.hidden(true, lost.PK)
			w.tidy("after the repair")
		}
	})
}

package pair_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/datadir"
	"fanfare/internal/pair"
)

// cloneOf returns a machine beside the two with a copy of the disk of one of them.
func (w *world) cloneOf(of *machine, likeness datadir.Likeness) *machine {
	w.Helper()
	c := &machine{
		world: w, name: "c", address: of.address, mem: of.clone(100), dir: w.TempDir(), made: true, reaches: w.peer(of), harm: harm{what: "a copy of " + of.name}, cloned: likeness,
	}
	require.NoError(w, os.WriteFile(filepath.Join(c.dir, pair.RoleFile), []byte(of.roleText()), 0o600))
	return c
}

// clones starts a copy of a machine's disk on a third machine, beside the two. The copy takes no writes and confirms none, and the pair continues.
func (w *world) clones() {
	w.Helper()
	primary, standby := w.settle()
	of := []*machine{primary, standby}[w.rng.IntN(2)]
	lone := of == primary && w.rng.IntN(2) == 0
	if lone {
		standby.exit()
		w.mode(primary, pair.ModeAlone)
	}
	c := w.cloneOf(of, []datadir.Likeness{datadir.Alike, datadir.Copied}[w.rng.IntN(2)])
	pass(time.Duration(w.rng.IntN(2)*w.rng.IntN(3000)) * time.Millisecond)
	if of == standby && w.rng.IntN(2) == 0 {
		w.set(&standby.mute, true) // the copy is the first to connect
		w.network.drop()
		time.AfterFunc(time.Second, func() { w.set(&standby.mute, false) })
	}
	c.boot()
	for range 150 {
		pass(100 * time.Millisecond)
		c.open(0)
		require.False(w, c.process.primary != nil && c.serves(), "a copy serves beside its original")
		select {
		case <-primary.process.primary.Over():
			require.NoError(w, primary.process.primary.Reason(), "a copy has ended the production")
		default:
		}
	}
	c.die(100)
	w.copied++
	if lone {
		w.works()
		standby.boot()
	}
	w.settle()
	w.works()
	if w.rng.IntN(2) == 0 {
		primary.die(100)
		require.NoError(w, standby.promote())
		pass(time.Second)
		w.tend()
	}
}

// A copy of a data directory that starts beside its original harms nobody.
func TestCopiesOfAPairInAStorm(t *testing.T) {
	t.Parallel()
	inBubble(t, *storms, func(w *world) {
		w.draws()
		w.boot()
		for range 6 {
			w.step()
			w.clones()
		}
		w.end()
	})
}

// A copy of the files of a data directory has the disk id of its original, so it neither asks the register nor connects.
func TestACopyOfTheFilesIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{pair.RolePrimary, pair.RoleStandby} {
		role := pair.NewRole(t.TempDir(), name)
		require.NoError(t, role.Save())
		role.Cloned(datadir.Copied)
		require.ErrorIs(t, pair.Begin(t.Context(), pair.BeginConfig{Role: role}), pair.ErrCopied)
		_, err := pair.OpenPrimary(pair.PrimaryConfig{Role: role})
		require.ErrorIs(t, err, pair.ErrCopied)
		_, err = pair.OpenStandby(pair.StandbyConfig{Role: role})
		require.ErrorIs(t, err, pair.ErrCopied)
	}
}

// A disk looks as a clone does after a boot, in a container made anew, and on another node. Without a living original the machine starts with it,
// in its role, without a question.
func TestAMachineOfAPairStartsAfterABootAndAMove(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 2, func(w *world) {
				w.boot()
				a, b := w.settle()
				for _, m := range []*machine{b, a} {
					if crash {
						m.die(100)
					} else {
						m.exit()
					}
					m.cloned = datadir.Alike
					m.boot()
					primary, _ := w.settle()
					require.Same(w, a, primary)
					w.works()
				}
				w.end()
			})
		})
	}
}

// While a standby has its session, another process with its disk id gets none, and the session continues.
func TestASecondProcessOfAStandbyIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		w.boot()
		_, b := w.settle()
		c := w.cloneOf(b, datadir.Alike)
		c.boot()
		pass(5 * time.Second)
		w.names(c.standby.Status, "another process with this disk id")
		require.True(w, b.standby.Status().Connected)
		w.works()
		c.die(100)
		w.end()
	})
}

// A standby that comes back without frames that it has confirmed is not the one on which answered writes rely: its disk is an old copy, or
// has lost synced writes.
func TestAStandbyThatHasForgottenIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.boot()
		w.settle()
		old := b.clone(100)
		pass(2 * time.Second)
		w.bucket.set(a.number(), way{away: true}) // the primary cannot go alone
		b.exit()
		b.mem = old
		b.boot()
		pass(2 * time.Second)
		w.names(b.standby.Status, pair.ErrMustSeed.Error())
		w.names(b.standby.Status, "lacks what it had confirmed")
		w.stands()
		require.ErrorIs(w, b.standby.Promote(w.Context(), false), pair.ErrNotPaired)
		b.exit()
		b.boot()
		w.settle() // with a new copy of all data, because the primary goes alone
		require.Equal(w, 2, w.seeds())
		w.works()
		w.end()
	})
}

package pair_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/pair"
)

// to returns a move of the machine to an address.
func (m *machine) to(address string) pair.MoveTo {
	return pair.MoveTo{Address: address, Register: m.registerAt(address), Configured: m.address, Leaves: m.loadRole().RegisterFor(m.address)}
}

// move lets a primary move the pair to an address. The machines begin again when tend sees that.
func (w *world) move(primary *machine, change func(*pair.MoveTo)) error {
	w.Helper()
	to := primary.to(moveTo + "1")
	if change != nil {
		change(&to)
	}
	err := primary.process.primary.Move(w.Context(), to)
	w.log.Info("move", zap.Error(err))
	if err == nil {
		w.used = to.Address
		term := primary.process.primary.Status().Term
		w.until(func() bool {
			w.tend()
			now := w.primary()
			return now != nil && now.process.primary.Status().Term > term
		})
		w.settle()
		pass(5 * time.Second) // a machine that begins again may have been alone
		w.settle()
	}
	return err
}

// former returns the entry of the register that the machines are configured with.
func (w *world) former() pair.Entry {
	w.Helper()
	entry, _, err := w.machines[0].registerAt(home).Read(w.Context())
	require.NoError(w, err)
	return entry
}

// A pair moves while it runs: both machines use the new register, although they are configured with the former one, whose entry has
// ended (P23).
func TestAPairMovesWhileItRuns(t *testing.T) {
	t.Parallel()
	inPair(t, 4, func(w *world, a, b *machine) {
		term := a.process.primary.Status().Term
		require.NoError(w, w.move(a, nil))
		entry := w.entry()
		require.Equal(w, []any{a.loadRole().Disk, pair.ModePaired, b.loadRole().Disk}, []any{entry.Primary, entry.Mode, entry.Standby})
		require.Greater(w, entry.Term, term)
		require.Equal(w, pair.ModeEnded, w.former().Mode)
		w.works()
		a.die(100)
		b.takenOver() // by the new register
		b.exit()
		w.settle()
		require.NoError(w, w.move(b, func(to *pair.MoveTo) { to.Address, to.Register = moveTo+"2", b.registerAt(moveTo+"2") }))
		w.works()
		w.end()
	})
}

// A register that has lost its entry, or that never answers again, is left behind.
func TestAPairLeavesARegisterThatIsGone(t *testing.T) {
	t.Parallel()
	inPair(t, 4, func(w *world, a, b *machine) {
		if w.rng.IntN(2) == 0 {
			w.bucket.empty()
			require.NoError(w, w.move(a, nil))
		} else {
			require.NoError(w, w.move(a, func(to *pair.MoveTo) { to.Leaves = "" }))
		}
		a.die(100)
		b.takenOver()
		b.exit()
		w.end()
	})
}

// A move that harms nobody: each refusal leaves the pair as it was.
func TestAMoveIsRefused(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		refused := func(text string, change func(*pair.MoveTo)) {
			w.Helper()
			require.ErrorContains(w, w.move(a, change), text)
		}
		refused("uses this register already", func(to *pair.MoveTo) { to.Address, to.Register = home, a.registerAt(home) })
		w.used = home
		other := moveTo + "other"
		_, err := a.registerAt(other).Swap(w.Context(), "", pair.Entry{Lineage: "another", Term: 1, Primary: "c", Mode: pair.ModeAlone})
		require.NoError(w, err)
		refused("has an entry of a pair", func(to *pair.MoveTo) { to.Address, to.Register = other, a.registerAt(other) })
		w.bucket.set(a.number(), way{away: true})
		refused(moveTo+"1", nil)
		w.calm()
		w.network.set(true)
		refused("the standby", nil)
		w.mode(a, pair.ModeAlone)
		refused("--standby-is-gone", nil)
		b.exit()
		b.replace(pair.RoleStandby)
		b.address = moveTo + "1" // a new machine has the new setting
		require.NoError(w, w.move(a, func(to *pair.MoveTo) { to.StandbyIsGone = true }))
		w.end()
	})
}

// A standby that had the new setting for a time, and follows its primary by the former register since, has to store the new one.
func TestAStandbyThatIsBackIsMoved(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		b.exit()
		b.address = moveTo + "1"
		w.tend()
		w.until(func() bool { // until the primary has refused the standby for its register
			w.tend()
			pass(time.Second)
			return a.process.primary.Status().Reason != ""
		})
		b.exit()
		b.address = home
		w.settle()
		w.network.set(true)
		w.mode(a, pair.ModeAlone)
		require.ErrorContains(w, w.move(a, nil), "--standby-is-gone")
		w.network.set(false)
		w.settle()
		w.works()
		w.end()
	})
}

// After a move the pair makes no first entry a second time: the standby may have become the primary by an entry that was lost (P19).
func TestARegisterThatIsLostAfterAMove(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		require.NoError(w, w.move(a, nil))
		a.die(100)
		b.die(100)
		w.bucket.mu.Lock()
		*w.bucket.at(w.used) = stored{}
		w.bucket.mu.Unlock()
		require.ErrorIs(w, a.begins(), pair.ErrRegisterGone)
		require.NoError(w, pair.Unpair(w.Context(), a.loadRole(), a.register()))
		require.NoError(w, a.begins())
		require.Equal(w, pair.ModeEnded, w.former().Mode)
	})
}

// A standby that has stored the new register may be ahead of its primary, so nobody promotes it by the former one.
func TestAStandbyThatMovesIsNotPromoted(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		w.network.hold(false, true) // the primary does not hear from its standby
		require.ErrorContains(w, w.move(a, nil), "run the command again")
		require.ErrorIs(w, b.standby.Promote(w.Context(), true), pair.ErrMoves)
		w.network.drop()
		b.exit()
		pass(5 * time.Second)
		require.NoError(w, w.move(a, func(to *pair.MoveTo) { to.StandbyIsGone = true }))
		w.works()
		w.end()
	})
}

// A move is cut off anywhere: the machines become a pair again, by the new register or by the former one, and a repeated move has its effect. No
// answered write is lost, and no machine answers beside the other one.
func TestAMoveThatIsCutOff(t *testing.T) {
	t.Parallel()
	inPair(t, 40, func(w *world, a, b *machine) {
		cut := w.machines[w.rng.IntN(2)]
		done := make(chan error, 1)
		to := a.to(moveTo + "1")
		p := a.process
		p.work.Go(func() { done <- p.primary.Move(p.ctx, to) })
		for range w.rng.IntN(40) {
			pass(time.Duration(w.rng.IntN(10)) * time.Millisecond)
			w.tend()
		}
		if w.rng.IntN(2) == 0 {
			w.network.drop()
		}
		if cut.process != nil {
			cut.die(100)
		}
		if w.rng.IntN(2) == 0 {
			pass(time.Duration(w.rng.IntN(5000)) * time.Millisecond)
		}
		err := <-done
		w.log.Info("move", zap.Error(err))
		w.used = to.Address
		w.until(func() bool {
			pass(time.Second)
			w.tend()
			primary := w.primary()
			return w.now(to.Address) || primary != nil && primary.process.primary.Move(w.Context(), primary.to(to.Address)) == nil
		})
		w.settle()
		pass(5 * time.Second)
		w.settle()
		w.works()
		w.end()
	})
}

// now reports whether the register at an address has an entry.
func (w *world) now(address string) bool {
	_, _, err := w.machines[0].registerAt(address).Read(w.Context())
	return err == nil
}

package pair_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// Without its register, a standby cannot know whether its primary has answered alone. So it is promoted only after the two have
// paired without the register.
func TestARegisterThatIsSwitchedOffLosesNothing(t *testing.T) {
	t.Parallel()
	withRegister(t, 4, func(w *world, a, b *machine) {
		w.network.set(true)
		w.mode(a, pair.ModeAlone)
		w.works()
		b.exit()
		a.die(100)
		w.network.set(false)
		w.bucket, w.alone = nil, false
		b.boot()
		pass(time.Second)
		require.ErrorIs(w, b.standby.Promote(w.Context(), false), pair.ErrNotPaired)
		_, err := pair.OpenPrimary(pair.PrimaryConfig{Role: a.loadRole()})
		require.ErrorIs(w, err, pair.ErrUnregistered)
		require.ErrorIs(w, pair.Alone(a.dir), pair.ErrUnregistered)
		require.NoError(w, a.loadRole().Unpair())
		a.boot()
		w.settle()
		w.works()
		a.die(100)
		require.NoError(w, b.promote())
		pass(time.Second)
		w.end()
	})
}

// A pair that gets a register stays a pair.
func TestARegisterThatIsSwitchedOnNamesThePair(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		w.boot()
		a, b := w.settle()
		b.exit()
		a.exit()
		w.useRegister(failoverAfter)
		a.boot()
		b.boot()
		w.settle()
		require.Equal(w, []string{pair.ModePaired, b.loadRole().Disk}, []string{w.entry().Mode, w.entry().Standby})
		pass(alone)
		a.die(50)
		pass(8 * time.Second)
		b.takenOver()
		b.exit()
		b.boot()
		pass(time.Second)
		w.works()
		w.end()
	})
}

// Without the register, a start has only the role, so a primary stores that it is alone before it answers alone.
func TestAPrimaryIsAloneOnceItsRoleHasThat(t *testing.T) {
	t.Parallel()
	withRegister(t, 1, func(w *world, a, b *machine) {
		away := a.dir + "-away"
		require.NoError(w, os.Rename(a.dir, away))
		w.network.set(true)
		pass(5 * time.Second)
		require.Equal(w, pair.ModeAlone, w.entry().Mode)
		w.stands()
		require.NoError(w, os.Rename(away, a.dir))
		w.mode(a, pair.ModeAlone)
		require.Equal(w, pair.ModeAlone, a.loadRole().Mode)
		w.works()
		w.end()
	})
}

// A primary that asks the register is alone when the register allows it, so a standby that does not ask the register must not
// count as paired.
func TestARegisterOfOneMachineIsRefused(t *testing.T) {
	t.Parallel()
	withRegister(t, 2, func(w *world, a, b *machine) {
		b.exit()
		b.unregistered = true
		b.boot()
		w.mode(a, pair.ModeAlone)
		pass(30 * time.Second)
		require.Equal(w, pair.ModeAlone, a.process.primary.Status().Mode)
		require.ErrorIs(w, b.standby.Promote(w.Context(), false), pair.ErrNotPaired)
		b.exit()
		b.unregistered, b.address = false, "another"
		b.boot()
		pass(30 * time.Second)
		require.Equal(w, pair.ModeAlone, a.process.primary.Status().Mode)
		b.exit()
		b.address = ""
		w.end()
	})
}

// Only the other machine knows that it was promoted without the register, so a later register does not get a guess as its first entry,
// and an entry from before that time does not count.
func TestARegisterThatIsSwitchedOnAsksTheOtherMachine(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"no entry": false, "an entry": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(w *world) {
				a, b := w.machines[0], w.machines[1]
				w.useRegister(failoverAfter)
				register := w.bucket
				if !before {
					w.bucket, w.alone = nil, false
				}
				w.boot()
				w.settle()
				a.die(100)
				b.exit()
				w.bucket, w.alone = nil, false
				w.boot()
				w.settle()
				a.die(100)
				require.NoError(w, b.promote())
				pass(time.Second)
				w.works()
				if w.seed == 0 { // else the other machine still runs without the register
					b.exit()
				}
				w.bucket, w.alone = register, true
				a.boot()
				pass(20 * time.Second)
				a.open(0)
				require.Nil(w, a.process.primary, "a paired primary starts without the other machine")
				if w.seed > 0 {
					b.exit()
				}
				b.boot()
				pass(alone)
				primary, _ := w.settle()
				require.Equal(w, b, primary)
				w.end()
			})
		})
	}
}

// If the register and the primary are gone for good, the standby has each answered write, and its refusal names the way in which
// it may serve.
func TestARegisterAndAPrimaryThatAreGone(t *testing.T) {
	t.Parallel()
	withRegister(t, 2, func(w *world, a, b *machine) {
		w.mode(a, pair.ModePaired)
		w.works()
		a.die(100)
		w.bucket.empty()
		pass(20 * time.Second)
		for _, acceptLoss := range []bool{false, true} {
			require.ErrorIs(w, b.standby.Promote(w.Context(), acceptLoss), pair.ErrNoPrimary)
		}
		b.exit()
		w.bucket, w.alone = nil, false
		b.boot()
		pass(time.Second)
		require.ErrorIs(w, b.standby.Promote(w.Context(), false), pair.ErrNotPaired)
		require.NoError(w, b.standby.Promote(w.Context(), true))
		b.work.Wait()
		b.boot()
		w.mode(b, pair.ModeAlone)
		pass(time.Second)
		w.works()
		w.end()
	})
}

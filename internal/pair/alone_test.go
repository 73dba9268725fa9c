package pair_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/objects"
	"fanfare/internal/pair"
)

const (
	failoverAfter = 5 * time.Second
	// never is the time after which a standby becomes the primary in the tests that promote it by hand.
	never = 1000 * time.Hour
	// alone is the duration of the register's promise.
	alone = 15 * time.Second
)

// inPair runs a test for some seeds with two machines that are a pair, whose standby takes over by itself.
func inPair(t *testing.T, seeds int, test func(w *world, a, b *machine)) {
	t.Helper()
	inBubble(t, seeds, func(w *world) {
		w.failoverAfter = failoverAfter
		w.boot()
		a, b := w.settle()
		require.Equal(w, w.machines[0], a)
		pass(time.Duration(w.rng.IntN(20_000)) * time.Millisecond)
		test(w, a, b)
	})
}

// mode waits until a primary has a mode.
func (w *world) mode(m *machine, mode string) {
	w.Helper()
	for range 1000 {
		if m.process.primary.Status().Mode == mode {
			return
		}
		pass(20 * time.Millisecond)
	}
	require.Fail(w, "the primary does not become "+mode)
}

// works expects that writes are answered.
func (w *world) works() {
	w.Helper()
	before := w.count()
	pass(time.Second)
	require.Greater(w, w.count(), before, "no write is answered")
}

// stands expects that no write is answered.
func (w *world) stands() {
	w.Helper()
	before := w.count()
	pass(2 * time.Second)
	require.Equal(w, before, w.count(), "a write is answered")
}

// takesOver waits until a standby has become the primary.
func (w *world) takesOver(m *machine) {
	w.Helper()
	for range 100 {
		pass(500 * time.Millisecond)
		w.tend()
		if m.process != nil && m.process.primary != nil {
			return
		}
	}
	require.Fail(w, "the standby does not become the primary")
}

// takenOver expects that the standby has become the primary by itself.
func (m *machine) takenOver() {
	m.Helper()
	select {
	case o := <-m.ran:
		require.Equal(m, outcome{Outcome: pair.TakeOver}, o)
	case <-time.After(time.Minute):
		require.Fail(m, "the standby does not become the primary")
	}
}

// If both machines reach the register, a primary whose standby is away wins, and its standby does not become the primary (P4, P5).
func TestAPrimaryWithoutItsStandbyGoesAlone(t *testing.T) {
	t.Parallel()
	inPair(t, 4, func(w *world, a, b *machine) {
		w.network.set(true)
		w.mode(a, pair.ModeAlone)
		w.works()
		pass(40 * time.Second)
		w.works()
		w.tend()
		require.NotNil(w, b.process.standby, "a standby that lacks answered writes has become the primary")
		require.ErrorIs(w, b.standby.Promote(w.Context(), false), pair.ErrNotPaired)
		status := a.process.primary.Status()
		require.Equal(w, pair.ModeAlone, status.Register.Mode)
		require.Greater(w, status.AloneFor.Duration, 30*time.Second)
		w.settle()
		require.Greater(w, a.process.primary.Status().AloneTotal, 30*time.Second)
		w.end()
	})
}

// A standby that stops in order does not cost the time after which it counts as away.
func TestAStandbyThatStopsMakesItsPrimaryAlone(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		b.exit()
		pass(500 * time.Millisecond)
		require.Equal(w, pair.ModeAlone, a.process.primary.Status().Mode)
		w.works()
		w.end()
	})
}

// If only the standby reaches the register, the standby becomes the primary, and the old primary answers nothing (P4, P10, P16).
func TestAStandbyTakesOver(t *testing.T) {
	t.Parallel()
	inPair(t, 4, func(w *world, a, b *machine) {
		w.network.set(true)
		w.bucket.set(a.number(), way{away: true})
		began := time.Now()
		w.takesOver(b)
		require.Less(w, time.Since(began), 10*time.Second)
		pass(2 * time.Second)
		w.works()
		w.calm()
		pass(20 * time.Second)
		require.Equal(w, b.loadRole().Disk, w.entry().Primary)
		w.tend()
		w.end()
	})
}

// The promise of the register ends when the two pair, so the standby of a young pair does not wait for its end (P14).
func TestAYoungPairFailsOverInTime(t *testing.T) {
	t.Parallel()
	inBubble(t, 6, func(w *world) {
		w.failoverAfter = failoverAfter
		w.boot()
		a, b := w.settle()
		pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		began := time.Now()
		if w.seed%2 == 0 {
			a.die(100)
		} else {
			w.network.set(true)
			w.bucket.set(a.number(), way{away: true})
		}
		b.takenOver()
		b.exit()
		b.boot()
		w.until(b.serves)
		require.Less(w, time.Since(began), 10*time.Second)
		pass(alone)
		w.works()
		w.calm()
		w.end()
	})
}

// While the swap to a pair is on its way, the primary answers reads.
func TestReadsContinueWhileTwoPair(t *testing.T) {
	t.Parallel()
	inPair(t, 4, func(w *world, a, b *machine) {
		b.exit()
		w.mode(a, pair.ModeAlone)
		pass(5 * time.Second)
		w.network.delay.Store(int64(100 * time.Millisecond))
		b.boot()
		w.until(func() bool { return a.process.primary.Status().Connected })
		w.bucket.set(a.number(), way{late: timing.Lease - 50*time.Millisecond})
		for range 1500 {
			pass(10 * time.Millisecond)
			require.True(w, a.process.primary.Promised(), "the primary answers nothing")
		}
		w.calm()
		w.mode(a, pair.ModePaired)
		w.end()
	})
}

// A standby takes over from a primary that is dead.
func TestAStandbyTakesOverFromADeadPrimary(t *testing.T) {
	t.Parallel()
	inPair(t, 4, func(w *world, a, b *machine) {
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

// A standby that is promoted beside a connected primary confirms nothing from then on (P10), and serves after its last promise
// (P15).
func TestAPromotionBesideAConnectedPrimaryWaits(t *testing.T) {
	t.Parallel()
	inPair(t, 4, func(w *world, a, b *machine) {
		pass(alone)
		w.bucket.set(a.number(), way{away: true})
		require.NoError(w, b.promote())
		pass(5 * time.Second)
		require.True(w, b.serves())
		w.calm()
		w.until(func() bool { w.tend(); return a.process.primary == nil })
		w.end()
	})
}

// A primary that starts alone answers nothing when the register has not answered for five leases (P11, P12).
func TestAPrimaryAloneNeedsTheRegister(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		b.die(100)
		w.mode(a, pair.ModeAlone)
		if w.seed == 1 {
			a.die(100)
			a.boot()
			w.until(a.serves)
		}
		w.bucket.set(a.number(), way{away: true})
		pass(alone - timing.Lease - time.Second)
		w.works()
		pass(timing.Lease + 2*time.Second)
		w.stands()
		require.False(w, a.process.primary.Promised())
		w.calm()
		pass(2 * time.Second)
		w.works()
		w.end()
	})
}

// A paired standby promises what its primary asks for, also if the standby cannot read the register since an earlier time: nobody
// needs the register in a pair.
func TestAPairedStandbyNeedsNoRegister(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		w.network.set(true)
		w.mode(a, pair.ModeAlone)
		pass(3 * time.Second) // the standby reads that
		w.bucket.set(b.number(), way{away: true})
		w.network.set(false)
		w.mode(a, pair.ModePaired)
		pass(2 * alone)
		require.True(w, a.process.primary.Promised(), "the primary answers nothing")
		w.works()
		require.Equal(w, 1, w.logs.FilterMessageSnippet("cannot read the register").Len())
		w.end()
	})
}

// A swap to alone may have its effect late, when the standby is back. Then the register gets the pair again.
func TestASwapToAloneThatIsNotNeededIsUndone(t *testing.T) {
	t.Parallel()
	inPair(t, 4, func(w *world, a, b *machine) {
		w.bucket.set(a.number(), way{after: time.Second})
		w.network.set(true)
		w.until(func() bool { return w.bucket.pending.Load() > 0 })
		w.bucket.set(a.number(), way{away: true})
		w.network.set(false)
		w.until(func() bool { return a.process.primary.Status().Connected })
		pass(3 * time.Second)
		require.Equal(w, []string{pair.ModeAlone, pair.ModePaired}, []string{w.entry().Mode, a.process.primary.Status().Mode})
		w.calm()
		pass(5 * time.Second)
		require.True(w, a.process.primary.Promised(), "the primary answers nothing")
		w.agree(a, b)
		w.works()
		w.end()
	})
}

// A new primary serves after the promise of the register to the old one, also if the old one learned of its promise late
// (P13, P14).
func TestAForcedPromotionWaitsForThePromiseOfTheRegister(t *testing.T) {
	t.Parallel()
	inPair(t, 4, func(w *world, a, b *machine) {
		w.network.set(true)
		w.bucket.set(a.number(), way{late: 2900 * time.Millisecond})
		w.mode(a, pair.ModeAlone)
		pass(20 * time.Second)
		version := w.bucket.now()
		w.until(func() bool { return w.bucket.now() != version })
		pass(1500 * time.Millisecond)
		w.bucket.set(a.number(), way{away: true}) // only the answer on its way arrives
		require.NoError(w, b.standby.Promote(w.Context(), true))
		w.set(&b.forced, true)
		b.exit()
		b.boot()
		pass(5 * time.Second)
		require.True(w, b.serves())
		w.calm()
		w.works()
		w.tend()
		w.end()
	})
}

// A former disk of the standby is not promoted (P6).
func TestAFormerDiskOfTheStandbyIsNotPromoted(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		b.exit()
		mem, dir := b.mem, b.dir
		b.replace(pair.RoleStandby)
		b.boot()
		w.settle()
		pass(time.Second)
		a.die(100)
		b.exit()
		b.mem, b.dir = mem, dir
		b.boot()
		require.ErrorIs(w, b.standby.Promote(w.Context(), true), pair.ErrNotPaired)
		pass(20 * time.Second)
		require.Nil(w, b.process.primary)
		require.Equal(w, pair.RoleStandby, b.loadRole().Role)
		require.Equal(w, a.loadRole().Disk, w.entry().Primary)
		b.die(100)
	})
}

// If the answer of a swap is lost, the entry of the register decides whether the swap succeeded.
func TestALostAnswerOfTheRegister(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		register := w.machines[0].register()
		_, _, err := register.Read(w.Context())
		require.ErrorIs(w, err, pair.ErrNoEntry)
		w.bucket.set(0, way{lossy: true})
		entry := pair.Entry{Lineage: "L", Term: 1, Primary: "P", Mode: pair.ModeAlone}
		version := objects.Version("")
		for range 200 {
			next, err := register.Swap(w.Context(), version, entry)
			if err == nil {
				require.NotEqual(w, version, next)
				require.Equal(w, next, w.bucket.now())
				require.Equal(w, entry.Term, w.entry().Term)
			} else {
				pass(10 * time.Second)
				next = w.bucket.now()
			}
			version = next
			entry.Term++
		}
		w.bucket.set(0, way{})
		_, err = register.Swap(w.Context(), "1", entry)
		require.ErrorIs(w, err, pair.ErrSwapped)
		for _, text := range []string{"", "{}", `{"format":2}`, `{"format":1,"lineage":"L","term":1,"primary":"P","mode":"paired","since":1,"nonce":"n"}`} {
			w.bucket.content = []byte(text)
			_, _, err := register.Read(w.Context())
			require.Error(w, err)
			require.NotErrorIs(w, err, pair.ErrNoEntry)
		}
	})
}

// While the register may get the swap to a pair late, the standby may become the primary, so its primary does not answer by
// itself, even if the session has ended (P8).
func TestALateSwapToAPairLosesNothing(t *testing.T) {
	t.Parallel()
	late := 0
	inPair(t, 8, func(w *world, a, b *machine) {
		b.exit()
		pass(time.Second)
		w.network.delay.Store(int64(100 * time.Millisecond))
		b.boot()
		joining := w.within(time.Minute, func() bool { return a.process.primary.Status().Joining })
		w.bucket.set(a.number(), way{after: 1500 * time.Millisecond})
		if joining && w.within(time.Second, func() bool { return w.bucket.pending.Load() > 0 }) {
			late++
			w.network.set(true)
			pass(1400 * time.Millisecond)
			a.die(100)
		} // else the swap was on its way already
		w.calm()
		pass(10 * time.Second)
		w.end()
	})
	require.Positive(t, late)
}

package pair_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

const longLease = 20 * time.Second

// With two leases, the primary would answer reads by a longer promise than its standby waits for. The two do not pair, and both name the
// setting and its values.
func TestLeasesThatDifferAreRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		a.lease = longLease
		w.boot()
		pass(5 * time.Second)
		w.names(a.process.primary.Status, "the lease of FANFARE_FAILOVER_AFTER is 20s on this machine and 3s on the other machine")
		w.names(b.standby.Status, "the lease of FANFARE_FAILOVER_AFTER is 3s on this machine and 20s on the other machine")
		require.Equal(w, pair.ModeSeeding, b.loadRole().Mode)
		b.exit()
		b.lease = longLease
		b.boot()
		w.settle()
		w.end()
	})
}

// With two registers, each machine could become the primary. The two do not pair.
func TestRegistersThatDifferAreRefused(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		b.exit()
		b.address = "another"
		b.boot()
		w.mode(a, pair.ModeAlone)
		w.names(b.standby.Status, pair.ErrRegister.Error())
		pass(30 * time.Second)
		require.Equal(w, pair.ModeAlone, a.process.primary.Status().Mode)
		b.exit()
		b.address = home
		w.end()
	})
}

// A standby that starts with a shorter lease waits for the promise that its earlier process has made.
func TestAPromiseOutlivesAChangeOfTheLease(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		a.lease, b.lease = longLease, longLease
		w.boot()
		w.settle()
		pass(time.Second)
		w.bucket.set(a.number(), way{away: true})
		w.network.set(true) // the primary has its promise, and does not hear of the promotion
		b.die(100)
		b.lease = 0
		b.boot()
		require.NoError(w, b.promote())
		pass(time.Second)
		require.True(w, b.serves())
		b.die(100)
		b.lease = longLease
		b.boot()
		w.network.set(false)
		w.tend()
		w.end()
	})
}

// The promise of the register lasts as long as the lease of its primary requires, whatever the lease of the next one is.
func TestThePromiseOfTheRegisterHasTheLeaseOfItsPrimary(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		a.lease, b.lease = longLease, longLease
		w.boot()
		w.settle()
		w.network.set(true)
		w.mode(a, pair.ModeAlone)
		pass(time.Duration(w.rng.IntN(20)) * time.Second)
		w.bucket.set(a.number(), way{away: true})
		b.die(100)
		b.lease = 0
		b.boot()
		if w.seed == 2 { // interrupted when the register names it
			b.interruptForced(time.Second)
			b.boot()
			w.until(func() bool { w.tend(); return b.process.primary != nil })
		} else {
			require.NoError(w, b.standby.Promote(w.Context(), true))
			b.exit()
			b.boot()
		}
		w.set(&b.forced, true)
		pass(5 * time.Second)
		require.True(w, b.serves())
		b.die(100)
		b.lease = longLease
		b.boot()
		w.calm()
		w.network.set(false)
		w.until(func() bool { w.tend(); return a.process.primary == nil })
		w.end()
	})
}

// copies gives the machine a copy of the other machine's disk, with its role.
func (m *machine) copies(of *machine) {
	m.Helper()
	m.mem = of.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: m.rng})
	m.dir, m.made = m.TempDir(), of.made
	require.NoError(m, os.WriteFile(filepath.Join(m.dir, pair.RoleFile), []byte(of.roleText()), 0o600))
}

// A machine with a copy of the data directory of the other one does not start, and both name the reason, and which of the two has more: what helps
// a primary without its standby would make two primaries here.
func TestACopyOfADataDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.boot()
		w.settle()
		old := &machine{world: w, address: a.address, mem: a.clone(100), dir: a.dir, made: true}
		b.exit()
		w.mode(a, pair.ModeAlone)
		if w.seed == 0 {
			old = a
		}
		b.copies(old)
		b.harm.what = "a copy of a"
		before := w.entry().Term
		b.boot()
		require.ErrorIs(w, b.harmed().ended, pair.ErrSameDisk)
		if w.seed > 0 {
			require.ErrorContains(w, b.harmed().ended, "the other machine has more")
		}
		require.Contains(w, a.process.primary.Status().Reason, pair.ErrSameDisk.Error())
		require.Equal(w, 1, w.logs.FilterMessage("the machine at the peer address has the disk of this one").FilterLoggerName(a.name).Len())
		require.Equal(w, before, w.entry().Term)
		w.works()
		b.die(100)
		b.heal()
		b.replace(pair.RoleStandby)
		b.boot()
		w.settle()
		w.end()
	})
}

// A machine that is configured with its own address names that.
func TestAMachineThatCallsItselfNamesThat(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		a := w.machines[w.seed]
		a.itself = true
		a.boot()
		if a.process.primary != nil {
			pass(5 * time.Second)
			w.until(func() bool { return a.process.primary.Status().Reason == pair.ErrSelf.Error() })
			require.Equal(w, pair.ModeAlone, a.process.primary.Status().Mode)
			pass(5 * time.Second)
		} else {
			require.ErrorIs(w, (<-a.ran).error, pair.ErrSelf)
		}
		a.die(100)
	})
}

package pair_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// A primary that starts asks the register first. An old copy of its disk is refused (P17).
func TestAnOldCopyDoesNotStart(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		old := a.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: w.rng})
		text, err := os.ReadFile(filepath.Join(a.dir, pair.RoleFile))
		require.NoError(w, err)
		term := a.loadRole().Term
		b.die(100)
		a.die(100)
		w.bucket.set(a.number(), way{away: true})
		a.boot()
		pass(time.Minute)
		a.open(0)
		require.Nil(w, a.process.primary, "a primary starts without the register")
		w.calm()
		pass(20 * time.Second)
		a.open(0)
		require.Greater(w, a.loadRole().Term, term)
		w.mode(a, pair.ModeAlone)
		pass(3 * time.Second)
		w.works()
		a.die(100)
		a.mem = old
		require.NoError(w, os.WriteFile(filepath.Join(a.dir, pair.RoleFile), text, 0o600))
		require.ErrorIs(w, a.begins(), pair.ErrOldCopy)
		b.boot()
		b.die(100)
	})
}

// begins returns the end of pair.Begin.
func (m *machine) begins() error {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), time.Minute)
	defer cancel()
	return pair.Begin(ctx, m.beginConfig(m.loadRole()))
}

// A pair whose register has lost its entry does not guess it. A primary of a later term than the register does not serve.
func TestARegisterThatHasLostItsEntryIsRefused(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		earlier := w.bucket.content
		for _, m := range []*machine{a, b} {
			m.die(100)
		}
		role := a.loadRole()
		w.bucket.empty()
		require.ErrorIs(w, a.begins(), pair.ErrRegisterGone)
		paired := pair.NewRole(w.TempDir(), pair.RolePrimary) // of a pair that never had a register
		paired.Mode, paired.Peer = pair.ModePaired, "other"
		config := a.beginConfig(paired)
		require.ErrorIs(w, pair.Begin(w.Context(), config), pair.ErrRegisterGone)
		require.NoError(w, pair.Unpair(w.Context(), role, a.register()))
		require.NoError(w, a.begins())
		require.Equal(w, pair.ModeAlone, w.entry().Mode)

		w.bucket.content = earlier // of an earlier term of the same primary
		require.ErrorIs(w, a.begins(), pair.ErrRegisterGone)
		role = b.loadRole()
		role.Role, role.Mode, role.Term, role.Claimed = pair.RolePrimary, pair.ModeAlone, role.Term+1, role.Term+1
		require.NoError(w, role.Save())
		require.ErrorIs(w, b.begins(), pair.ErrRegisterGone)
		require.NoError(w, pair.Unpair(w.Context(), role, b.register()), "the way out that the error names")
		began := time.Now()
		require.NoError(w, b.begins())
		require.Greater(w, time.Since(began), alone, "the other machine may have a promise (P14)")
		require.Equal(w, role.Disk, w.entry().Primary)
		require.NoError(w, a.begins(), "the machine that starts last")
		require.Equal(w, pair.RoleStandby, a.loadRole().Role)
	})
}

// The register is restored from a backup in which the two were paired. The standby has seen a later term, so it does not know whether its primary
// answered alone meanwhile.
func TestAStandbyTrustsNoOldBackupOfTheRegister(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		earlier, term := w.bucket.content, w.entry().Term
		a.exit()
		a.boot()
		w.settle()
		require.Less(w, term, b.loadRole().Term)
		b.exit()
		w.mode(a, pair.ModeAlone)
		w.works()
		a.die(100)
		w.bucket.content = earlier
		b.boot()
		pass(time.Minute)
		require.False(w, b.serves(), "the primary answered alone after the backup")
		require.ErrorIs(w, b.promote(), pair.ErrNotPaired)
		w.abandon()
	})
}

// An operator ends the pair, in the register, too: the former standby cannot take over. With its settings the primary begins a new pair.
func TestAnEndedPairHasOnePrimary(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		b.exit()
		a.die(100)
		require.ErrorContains(w, pair.Unpair(w.Context(), b.loadRole(), b.register()), "fanfare promote")
		require.NoError(w, pair.Unpair(w.Context(), a.loadRole(), a.register()))
		require.Equal(w, []string{pair.ModeEnded, ""}, []string{w.entry().Mode, w.entry().Standby})
		b.boot()
		pass(time.Minute)
		require.False(w, b.serves(), "the primary may serve without the register (P24)")
		require.ErrorIs(w, b.standby.Promote(b.ctx, true), pair.ErrPairEnded, "not even by a loss")
		b.exit()
		a.boot()
		w.mode(a, pair.ModeAlone)
		pass(time.Second)
		w.works()
		w.end()
	})
}

// A pair gets another register: the primary is unpaired in the old one, and makes the first entry of the new one.
func TestAPairMovesToAnotherRegister(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		b.exit()
		a.exit()
		require.NoError(w, pair.Unpair(w.Context(), a.loadRole(), a.register()))
		require.NoError(w, pair.Alone(a.dir), "one machine needs no register")
		term := w.entry().Term
		w.bucket.empty()
		a.address, b.address = "another", "another"
		w.boot()
		w.settle()
		require.Greater(w, w.entry().Term, term)
		w.works()
		w.end()
	})
}

// Both machines and their disks are lost. A restored directory gets their register, and a machine of the former pair that comes back is refused.
func TestARestoredDirectoryBeginsANewPair(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		b.exit()
		a.die(100)
		require.ErrorContains(w, pair.AfterRestore(w.Context(), b.dir, b.register()), "start fanfare up")
		a.replace(pair.RolePrimary)
		require.NoError(w, os.Remove(filepath.Join(a.dir, pair.RoleFile)))
		for range 2 {
			require.NoError(w, pair.AfterRestore(w.Context(), a.dir, a.register()))
		}
		began := time.Now()
		require.NoError(w, a.begins())
		require.Greater(w, time.Since(began), alone, "a machine of the former pair may have a promise (P14)")
		require.ErrorIs(w, b.begins(), pair.ErrLineage)
		b.replace(pair.RoleStandby)
		w.set(&a.forced, true)
		w.boot()
		w.settle()
		w.works()
		w.end()
	})
}

// A primary that becomes paired before the register has let it be alone opens its stores, too.
func TestAStartThatPairsAtOnceServes(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		w.network.set(true)
		w.mode(a, pair.ModeAlone)
		a.exit()
		w.network.set(false)
		a.begin()
		role := a.loadRole()
		require.NoError(w, pair.Begin(w.Context(), a.beginConfig(role)))
		require.Equal(w, pair.ModeAlone, role.Mode)
		w.bucket.set(a.number(), way{late: timing.Lease + time.Second}) // the first renewal gets no answer in time
		a.bootPrimary(role)
		pass(timing.Lease - time.Millisecond)
		require.True(w, a.process.primary.Status().Joining)
		w.calm()
		w.mode(a, pair.ModePaired)
		pass(time.Second)
		w.works()
		w.end()
	})
}

// A crash between the swap and the store of the role is no old copy (P17).
func TestACrashAfterASwapIsNoOldCopy(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		b.exit()
		a.die(100)
		w.bucket.set(a.number(), way{late: 2 * time.Second})
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		config := a.beginConfig(a.loadRole())
		require.ErrorIs(w, pair.Begin(ctx, config), context.DeadlineExceeded)
		require.Greater(w, w.entry().Term, a.loadRole().Term)
		w.calm()
		began := time.Now()
		require.NoError(w, a.begins())
		require.Greater(w, time.Since(began), alone, "another machine may have a promise (P14)")
		a.boot()
		pass(5 * time.Second)
		w.works()
		b.boot()
		w.settle()

		pass(alone)
		a.die(50)
		w.until(func() bool { return w.entry().Primary == b.loadRole().Disk })
		b.die(100)
		b.boot()
		w.takesOver(b)
		pass(time.Second)
		w.works()
		w.end()
	})
}

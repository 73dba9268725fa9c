package pair_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// A primary whose log was cut claims no term: the register would have a term of a primary that does not serve.
func TestADamagedLogClaimsNothing(t *testing.T) {
	t.Parallel()
	inPair(t, 1, func(w *world, a, b *machine) {
		a.exit()
		end, err := follow.End(a.mem, path(stream.Queue))
		require.NoError(w, err)
		newest := fmt.Sprintf("%s/%06d.log", path(stream.Queue), end.Log)
		whole, err := disktest.Read(a.mem, newest)
		require.NoError(w, err)
		disktest.Write(t, a.mem, newest, whole[:len(whole)/2])
		before, role := w.entry(), a.roleText()
		require.ErrorIs(w, a.begins(), disk.ErrDamaged)
		require.Equal(w, before, w.entry())
		require.Equal(w, role, a.roleText())
		disktest.Write(t, a.mem, newest, whole)
		require.NoError(w, a.begins())
		a.boot()
		w.end()
	})
}

// A primary whose log was cut is refused before its standby hears of the log. The standby would take the end of the cut log for the work of a
// crash: it could not become the primary any more, not even when the operator brings the file back.
func TestADamagedLogIsNotSent(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		w.boot()
		a, b := w.settle()
		a.exit()
		has := b.process.standby.Status().At
		end, err := follow.End(a.mem, path(stream.Queue))
		require.NoError(w, err)
		newest := fmt.Sprintf("%s/%06d.log", path(stream.Queue), end.Log)
		whole, err := disktest.Read(a.mem, newest)
		require.NoError(w, err)
		disktest.Write(t, a.mem, newest, whole[:len(whole)/2])
		w.mu.Lock()
		a.harm.what = newest + " is cut"
		w.mu.Unlock()
		a.boot()
		require.ErrorIs(w, a.harmed().ended, disk.ErrDamaged)
		require.Nil(w, a.process.primary)
		pass(timing.Lease)
		require.Equal(w, has, b.process.standby.Status().At)
		disktest.Write(t, a.mem, newest, whole)
		a.heal()
		a.boot()
		w.untilPaired(b)
		w.end()
	})
}

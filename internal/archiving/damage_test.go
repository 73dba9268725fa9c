package archiving_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// A start with a log that was cut takes no term, and leaves nothing of the log in the spool: the archive would take the end of the cut log for the
// work of a crash, and a restore would lack the rest, although the operator has brought the file back.
func TestADamagedLogReachesNoArchive(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(w *world) {
		w.start()
		w.write(40)
		w.stop()
		end, err := follow.End(w.mem, dirOf(stream.Queue))
		require.NoError(w, err)
		newest := fmt.Sprintf("%s/%06d.log", dirOf(stream.Queue), end.Log)
		whole, err := disktest.Read(w.mem, newest)
		require.NoError(w, err)
		disktest.Write(t, w.mem, newest, whole[:len(whole)/2])
		before, err := os.ReadFile(filepath.Join(w.dir, archive.StateFile))
		require.NoError(w, err)

		_, err = w.open(w.mem, w.dir)
		require.ErrorIs(w, err, disk.ErrDamaged)
		after, err := os.ReadFile(filepath.Join(w.dir, archive.StateFile))
		require.NoError(w, err)
		require.Equal(w, string(before), string(after))

		disktest.Write(t, w.mem, newest, whole)
		w.start()
		w.write(5)
		w.stop()
		w.same(false)
	})
}

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestABackupWithoutRoomHarmsNothing fills the disk of the backup, and in another run the disk of the
// process. The backup fails, or the backup and the process wait for room. Then the process continues.
func TestABackupWithoutRoomHarmsNothing(t *testing.T) {
	t.Parallel()
	for name, room := range rooms(t) {
		t.Run(name, func(t *testing.T) {
			u := newUp(t)
			p := u.start(t)
			written := &shelf{author: signUp(t, connect(t, u.http), "saver")}
			require.NoError(t, written.post(t))
			room.take(t, p)
			dir := filepath.Join(room.dir, "backup")
			c := start(t, u.env, "fanfare", "backup", dir, "--admin", u.admin)
			if room.lasts { // the disk of the backup is full, not the disk of the data
				<-c.exited
				require.Equal(t, 1, code(c.err))
				assert.Contains(t, tail(c.log), "no space left")
				left, err := filepath.Glob(filepath.Join(dir, "*"))
				require.NoError(t, err)
				assert.Empty(t, left)
				require.NoError(t, written.post(t))
			}
			room.give(t, p)
			<-c.exited
			p.ready(t, u.admin)
			await(t, "it takes posts", func() bool { return written.post(t) == nil })
			assert.NoDirExists(t, filepath.Join(u.data, "checkpoint"))

			dir = filepath.Join(room.dir, "second")
			u.fanfare(t, "backup", dir, "--admin", u.admin)
			p.kill(t)
			require.NoError(t, os.RemoveAll(u.data))
			u.fanfare(t, "restore", dir, "--data-dir", u.data)
			p = u.start(t)
			written.check(t)
			p.stop(t)
		})
	}
}

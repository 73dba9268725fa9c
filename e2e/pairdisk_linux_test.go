package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newestTail returns the newest file of the standby's tail, and its size.
func (u *upright) newestTail(t *testing.T) (name string, size int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(u.data, "tail", "*.tail"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	name = slices.Max(names)
	info, err := os.Stat(name)
	require.NoError(t, err)
	return name, info.Size()
}

// TestAPairOutlivesTheDiskOfItsStandby fills the disk of the standby, in the middle of a write, and later damages its tail. The
// primary answers no write that only it has, operators see the reason and the way out, and no answered write is lost.
func TestAPairOutlivesTheDiskOfItsStandby(t *testing.T) {
	t.Parallel()
	one, two, _ := cabled(t)
	p := one.start(t)
	s := two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	l := callBoth(t, one, two)
	l.more(one)
	disk := two.disk(t)

	_, size := two.newestTail(t)
	limitFiles(uint64(size+1000))(t, s)
	one.sees(t, "/readyz", "promise of the standby")
	two.sees(t, "/admin/pair", "file too large") // the tail, or a store
	s.logs(t, "write the tail: ")
	limitFiles(unlimited)(t, s)
	l.more(one)
	one.paired(t, "primary")

	limitFiles(0)(t, s)
	one.sees(t, "/readyz", "not ready")
	s.signal(t, syscall.SIGTERM)
	await(t, "a standby on a full disk ends", 30*time.Second, func() bool { return !s.running() })
	s = two.standby(t)
	l.more(one)
	assert.Equal(t, disk, two.disk(t), "a standby gets a copy of all data because its disk was full")

	s.stop(t)
	tail, _ := two.newestTail(t)
	data, err := os.ReadFile(tail)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(tail, data, 0o600))
	s = two.standby(t)
	s.logs(t, "the data of this standby are damaged: delete its data directory and start it again with --standby")
	<-s.exited
	assert.NotZero(t, code(s.err))
	p.stop(t)
	one.fanfare(t, "unpair", "--standby-is-gone", "--yes", "--data-dir", one.data)
	require.NoError(t, os.RemoveAll(two.data))
	p = one.again(t)
	s = two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	l.more(one)

	p.kill(t)
	l.promoted(two)
	two.fanfare(t, "promote", "--primary-is-gone", "--yes", "--admin", two.admin)
	l.more(two)
	l.end()
	l.kept(two)
	s.stop(t)
}

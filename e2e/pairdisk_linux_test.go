package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tailSize returns the size of the newest file of the standby's tail.
func (u *upright) tailSize(t *testing.T) int64 {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(u.data, "tail", "*.tail"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	info, err := os.Stat(slices.Max(names))
	require.NoError(t, err)
	return info.Size()
}

// damage flips a bit at each of some places of the files that a pattern names, and returns the function that mends the files.
func (u *upright) damage(t *testing.T, pattern string, each int) (mend func()) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(u.data, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	whole := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		whole[name] = slices.Clone(data)
		for at := each; at < len(data); at += each {
			data[at] ^= 1
		}
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
	return func() {
		for name, data := range whole {
			require.NoError(t, os.WriteFile(name, data, 0o600))
		}
	}
}

// refusesDamage starts a standby whose data are damaged.
func (u *upright) refusesDamage(t *testing.T) {
	t.Helper()
	s := u.standby(t)
	s.logs(t, "the data of this standby are damaged: while the primary runs, delete the data directory of the standby")
	<-s.exited
	assert.NotZero(t, code(s.err))
}

// TestAPairOutlivesTheDiskOfItsStandby fills the disk of the standby, in the middle of a write, and later damages its data. The
// primary answers alone, operators see the reason and the way out, and no answered write is lost.
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

	limitFiles(uint64(two.tailSize(t)+1000))(t, s)
	one.sees(t, "/readyz", onlyCopy)
	two.sees(t, "/admin/pair", "file too large") // the tail, or a store
	s.logs(t, "write the tail: ")
	limitFiles(unlimited)(t, s)
	l.more(one)
	one.paired(t, "primary")

	limitFiles(0)(t, s)
	one.sees(t, "/readyz", onlyCopy)
	s.signal(t, syscall.SIGTERM)
	await(t, "a standby on a full disk ends", func() bool { return !s.running() })
	s = two.standby(t)
	l.more(one)
	assert.Equal(t, disk, two.disk(t), "a standby gets a copy of all data because its disk was full")

	one.paired(t, "primary")
	s.stop(t)
	mend := two.damage(t, "table/*.sst", 100)
	two.refusesDamage(t)
	mend()
	two.damage(t, "tail/*.tail", 5000)
	two.refusesDamage(t)
	require.NoError(t, os.RemoveAll(two.data))
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

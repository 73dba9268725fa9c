package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gaps returns the number of gaps in the archive of u.
func (u *upright) gaps(t *testing.T) int {
	t.Helper()
	stdout, stderr, err := fanfare(t, u.env, "archive", "gaps", "--json")
	require.NoErrorf(t, err, "archive gaps: %s%s", stdout, stderr)
	var list struct{ Gaps []struct{} }
	require.NoErrorf(t, json.Unmarshal([]byte(stdout), &list), "%s", stdout)
	return len(list.Gaps)
}

// has restores the archive of u, and checks that the copy has the calls of a journal.
func (u *upright) has(t *testing.T, calls string, args ...string) {
	t.Helper()
	copied := newUp(t)
	u.restore(t, copied.data, args...)
	c := copied.start(t)
	stdout, stderr, err := fanfare(t, copied.env, copied.replay("--check", calls)...)
	verdict(t, stdout, stderr, err)
	copied.sound(t, false)
	c.stop(t)
}

// hasRange waits until the archive of u has a range of times to which a restore can return.
func (u *upright) hasRange(t *testing.T) {
	t.Helper()
	await(t, "the archive has a base", func() bool {
		stdout, _, err := fanfare(t, u.env, "archive", "ls", "--json")
		var list struct{ Lines []struct{ Ranges []struct{} } }
		return err == nil && json.Unmarshal([]byte(stdout), &list) == nil && len(list.Lines) > 0 && len(list.Lines[0].Ranges) > 0
	})
}

// The operator promotes the standby.
func TestTheArchiveOfAPairOutlivesItsPrimary(t *testing.T) {
	t.Parallel()
	one, two := twins(t)
	archive := filepath.Join(t.TempDir(), "archive")
	require.NoError(t, os.Mkdir(archive, 0o700))
	for _, u := range []*upright{one, two} {
		u.env = append(u.env, "FANFARE_ARCHIVE=file://"+archive)
	}
	outlives(t, one, two, func() {
		two.fanfare(t, "promote", "--primary-is-gone", "--yes", "--admin", two.admin)
	})
}

// outlives kills the primary of a pair under load. The standby, after takesOver, continues the archive, from which a
// time before the loss, the newest state, and a time after a later change of the roles can be restored.
func outlives(t *testing.T, one, two *upright, takesOver func()) {
	t.Helper()
	p, s := one.start(t), two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	file := filepath.Join(t.TempDir(), "journal")
	journal := watch(t, file)
	player := start(t, one.env, "fanfare", one.replay("--graph", graph, "--max-users", "40", "--posts", "600", "--likes", "6000", "--rate", "400", "--journal", file)...)
	one.hasRange(t)
	player.plays(t, file, 2600)
	before := time.Now().Truncate(time.Millisecond)
	player.plays(t, file, 4000)
	p.kill(t)
	player.kill(t)
	takesOver()
	two.answers(t)
	taken := time.Now() // the frames of the standby are older
	// The new primary first writes the frames that it had as the standby, in one segment or in many.
	await(t, "the frames of the standby", func() bool {
		now := readings(t.Context(), two.admin)
		return now[`fanfare_archive_puts_total{result="stored"}`] > 0 && inSeconds(now["fanfare_archive_lag_seconds"]) < time.Since(taken)
	})
	known := filepath.Join(t.TempDir(), "known")
	require.NoError(t, os.WriteFile(known, wholeLines(t, file), 0o600))
	two.has(t, known)
	calls, answers := journal.by(t, before)
	two.has(t, calls, "--at", before.UTC().Format(time.RFC3339Nano))
	t.Logf("%d answered calls were restored to a time before the loss", answers)
	assert.Zero(t, two.gaps(t))

	p = one.standby(t) // the old primary
	two.paired(t, "primary")
	one.paired(t, "standby")
	one.fanfare(t, "promote", "--yes", "--admin", one.admin)
	one.answers(t)
	one.paired(t, "primary")
	one.has(t, known)
	assert.Zero(t, one.gaps(t))
	one.sound(t, true)
	s.stop(t)
	p.stop(t)
}

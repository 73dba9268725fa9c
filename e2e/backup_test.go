package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestABackupUnderLoadIsRestoredExactly makes a backup of `fanfare up` in the middle of a replay, deletes
// the data directory and restores it. Every call that was answered before the backup began has had its
// effect, and deliveries and counts become exact. The same holds for a backup of the stopped process.
func TestABackupUnderLoadIsRestoredExactly(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	dir := t.TempDir()
	journal := filepath.Join(dir, "journal")
	player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "40", "--posts", "300", "--likes", "2000",
		"--rate", "600", "--journal", journal)...)
	player.plays(t, journal, 2500) // the replay has reached posts and likes
	before := wholeLines(t, journal)
	u.fanfare(t, "backup", filepath.Join(dir, "running"), "--admin", u.admin)
	during := wholeLines(t, journal)[len(before):]
	player.plays(t, journal, lines(t, journal)+50)
	player.kill(t)
	p.kill(t)
	u.fanfare(t, "backup", filepath.Join(dir, "stopped"), "--offline", "--data-dir", u.data)

	known := filepath.Join(dir, "known")
	require.NoError(t, os.WriteFile(known, append(before, unanswered(during)...), 0o600))
	for backup, of := range map[string]string{"running": known, "stopped": journal} {
		require.NoError(t, os.RemoveAll(u.data))
		u.fanfare(t, "restore", filepath.Join(dir, backup), "--data-dir", u.data)
		p = u.start(t)
		stdout, stderr, err := fanfare(t, u.env, u.replay("--check", of)...)
		r := verdict(t, stdout, stderr, err)
		assert.NotZero(t, r.Posts*r.Likes, "the check is of nothing")
		_, stderr, err = fanfare(t, u.env, "restore", filepath.Join(dir, backup), "--data-dir", u.data)
		assert.Equal(t, 1, code(err), stderr)
		p.stop(t)
		_, stderr, err = fanfare(t, u.env, "restore", filepath.Join(dir, backup), "--data-dir", u.data)
		assert.Equal(t, 1, code(err), stderr)
		assert.Contains(t, stderr, "is not empty")
	}
}

// TestAProcessThatDiesInABackupLeavesNoHalfOne kills `fanfare up` while it copies files. A restore
// refuses a directory without the list of its files, and the next start of the process removes the
// checkpoint.
func TestAProcessThatDiesInABackupLeavesNoHalfOne(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	dir := filepath.Join(t.TempDir(), "backup")
	c := start(t, u.env, "fanfare", "backup", dir, "--admin", u.admin)
	await(t, "the backup begins", func() bool { _, err := os.Stat(dir); return err == nil })
	p.kill(t)
	<-c.exited
	_, whole := os.Stat(filepath.Join(dir, "backup.json"))
	_, stderr, err := fanfare(t, u.env, "restore", dir, "--data-dir", filepath.Join(t.TempDir(), "restored"))
	assert.Equal(t, whole == nil, err == nil, stderr)
	t.Logf("%v: %s", whole, stderr)
	p = u.start(t)
	assert.NoDirExists(t, filepath.Join(u.data, "checkpoint"))
	p.stop(t)
}

// fanfare runs a command on the data directory. The command has to succeed.
func (u *upright) fanfare(t *testing.T, args ...string) {
	t.Helper()
	stdout, stderr, err := fanfare(t, u.env, args...)
	require.NoErrorf(t, err, "%v:\n%s%s", args, stdout, stderr)
	t.Logf("%s", stdout)
}

// wholeLines returns a file without an incomplete last line.
func wholeLines(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	return raw[:bytes.LastIndexByte(raw, '\n')+1]
}

// unanswered returns the calls of a journal that have no answer. Such a call may have had its effect.
func unanswered(journal []byte) (calls []byte) {
	for line := range bytes.Lines(journal) {
		if bytes.Contains(line, []byte(`"call":`)) {
			calls = append(calls, line...)
		}
	}
	return calls
}

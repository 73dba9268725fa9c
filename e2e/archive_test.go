package e2e

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	archiveRounds = flag.Int("archive-rounds", 2, "losses of the machine")
	archiveTimes  = flag.Int("archive-times", 4, "seconds to which a replay is restored")
)

// archived returns a server with an archive in a directory.
func archived(t *testing.T) (u *upright, archive string) {
	t.Helper()
	u = newUp(t)
	archive = filepath.Join(t.TempDir(), "archive")
	require.NoError(t, os.Mkdir(archive, 0o700))
	u.env = append(u.env, "FANFARE_ARCHIVE=file://"+archive)
	return u, archive
}

// hasBase waits until the archive has a number of bases.
func hasBase(t *testing.T, archive string, atLeast int) {
	t.Helper()
	await(t, "the archive has a base", func() bool {
		lists, err := filepath.Glob(filepath.Join(archive, "b", "*.json"))
		require.NoError(t, err)
		return len(lists) >= atLeast
	})
}

// archives waits until the archive has every write up to a time: the lag is the age of the oldest
// write that the archive lacks, and that write is later.
func (u *upright) archives(t *testing.T, at time.Time) {
	t.Helper()
	await(t, "the archive has the last writes", func() bool {
		asked := time.Now()
		lag := inSeconds(readings(t.Context(), u.admin)["fanfare_archive_lag_seconds"])
		return lag > 0 && asked.Add(-lag).After(at)
	})
}

// timedJournal is a journal, and its length at each moment.
type timedJournal struct {
	file    string
	mu      sync.Mutex
	samples []moment
}

type moment struct {
	at   time.Time
	size int64
}

// watch notes the length of a journal until the test ends.
func watch(t *testing.T, file string) *timedJournal {
	t.Helper()
	w := &timedJournal{file: file}
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
			if info, err := os.Stat(file); err == nil {
				w.mu.Lock()
				w.samples = append(w.samples, moment{time.Now(), info.Size()}) // the time is after the answers
				w.mu.Unlock()
			}
		}
	}()
	return w
}

// by writes a journal of the calls that were answered by a time. Later calls count as calls
// without an answer.
func (w *timedJournal) by(t *testing.T, at time.Time) (journal string, answers int) {
	t.Helper()
	all := wholeLines(t, w.file)
	w.mu.Lock()
	size := int64(0)
	for _, s := range w.samples {
		if s.at.After(at) {
			break
		}
		size = s.size
	}
	w.mu.Unlock()
	before := all[:min(size, int64(len(all)))]
	for len(before) > 0 && before[len(before)-1] != '\n' {
		before = before[:len(before)-1]
	}
	later := unanswered(all[len(before):])
	journal = filepath.Join(t.TempDir(), "known")
	require.NoError(t, os.WriteFile(journal, append(before[:len(before):len(before)], later...), 0o600))
	return journal, linesOf(before) - linesOf(unanswered(before))
}

func linesOf(text []byte) (n int) {
	for _, b := range text {
		if b == '\n' {
			n++
		}
	}
	return n
}

// restored is the JSON object of fanfare restore.
type restored struct {
	Until time.Time `json:"until"`
	Term  uint64    `json:"term"`
}

// restore restores the archive of u into a directory.
func (u *upright) restore(t *testing.T, data string, args ...string) (r restored) {
	t.Helper()
	stdout, stderr, err := fanfare(t, u.env, append([]string{"restore", "--json", "--data-dir", data}, args...)...)
	require.NoErrorf(t, err, "%v: %s%s", args, stdout, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	return r
}

// sound expects that the data of u, and its archive if it has one, are without findings.
func (u *upright) sound(t *testing.T, archived bool) {
	t.Helper()
	stdout, stderr, err := fanfare(t, u.env, "verify", "--json", "--rate", "100000", "--admin", u.admin)
	require.NoErrorf(t, err, "verify: %s%s", stdout, stderr)
	if archived {
		stdout, stderr, err = fanfare(t, u.env, "archive", "verify", "--json")
		require.NoErrorf(t, err, "archive verify: %s%s", stdout, stderr)
	}
}

// TestAReplayIsRestoredToItsSeconds restores an archive to drawn times of a replay, in the middle of which the process
// was killed once. Each restored directory has the calls that were answered by then.
func TestAReplayIsRestoredToItsSeconds(t *testing.T) {
	t.Parallel()
	u, archive := archived(t)
	p := u.start(t)
	file := filepath.Join(t.TempDir(), "journal")
	journal := watch(t, file)
	player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "40", "--posts", "600", "--likes", "6000", "--rate", "400", "--journal", file)...)
	hasBase(t, archive, 1)
	player.plays(t, file, 2600) // the replay has reached the posts
	began := time.Now()
	player.plays(t, file, 5000)
	u.archives(t, began)
	killed := time.Now()
	p.kill(t)
	p = u.start(t)
	back := time.Now()
	player.ends(t)
	ended := time.Now()
	p.stop(t)
	stdout, stderr, err := fanfare(t, u.env, "archive", "verify", "--json")
	require.NoErrorf(t, err, "archive verify: %s%s", stdout, stderr)
	// The last writes before the crash came to the archive after the restart. A busy machine archives late.
	crash := u.restore(t, filepath.Join(t.TempDir(), "crash"), "--at", killed.UTC().Format(time.RFC3339Nano)).Until

	random := rand.New(rand.NewPCG(2, 2))
	for range *archiveTimes {
		at := began.Add(time.Duration(random.Int64N(int64(ended.Sub(began))))).Truncate(time.Millisecond)
		copied := newUp(t)
		r := u.restore(t, copied.data, "--at", at.UTC().Format(time.RFC3339Nano))
		assert.False(t, r.Until.After(at))
		known := at
		if at.After(crash) && at.Before(back) {
			known = r.Until
		}
		calls, answers := journal.by(t, known)
		c := copied.start(t)
		stdout, stderr, err := fanfare(t, copied.env, copied.replay("--check", calls)...)
		verdict(t, stdout, stderr, err)
		copied.sound(t, false)
		c.stop(t)
		t.Logf("%s, %v after the posts began: the data until %s have the %d answered calls", at.Format(time.RFC3339Nano), at.Sub(began), r.Until.Format(time.RFC3339Nano), answers)
	}
}

// TestAnOutageOfTheArchiveLosesNoTime takes the store away under load, and kills the process meanwhile. After the
// return of the store the archive has the outage. Writes that the archive lacked at the crash have the time of the next start, so a restore to
// a time before ends at the last segment before the outage.
func TestAnOutageOfTheArchiveLosesNoTime(t *testing.T) {
	t.Parallel()
	u, archive := archived(t)
	p := u.start(t)
	file := filepath.Join(t.TempDir(), "journal")
	journal := watch(t, file)
	player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "40", "--posts", "600", "--likes", "6000", "--rate", "400", "--journal", file)...)
	hasBase(t, archive, 1)
	player.plays(t, file, 2600)
	require.NoError(t, os.Rename(archive, archive+".away"))
	player.plays(t, file, 4000)
	away := time.Now()
	player.plays(t, file, 6000)
	p.kill(t)
	p = u.start(t) // without an archive
	player.plays(t, file, 8000)
	require.NoError(t, os.Rename(archive+".away", archive))
	returned := time.Now()
	player.ends(t)
	await(t, "the archive has the outage", func() bool {
		_, stderr, err := fanfare(t, u.env, "restore", "--data-dir", filepath.Join(t.TempDir(), "probe"), "--at", returned.UTC().Format(time.RFC3339Nano))
		if err != nil {
			assert.Contains(t, stderr, "the archive ends at")
		}
		return err == nil
	})
	p.stop(t)
	for _, at := range []time.Time{away, returned} {
		copied := newUp(t)
		r := u.restore(t, copied.data, "--at", at.UTC().Format(time.RFC3339Nano))
		if at.Equal(away) {
			at = r.Until
		}
		calls, answers := journal.by(t, at)
		c := copied.start(t)
		stdout, stderr, err := fanfare(t, copied.env, copied.replay("--check", calls)...)
		verdict(t, stdout, stderr, err)
		copied.sound(t, false)
		c.stop(t)
		t.Logf("%s: the data have the %d answered calls", at.Format(time.RFC3339Nano), answers)
	}
}

// TestAnOldCopyOfADirectoryDoesNotStart puts a snapshot of the data directory in the place of the directory.
func TestAnOldCopyOfADirectoryDoesNotStart(t *testing.T) {
	t.Parallel()
	u, _ := archived(t)
	p := u.start(t)
	play := func(seed string) {
		stdout, stderr, err := fanfare(t, u.env, u.replay("--graph", graph, "--max-users", "10", "--posts", "5", "--likes", "10", "--seed", seed)...)
		verdict(t, stdout, stderr, err)
	}
	play("1")
	p.stop(t)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	require.NoError(t, os.CopyFS(snapshot, os.DirFS(u.data)))
	p = u.start(t)
	play("2")
	p.stop(t)
	require.NoError(t, os.RemoveAll(u.data))
	require.NoError(t, os.Rename(snapshot, u.data))
	_, stderr, err := fanfare(t, u.env, "up", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
	assert.NotZero(t, code(err))
	assert.Contains(t, stderr, "another copy of this data directory wrote to the archive")
	u.fanfare(t, "archive", "take", "--yes", "--data-dir", u.data)
	p = u.start(t)
	play("3")
	p.stop(t)
}

//go:build e2e && crash

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// leastSpool is the smallest FANFARE_STREAM_SPOOL.
const leastSpool = 64 << 20

// writtenPost is a post that the service answered.
type writtenPost struct {
	id              string
	author, n       int
	asked, answered time.Time
}

// text returns the text of a post. It is hard to compress, so that few posts fill a spool.
func (w writtenPost) text() string {
	random := rand.New(rand.NewPCG(uint64(w.author), uint64(w.n)))
	text := make([]rune, 5000)
	for i := range text {
		text[i] = rune(0x4e00 + random.IntN(0x5000))
	}
	return string(text)
}

// writers are authors who write long posts, each one after the answer to the one before.
type writers struct {
	authors int
	slow    atomic.Bool  // a few posts a second
	gate    sync.RWMutex // an author holds it during a call
	mu      sync.Mutex
	posts   []writtenPost
	failed  []error
	stop    chan struct{}
	working sync.WaitGroup
}

func authorName(i int) string { return fmt.Sprintf("author%d", i) }

// startWriters starts authors, each of whom follows the next one.
func (u *upright) startWriters(t *testing.T, authors int) *writers {
	t.Helper()
	w := &writers{authors: authors, stop: make(chan struct{})}
	w.slow.Store(true)
	var clients []*client.Client
	for i := range authors {
		c := u.as(t, authorName(i))
		_, err := c.PutMe(t.Context(), client.ProfileInput{Name: authorName(i)})
		require.NoError(t, err)
		clients = append(clients, c)
	}
	for i, c := range clients {
		require.NoError(t, c.Follow(t.Context(), authorName((i+1)%authors)))
	}
	for i, c := range clients {
		w.working.Go(func() { w.write(t.Context(), c, i) })
	}
	t.Cleanup(w.end)
	return w
}

func (w *writers) write(ctx context.Context, c *client.Client, author int) {
	pause := time.NewTicker(200 * time.Millisecond)
	defer pause.Stop()
	for n := 0; ; n++ {
		select {
		case <-w.stop:
			return
		default:
		}
		if w.slow.Load() {
			<-pause.C
		}
		p := writtenPost{author: author, n: n}
		text := p.text()
		w.gate.RLock()
		p.asked = time.Now()
		post, err := c.CreatePost(ctx, client.PostInput{Text: text})
		p.id, p.answered = post.ID, time.Now()
		w.gate.RUnlock()
		w.mu.Lock()
		if err == nil {
			w.posts = append(w.posts, p)
		} else {
			w.failed = append(w.failed, err)
		}
		w.mu.Unlock()
	}
}

func (w *writers) written() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.posts)
}

// more waits until the authors have written a number of posts more, and returns the time.
func (w *writers) more(t *testing.T, posts int) time.Time {
	t.Helper()
	upto := w.written() + posts
	await(t, fmt.Sprintf("%d posts", upto), func() bool { return w.written() >= upto })
	return time.Now()
}

func (w *writers) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.working.Wait()
}

// longest returns the longest time of an answer in a time.
func (w *writers) longest(from, to time.Time) (took time.Duration) {
	for _, p := range w.posts {
		if p.asked.After(from) && p.asked.Before(to) {
			took = max(took, p.answered.Sub(p.asked))
		}
	}
	return took
}

// exact expects that a server has the posts as of a time. After a crash a worker makes posts whose event is
// durable, so a post may come a moment later.
func (w *writers) exact(t *testing.T, u *upright, at time.Time) {
	t.Helper()
	var sure, missing int
	await(t, "the posts that were answered by "+at.Format(time.RFC3339Nano), func() bool {
		sure, missing = 0, 0
		for author := range w.authors {
			there, lacking := w.exactOf(t, u, author, at)
			sure, missing = sure+there, missing+lacking
		}
		return missing == 0
	})
	t.Logf("%s: %d of %d posts", at.Format(time.RFC3339Nano), sure, len(w.posts))
}

// exactOf returns the numbers of an author's posts that are there, and of posts that were answered by a time and
// are missing.
func (w *writers) exactOf(t *testing.T, u *upright, author int, at time.Time) (sure, missing int) {
	t.Helper()
	got := map[string]string{}
	for post, err := range u.as(t, authorName(author)).PostsByUser(authorName(author), client.PostRange{}).All(t.Context()) {
		require.NoError(t, err)
		got[post.ID] = post.Text
	}
	for _, p := range w.posts {
		if p.author != author {
			continue
		}
		text, there := got[p.id]
		delete(got, p.id)
		switch {
		case there:
			require.Equal(t, p.text(), text)
			require.False(t, p.asked.After(at), "a post of a later time")
			sure++
		case !p.answered.After(at):
			missing++
		}
	}
	require.Empty(t, got, "posts that nobody wrote")
	return sure, missing
}

// sizeOf returns the number of bytes of the files of a directory, some of which may vanish.
func sizeOf(dir string) (bytes int64) {
	filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error { //nolint:errcheck // a vanished file has no bytes
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// warnings returns the names of the warnings of /readyz, which stays ready.
func (u *upright) warnings(t *testing.T) string {
	t.Helper()
	ready := get(t, u.admin, "/readyz", "")
	require.True(t, strings.HasPrefix(ready, "200 "), ready)
	return ready
}

// TestADayWithoutTheArchive cuts the store off until the spool is full, under load. Each write is answered meanwhile,
// the disk holds no more than the spool, and the gap is named at once. After the return of the store, the next base
// ends the gap.
func TestADayWithoutTheArchive(t *testing.T) {
	silent := fault{kind: "timeout", attributes: `"timeout": 0`}
	for name, c := range map[string]struct {
		cut, mend func(t *testing.T, s *farStore)
		killed    bool // the process is replaced in the outage
	}{
		"that refuses connections": {
			func(_ *testing.T, s *farStore) { s.proxy.Stop() }, func(t *testing.T, s *farStore) { t.Helper(); require.NoError(t, s.proxy.Start()) }, false,
		},
		"that is silent, and a kill": {
			func(t *testing.T, s *farStore) { t.Helper(); addFault(t, s.proxy, silent, "upstream") },
			func(t *testing.T, s *farStore) {
				t.Helper()
				require.NoError(t, s.proxy.Toxics.RemoveToxic(t.Context(), "fault"))
			},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			day(t, c.cut, c.mend, c.killed)
		})
	}
}

func day(t *testing.T, cutOff, mend func(*testing.T, *farStore), killed bool) {
	t.Helper()
	s := newFarStore(t)
	u := s.archived(t, "FANFARE_STREAM_SPOOL=64MiB")
	p := u.start(t)
	w := u.startWriters(t, 8)
	s.hasBases(t, 1)
	before := w.more(t, 20)
	u.archives(t, before)
	cutOff(t, s)
	cut := time.Now()
	most := w.fillSpool(t, u)
	full := time.Now()
	inside := w.more(t, 10)
	await(t, "/readyz names the outage and the gap", func() bool {
		warnings := u.warnings(t)
		return strings.Contains(warnings, "the archive is late") && strings.Contains(warnings, "the archive has a gap")
	})
	assert.GreaterOrEqual(t, inSeconds(readings(t.Context(), u.admin)["fanfare_archive_lag_seconds"]), time.Since(inside), "the archive lacks the writes since the cut")
	if killed {
		w.gate.Lock()
		p.kill(t)
		p = u.start(t)
		w.gate.Unlock()
	}
	w.more(t, 10)
	mend(t, s)
	returned := time.Now()
	s.hasBases(t, 2)
	await(t, "the lag is seconds, and the gap has ended", func() bool {
		return strings.HasSuffix(u.warnings(t), `{"status":"ready"}`) && !late(nil, readings(t.Context(), u.admin))
	})
	t.Logf("the outage took %v, %d posts and at most %.1f MiB of the disk; %v after its end the archive was whole", returned.Sub(cut), w.written(), float64(most)/(1<<20), time.Since(returned))
	after := w.more(t, 20)
	u.archives(t, after)
	assert.EqualValues(t, 1, readings(t.Context(), u.admin)["fanfare_archive_gaps_total"])
	w.end()
	p.stop(t)
	require.Empty(t, w.failed)
	t.Logf("the longest answer took %v before the outage, %v until the spool was full, and %v after that", w.longest(time.Time{}, cut), w.longest(cut, full), w.longest(full, returned))

	u.hasGap(t, before, inside, after)
	for _, at := range []time.Time{before, after} {
		copied := newUp(t)
		u.restore(t, copied.data, "--at", at.UTC().Format(time.RFC3339Nano))
		c := copied.start(t)
		w.exact(t, copied, at)
		copied.sound(t, false)
		c.stop(t)
	}
}

// fillSpool writes until the spool is full, and returns the maximum size of the spool.
func (w *writers) fillSpool(t *testing.T, u *upright) (most int64) {
	t.Helper()
	w.slow.Store(false)
	defer w.slow.Store(true)
	await(t, "the spool is full", func() bool {
		most = max(most, sizeOf(filepath.Join(u.data, "stream")))
		values := readings(t.Context(), u.admin)
		require.LessOrEqual(t, values["fanfare_stream_spool_bytes"], float64(leastSpool))
		return values["fanfare_archive_gaps_total"] > 0
	})
	assert.LessOrEqual(t, most, int64(leastSpool))
	assert.Greater(t, most, int64(leastSpool/2), "the spool was not full")
	return most
}

// hasGap expects that the archive is sound and has one gap, in which a time is. A restore to this time is refused.
func (u *upright) hasGap(t *testing.T, before, inside, after time.Time) {
	t.Helper()
	stdout, stderr, err := fanfare(t, u.env, "archive", "verify", "--json")
	require.NoErrorf(t, err, "archive verify: %s%s", stdout, stderr)
	stdout, stderr, err = fanfare(t, u.env, "archive", "gaps", "--json")
	require.NoError(t, err, stderr)
	var found struct {
		Gaps []struct{ From, To time.Time }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.Len(t, found.Gaps, 1, stdout)
	gap := found.Gaps[0]
	assert.True(t, slices.IsSortedFunc([]time.Time{before, gap.From, inside, gap.To, after}, time.Time.Compare), "%v %v %s", before, after, stdout)
	_, stderr, err = fanfare(t, u.env, "restore", "--data-dir", filepath.Join(t.TempDir(), "refused"), "--at", inside.UTC().Format(time.RFC3339Nano))
	assert.Equal(t, 1, code(err))
	assert.Contains(t, stderr, "the archive has a gap from")
}

package pair_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/pair"
	"fanfare/internal/stream"
)

// archives reads the stream of a primary for an archive, which an old primary may write until its end, and notes how far
// the archive has the logs of the disk.
func (m *machine) archives(p *process, disk string) {
	_, receiver := p.primary.Archive()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
		m.mu.Lock()
		if !m.dead[p] {
			frames, mark, err := receiver.Ready(1<<20, p.primary.Archivable())
			for _, f := range frames {
				m.archived[disk] = m.archived[disk].After(f)
			}
			receiver.Done(mark)
			if errors.Is(err, stream.ErrGap) {
				receiver.Restart()
			} else {
				assert.NoError(m, err)
			}
		}
		m.mu.Unlock()
	}
}

// succeeded notes the place at which the machine becomes the primary.
func (m *machine) succeeded(s pair.Succession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.breaks == nil {
		m.succession = &s
	}
	return m.breaks
}

// checkArchived expects that a standby that takes over has all that the archive has of the primary before. The caller
// holds mu.
func (m *machine) checkArchived() {
	s := m.succession
	if m.succession = nil; s == nil {
		return
	}
	m.successions++
	var tail []stream.Frame
	for f, err := range (pair.KeptTail{FS: m.mem, Dir: "data/tail"}).Frames() {
		assert.NoError(m, err)
		tail = append(tail, f)
	}
	archived := counts(m.archived[s.Disk], tail)
	rest, missing := archive.Sequel{At: archived}, false
	for _, f := range tail {
		if _, missing = rest.Take(f); missing {
			break
		}
	}
	if !missing {
		m.completed++
		assert.Equal(m, s.Upto, counts(rest.At, tail), "the tail completes the archive")
	}
	assert.True(m, s.Upto.Covers(archived), "%s has the stream up to %v, but the archive is ahead: %v", m.name, s.Upto, archived)
}

// counts returns a position without the bytes behind a cut, which do not count.
func counts(at stream.Position, frames []stream.Frame) stream.Position {
	for _, f := range frames {
		if end := at.Of(f.Store); f.Kind == stream.Cut && end.Log == f.Log && f.End().Before(end) {
			at = at.With(f.Store, f.End())
		}
	}
	return at
}

// A primary alone archives everything. A paired primary archives only the frames that the standby has.
func TestOnlyWhatTheStandbyHasIsArchived(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		a.boot()
		w.until(func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return a.process.serving
		})
		pass(time.Second)
		synctest.Wait() // no write begins between the next two calls
		all, _ := a.process.primary.Archive()
		require.Equal(w, all.End(), a.process.primary.Archivable(), "alone")
		b.boot()
		w.settle()
		pass(time.Second)
		w.network.hold(true, false) // the confirmations of the standby still arrive, so the next write begins
		w.until(func() bool { return !b.standby.Status().At.Covers(all.End()) })
		has := b.standby.Status().At
		require.True(w, has.Covers(a.process.primary.Archivable()), "paired")
		w.mu.Lock()
		require.True(w, has.Covers(w.archived[a.loadRole().Disk]))
		require.NotZero(w, w.archived[a.loadRole().Disk])
		w.mu.Unlock()
		w.end()
	})
}

// A primary alone that lost the promise of its register answers nothing, but it has answered. The archive gets these writes.
func TestTheArchiveGetsWhatAPrimaryAloneHasAnswered(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		b.exit()
		w.mode(a, pair.ModeAlone)
		w.works()
		w.bucket.set(a.number(), way{away: true})
		pass(2 * alone)
		w.stands()
		all, _ := a.process.primary.Archive()
		require.Equal(w, all.End(), a.process.primary.Archivable())
		w.end()
	})
}

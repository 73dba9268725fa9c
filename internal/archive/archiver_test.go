package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// tape is a stream in memory. Its position is the number of bytes in the queue's log.
type tape struct {
	mu       sync.Mutex
	bytes    []byte
	times    []time.Time // the time of each byte
	archived stream.Position
	dropped  int           // the bytes before this offset are dropped
	pause    time.Duration // the duration of Next
}

// last makes each call of Next last for a time.
func (s *tape) last(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = d
}

func (s *tape) lasts() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause
}

func (s *tape) write(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.bytes = append(s.bytes, byte(len(s.bytes)*7))
		s.times = append(s.times, time.Now())
	}
}

// Next implements archive.Stream. Each byte is a safe point.
func (s *tape) Next(_ context.Context, after stream.Position, most int) (archive.Part, error) {
	defer func() { time.Sleep(s.lasts()) }() //nolint:forbidigo // virtual time
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := int(after.Queue.Offset)
	gap := begin < s.dropped
	begin = max(begin, s.dropped)
	end := min(len(s.bytes), begin+most)
	if begin == end {
		return archive.Part{}, nil
	}
	return archive.Part{
		Frames: bytes.Clone(s.bytes[begin:end]), Start: tapeAt(begin), End: tapeAt(end), First: s.times[begin], Last: s.times[end-1], Gap: gap,
	}, nil
}

// have returns the position up to which the archive has the bytes of the tape.
func (s *tape) have() stream.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.archived
}

// drop drops the bytes before n.
func (s *tape) drop(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = n
}

func tapeAt(n int) stream.Position {
	return stream.Position{Queue: stream.Place{Log: 1, Offset: uint64(n)}, Table: stream.Place{Log: 2}}
}

// Archived implements archive.Stream.
func (s *tape) Archived(p stream.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.archived = p
}

// outage is a store that fails while err is set.
type outage struct {
	objects.Store
	mu      sync.Mutex
	err     error
	creates int
}

func (o *outage) set(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.creates = err, 0
}

func (o *outage) calls() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.creates
}

// Create implements objects.Store.
func (o *outage) Create(ctx context.Context, name string, body objects.Body) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.creates++; o.err != nil {
		return fmt.Errorf("create %s: %w", name, o.err)
	}
	return o.Store.Create(ctx, name, body)
}

// rig is a running archiver with its stream and store.
type rig struct {
	*archive.Archiver
	archive *archive.Archive
	tape    *tape
	store   *outage
	logs    *observer.ObservedLogs
	stop    func() error
}

func newRig(t *testing.T, most int) *rig {
	t.Helper()
	r := &rig{tape: &tape{}, store: &outage{Store: inMemory(t)}}
	r.archive = open(t, r.store)
	term := take(t, r.archive, start("node", tapeAt(0)))
	core, logs := observer.New(zap.DebugLevel)
	r.logs = logs
	r.Archiver = archive.NewArchiver(r.tape, r.archive.Writer(term), time.Second, zap.New(core))
	r.SetMost(most)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = func() error {
		cancel()
		return <-done
	}
	return r
}

// segments returns the segments of term 1, and checks that their frames are the bytes of the tape.
func (r *rig) segments(t *testing.T) []archive.Segment {
	t.Helper()
	var all []archive.Segment
	var frames []byte
	for n := uint64(1); ; n++ {
		s, err := r.archive.Segment(t.Context(), 1, n)
		if errors.Is(err, objects.ErrNotThere) {
			break
		}
		require.NoError(t, err)
		all = append(all, s)
		frames = append(frames, s.Frames...)
	}
	r.tape.mu.Lock()
	defer r.tape.mu.Unlock()
	assert.True(t, bytes.Equal(r.tape.bytes[r.tape.dropped:], frames), "the archive is not the stream")
	return all
}

func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

func TestASegmentEachSecondWithBytesAndEachMinuteWithout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, archive.MaxFrames)
		for range 5 {
			r.tape.write(10)
			sleep(time.Second)
		}
		require.Len(t, r.segments(t), 5)
		assert.Equal(t, tapeAt(50), r.tape.have())
		sleep(3*time.Minute + time.Second)
		all := r.segments(t)
		require.Len(t, all, 8)
		assert.Equal(t, tapeAt(50), all[7].Start)
		assert.Zero(t, r.Lag())
		require.NoError(t, r.stop())
		r.tape.write(3)
		require.NoError(t, r.Drain(t.Context()))
		assert.Equal(t, tapeAt(53), r.tape.have())
		r.segments(t)
	})
}

// The stream is read without a new frame, and a write is answered before the segment gets its time.
func TestASegmentWithoutFramesIsNotLaterThanAWriteThatItLacks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, archive.MaxFrames)
		r.tape.last(10 * time.Millisecond)
		sleep(time.Minute + time.Second)
		all := r.segments(t)
		require.NotEmpty(t, all)
		assert.Zero(t, all[0].Last.Nanosecond(), "the time after the call")
		require.NoError(t, r.stop())
	})
}

// While the store is unreachable for an hour, nothing waits, there are not too many requests, and
// one line of the log reports the outage. A few seconds after the outage, the archive is complete.
func TestAnArchiveThatIsAwayCatchesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, archive.MaxFrames)
		r.tape.write(10)
		sleep(time.Second)
		r.store.set(objects.ErrAway)
		r.tape.write(1)
		sleep(9 * time.Second)
		assert.Zero(t, r.logs.Len(), "a short outage is no line")
		assert.Greater(t, r.Lag(), 8*time.Second)
		r.tape.write(100)
		sleep(time.Hour)
		assert.Equal(t, 1, r.logs.FilterMessageSnippet("is late").Len())
		assert.Greater(t, r.Lag(), time.Hour)
		assert.Less(t, r.store.calls(), 2000)
		assert.Equal(t, tapeAt(10), r.tape.have())
		r.store.set(nil)
		sleep(7 * time.Second)
		assert.Equal(t, tapeAt(111), r.tape.have())
		assert.Equal(t, 1, r.logs.FilterMessageSnippet("is back").Len())
		assert.Zero(t, r.Lag())
		r.segments(t)
		require.NoError(t, r.stop())
	})
}

// If more frames wait than a segment holds, the archiver writes large segments one after
// another, because several at once might leave a hole.
func TestALargeBacklogIsWrittenInOneTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1000)
		r.tape.write(2005)
		sleep(time.Second)
		all := r.segments(t)
		require.Len(t, all, 3)
		assert.Len(t, all[0].Frames, 1000)
		require.NoError(t, r.stop())
	})
}

// A store that refuses the calls needs an operator. The process continues in the meantime.
func TestAStoreThatRefusesIsReportedAtOnceAndTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, archive.MaxFrames)
		r.store.set(objects.ErrRefused)
		r.tape.write(1)
		sleep(2 * time.Second)
		require.Equal(t, 1, r.logs.Len())
		r.store.set(nil)
		sleep(6 * time.Second)
		assert.Equal(t, tapeAt(1), r.tape.have())
		require.NoError(t, r.stop())
	})
}

func TestAFencedArchiverStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, archive.MaxFrames)
		taker := start("other", at(0, 0))
		taker.Anyway = true
		take(t, r.archive, taker)
		r.tape.write(1)
		sleep(2 * time.Second)
		_, fenced := errors.AsType[*archive.FencedError](r.stop())
		assert.True(t, fenced)
		assert.Equal(t, stream.Position{}, r.tape.have())
	})
}

// If the spool was dropped, the archive continues after a gap, and the next segment has the flag Gap.
func TestAGapIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, archive.MaxFrames)
		r.tape.write(10)
		r.tape.drop(4)
		sleep(time.Second)
		s, err := r.archive.Segment(t.Context(), 1, 1)
		require.NoError(t, err)
		assert.True(t, s.Gap)
		assert.Equal(t, tapeAt(4), s.Start)
		require.NoError(t, r.stop())
	})
}

package archiving_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/archiving"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// noTail is the tail of a machine that was no standby.
type noTail struct{}

// Frames implements archiving.Tail.
func (noTail) Frames() iter.Seq2[stream.Frame, error] {
	return func(func(stream.Frame, error) bool) {}
}

// Forget implements archiving.Tail.
func (noTail) Forget() error { return nil }

// tail is the tail of a machine that was a standby.
type tail struct {
	noTail

	frames []stream.Frame
}

// Frames implements archiving.Tail.
func (t tail) Frames() iter.Seq2[stream.Frame, error] {
	return func(yield func(stream.Frame, error) bool) {
		for _, f := range t.frames {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// share opens the stream of a pair, which the archive may have up to a bound; nil for no bound.
func (w *world) share(bound *atomic.Pointer[stream.Position]) (shared *archiving.Shared, end func()) {
	w.Helper()
	stores := follow.Stores{FS: w.mem, Queue: "queue", Table: "table"}
	opened, receiver, err := stores.OpenStream(stream.Config{Dir: "stream", Spool: w.spool, Log: w.log}, stream.Position{})
	require.NoError(w, err)
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() { opened.Run(ctx); close(ran) }()
	w.running = append(w.running, func() { stop(); <-ran })
	upto := func() stream.Position {
		if at := bound.Load(); at != nil {
			return *at
		}
		return opened.End()
	}
	shared = &archiving.Shared{Stream: opened, Receiver: receiver, Upto: upto, Pair: archive.Pair{Lineage: "pair", Term: 1, Disk: "disk"}, Tail: noTail{}}
	return shared, func() {
		stop()
		<-ran
		require.NoError(w, opened.Close())
	}
}

// archivedUpTo returns the end of the newest segment.
func (w *world) archivedUpTo() stream.Position {
	w.Helper()
	a, err := archive.New(w.objects.Store, time.Now)
	require.NoError(w, err)
	term, err := a.Newest(w.Context())
	require.NoError(w, err)
	_, last, err := a.Span(w.Context(), archive.Link{Term: term})
	require.NoError(w, err)
	e, err := a.Entry(w.Context(), term.Number, last)
	require.NoError(w, err)
	return e.End
}

// inOrder expects that no segment has a frame of a time for which an earlier segment of the newest term stands.
func (w *world) inOrder() {
	w.Helper()
	a, err := archive.New(w.objects.Store, time.Now)
	require.NoError(w, err)
	term, err := a.Newest(w.Context())
	require.NoError(w, err)
	_, last, err := a.Span(w.Context(), archive.Link{Term: term})
	require.NoError(w, err)
	var before time.Time
	for s, err := range a.Segments(w.Context(), term.Number, 1, last) {
		require.NoError(w, err)
		for _, f := range decode(w, s.Frames) {
			require.Falsef(w, f.Kind != stream.Safe && time.UnixMilli(f.Time).Before(before.Truncate(time.Millisecond)), "segment %x has a frame of %v, after a segment that stands for all times up to %v", s.N, time.UnixMilli(f.Time), before)
		}
		before = s.Last
	}
}

// lostFrom expects that the first gap of the archive begins before a time.
func (w *world) lostFrom(before time.Time) {
	w.Helper()
	a, err := archive.New(w.objects.Store, time.Now)
	require.NoError(w, err)
	chain, err := a.Chain(w.Context(), 0, 0)
	require.NoError(w, err)
	for gap, err := range a.Gaps(w.Context(), chain) {
		require.NoError(w, err)
		require.Truef(w, gap.From.Before(before), "the gap begins at %v, but writes of %v are lost", gap.From, before)
		return
	}
	require.Fail(w, "the archive has no gap")
}

// A segment without frames stands for a time up to which the archive has everything. While frames wait behind the bound, or a gap
// waits for its place, there is no such time.
func TestAnIdleSegmentStandsForNoFrameThatWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, 8, func(w *world) {
		var bound atomic.Pointer[stream.Position]
		gap := w.rng.IntN(2) == 0
		if gap {
			w.spool = 100 << 10
		}
		shared, end := w.share(&bound)
		w.shared = shared
		w.start()
		w.write(30)
		pass(3 * time.Second)
		at := shared.Stream.End()
		bound.Store(&at)
		lost := time.Now().Add(time.Second)
		for range 5 {
			w.objects.set(gap)
			for range 30 {
				w.write(20)
				pass(time.Second)
			}
			w.objects.set(false)
			pass(3 * time.Minute)
		}
		bound.Store(nil)
		pass(5 * time.Minute)
		w.inOrder()
		if gap {
			w.lostFrom(lost)
		}
		w.stop()
		end()
	})
}

// The archive of a pair stops at its bound, also behind a gap. The frames behind the bound are no lag.
func TestAnArchiveStopsAtItsBound(t *testing.T) {
	t.Parallel()
	inBubble(t, 6, func(w *world) {
		var bound atomic.Pointer[stream.Position]
		gap := w.rng.IntN(2) == 0
		if gap {
			w.spool = 100 << 10
		}
		shared, end := w.share(&bound)
		w.shared = shared
		w.start()
		w.write(30)
		pass(3 * time.Second)
		require.Zero(w, w.Behind())
		at := shared.Stream.End()
		bound.Store(&at)
		w.objects.set(gap)
		for range 100 {
			w.write(20)
			pass(time.Second)
		}
		if !gap {
			require.NoError(w, w.Late(), "the archive has everything that it may have")
		}
		w.objects.set(false)
		pass(5 * time.Minute)
		require.True(w, at.Covers(w.archivedUpTo()))
		bound.Store(nil)
		pass(5 * time.Minute)
		require.Equal(w, shared.Stream.Safe(), w.archivedUpTo())
		gaps := w.Gaps()
		require.Equal(w, gap, gaps > 0)
		w.stop()
		end()
		w.same(true)
	})
}

// followed gives the directory the state of a standby that has become the primary, and the archive the term of the primary
// before, which ends at a position.
func (w *world) followed(from, upto stream.Position) {
	w.Helper()
	a, err := archive.New(w.objects.Store, time.Now)
	require.NoError(w, err)
	_, err = a.Take(w.Context(), archive.Start{
		Lineage: "lineage", Node: "old", Nonce: "nonce", Keep: func() error { return nil }, Asked: func(string) bool { return false }, At: from, Pair: &archive.Pair{Lineage: "pair", Term: 1, Disk: "old disk"}, Version: "v", DataFormat: 2,
	})
	require.NoError(w, err)
	state, err := archive.NewState(w.dir, "pair")
	require.NoError(w, err)
	state.Disk, state.Followed.Position = "old disk", archive.Position(upto)
	require.NoError(w, state.Save())
}

// A long tail takes several segments. A restore may end in each of them, but only at a safe point of the primary before, and not
// between frames of one time: what a start found in the logs has no order.
func TestARestoreMayEndInsideALongTail(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		const size, pieces = stream.MaxData, 100
		begin := stream.Position{Queue: stream.Place{Log: 1}, Table: stream.Place{Log: 1}}
		var frames []stream.Frame
		safe, at, now := map[stream.Position]bool{}, begin, time.Now().UnixMilli()
		for i := range pieces {
			f := stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Time: now + int64((i+1)/2), Log: 1, Offset: uint64(i) * size, Data: make([]byte, size)}
			frames = append(frames, f, stream.SafeAt(at, f.Time)) // the safe point is behind
			safe[at] = true
			at = at.After(f)
		}
		w.followed(begin, at)
		var bound atomic.Pointer[stream.Position]
		shared, end := w.share(&bound)
		shared.Pair.Term, shared.Tail = 2, tail{frames: frames}
		w.shared = shared
		w.start()
		pass(time.Minute)
		a, err := archive.New(w.objects.Store, time.Now)
		require.NoError(w, err)
		chain, err := a.Chain(w.Context(), 0, 0)
		require.NoError(w, err)
		require.Len(w, chain, 3)
		require.Equal(w, at, chain[1].Upto)
		_, last, err := a.Span(w.Context(), chain[1])
		require.NoError(w, err)
		require.Greater(w, last, uint64(2))
		read, before := 0, int64(0)
		for s, err := range a.Segments(w.Context(), 2, 1, last) {
			require.NoError(w, err)
			got := decode(w, s.Frames)
			end := got[len(got)-1]
			require.Equal(w, stream.Safe, end.Kind)
			require.Equal(w, s.End, end.Position())
			require.True(w, s.N == last || safe[s.End], "a segment ends at %v", s.End)
			require.Greater(w, got[0].Time, before)
			before = got[len(got)-2].Time
			read += len(got) - 1
		}
		require.Equal(w, pieces, read)
		w.stop()
		end()
	})
}

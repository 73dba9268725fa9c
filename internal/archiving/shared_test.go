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

// share opens the stream of a pair, which the archive may have up to a bound; nil for no bound.
func (w *world) share(bound *atomic.Pointer[stream.Position]) (shared *archiving.Shared, end func()) {
	w.Helper()
	stores := follow.Stores{FS: w.mem, Queue: "queue", Table: "table"}
	opened, receiver, err := stores.OpenStream(stream.Config{Dir: "stream", Spool: w.spool, Log: w.log}, stream.Position{})
	require.NoError(w, err)
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() { opened.Run(ctx); close(ran) }()
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

// The archive of a pair stops at its bound, also behind a gap. What is behind the bound is no lag.
func TestAnArchiveStopsAtItsBound(t *testing.T) {
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

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

package pair

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/stream"
)

// A start reads the rest of the queue's log, and then the rest of the table's log. Between the two, the queue may have what depends on a write
// that the table does not have yet.
func TestNoSafePointLiesInsideWhatAStartHasRead(t *testing.T) {
	t.Parallel()
	at := func(queue, table stream.Place) stream.Position { return stream.Position{Queue: queue, Table: table} }
	bytes := func(store stream.Store, offset uint64, time int64) stream.Frame {
		return stream.Frame{Kind: stream.Bytes, Store: store, Time: time, Log: 1, Offset: offset, Data: make([]byte, 10)}
	}
	cut := func(store stream.Store, offset uint64) stream.Frame {
		return stream.Frame{Kind: stream.Cut, Store: store, Time: 2, Log: 1, Offset: offset}
	}
	safe := at(stream.Place{Log: 2}, stream.Place{Log: 2})
	s := &session{primary: &Primary{rest: at(stream.Place{Log: 1, Offset: 30}, stream.Place{Log: 1, Offset: 20})}}
	for _, step := range []struct {
		stream.Frame
		announces stream.Position
	}{
		{bytes(stream.Queue, 0, 1), stream.Position{}},
		{bytes(stream.Table, 0, 1), stream.Position{}},
		{bytes(stream.Queue, 10, 2), at(stream.Place{Log: 1, Offset: 10}, stream.Place{Log: 1, Offset: 10})},
		{bytes(stream.Queue, 20, 2), at(stream.Place{Log: 1, Offset: 10}, stream.Place{Log: 1, Offset: 10})},
		{cut(stream.Queue, 30), at(stream.Place{Log: 1, Offset: 10}, stream.Place{Log: 1, Offset: 10})},
		{bytes(stream.Table, 10, 2), at(stream.Place{Log: 1, Offset: 30}, stream.Place{Log: 1, Offset: 20})},
		{stream.Frame{Kind: stream.Begins, Store: stream.Queue, Time: 2, Log: 2}, at(stream.Place{Log: 2}, stream.Place{Log: 1, Offset: 20})},
	} {
		s.take([]stream.Frame{step.Frame}, 0)
		require.Equal(t, step.announces, s.announces(safe), "after %v", step.Frame)
	}

	inside := &session{primary: s.primary, at: at(stream.Place{Log: 1, Offset: 20}, stream.Place{Log: 1, Offset: 10})}
	inside.take([]stream.Frame{bytes(stream.Queue, 20, 2)}, 0)
	require.Zero(t, inside.announces(safe), "an earlier session has sent a part of the frames of this time")

	ahead := &session{primary: s.primary, at: at(stream.Place{Log: 1, Offset: 50}, stream.Place{Log: 1, Offset: 50})}
	require.Equal(t, s.primary.rest, ahead.announces(safe), "the standby has bytes that the primary has lost")
}

// The first start spools only a part of what it has read, and the second start reads the rest, with another time. The place between the two
// is no safe point: the queue may have there what depends on a write that the table does not have yet.
func TestNoSafePointLiesBetweenTheReadsOfTwoStarts(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	open := func() *stream.Stream {
		opened, err := stream.Open(stream.Config{FS: mem, Dir: "stream", Spool: 1 << 20, Log: zap.NewNop()}, stream.Position{})
		require.NoError(t, err)
		return opened
	}
	read := func(s *stream.Stream, store stream.Store, time int64, size int) {
		s.Add(stream.Frame{Kind: stream.Begins, Store: store, Time: time, Log: 1})
		for offset := range uint64(2) {
			s.Add(stream.Frame{Kind: stream.Bytes, Store: store, Time: time, Log: 1, Offset: offset * uint64(size), Data: make([]byte, size)})
		}
		s.Add(stream.Frame{Kind: stream.Cut, Store: store, Time: time, Log: 1, Offset: 2 * uint64(size)})
	}
	first := open()
	first.Hold()
	read(first, stream.Queue, 1, 10)
	require.True(t, first.Tap(stream.Queue).MayGo(1), "the spool has the log of the queue")

	second := open()
	receiver := second.Hold()
	read(second, stream.Table, 2, pieceSize)
	near, far := net.Pipe()
	p := &Primary{stream: second, role: &Role{Mode: ModePaired}, rest: second.End()}
	s := &session{primary: p, link: newLink(near, time.Minute), receiver: receiver, whole: true}
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() { written <- s.write(ctx) }()
	var safe stream.Position
	for standby := newLink(far, time.Minute); safe != second.End(); {
		m, err := standby.receive()
		require.NoError(t, err)
		for r := stream.NewReader(bytes.NewReader(m.data)); m.kind == msgFrames; {
			frame, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if frame.Kind == stream.Safe {
				safe = frame.Position()
				require.Equal(t, second.End(), safe, "there is no safe point before the end")
			}
		}
	}
	stop()
	require.NoError(t, far.Close())
	require.Error(t, <-written)
}

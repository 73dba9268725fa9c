package pair

import (
	"testing"

	"github.com/stretchr/testify/require"

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

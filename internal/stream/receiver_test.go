package stream

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// added returns a stream with a log of the queue, and a receiver of it.
func added(t *testing.T) (*Stream, *Receiver) {
	t.Helper()
	s, err := Open(Config{FS: vfs.NewMem(), Dir: "stream", Spool: 1 << 20, Log: zap.NewNop()}, Position{})
	require.NoError(t, err)
	r := s.Hold()
	s.Add(Frame{Kind: Begins, Store: Queue, Log: 2})
	s.Add(Frame{Kind: Bytes, Store: Queue, Log: 2, Data: make([]byte, 10)})
	return s, r
}

// The marks of a receiver may come in any order: a finished mark stays finished.
func TestAMarkDoesNotGoBack(t *testing.T) {
	t.Parallel()
	s, r := added(t)
	_, early, err := r.Ready(1, s.End())
	require.NoError(t, err)
	_, late, err := r.Ready(1, s.End())
	require.NoError(t, err)
	require.Greater(t, late, early)
	r.Done(late)
	r.Done(early)
	require.EqualValues(t, late, r.done, "the receiver waits for frames that are gone")
}

// A position that the stream lacks leaves no receiver.
func TestAPositionWithAGapLeavesNoReceiver(t *testing.T) {
	t.Parallel()
	s, r := added(t)
	_, mark, err := r.Ready(1<<20, s.End())
	require.NoError(t, err)
	r.Done(mark)
	_, err = s.Resume(Position{})
	require.ErrorIs(t, err, ErrGap)
	require.Len(t, s.receivers, 1)
	_, err = s.Resume(s.End())
	require.NoError(t, err)
	require.Len(t, s.receivers, 2)
}

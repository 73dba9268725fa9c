package embedded

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A publish that is sent while the table is copied is answered after the copy, and an ack during the copy has
// its effect after the copy. Otherwise the two copies would not match.
func TestTheQueueStandsStillWhileTheTableIsCopied(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("copies", 0o700))
	b := mustOpen(t, fs)
	require.NoError(t, b.Publish(topicName, text("before")))
	in, err := b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	msg := <-in
	published := make(chan error, 1)
	require.NoError(t, b.Checkpoint(t.Context(), "copies/queue", func() error {
		msg.Ack()
		go func() { published <- b.Publish(topicName, text("during")) }()
		for pending := 0; pending < 2; { // the ack and the publish wait for the writer
			b.mu.Lock()
			pending = len(b.pending)
			b.mu.Unlock()
		}
		select {
		case err := <-published:
			assert.Fail(t, "a publish was answered", "%v", err)
		default:
		}
		return nil
	}))
	require.NoError(t, <-published)
	copied, err := Create("copies/queue", Options{FS: fs})
	require.NoError(t, err)
	assert.Equal(t, []string{"before"}, receive(t, copied, 1))
	depth, err := copied.Depth(t.Context(), topicName)
	require.NoError(t, err)
	assert.Zero(t, depth.Ready+depth.Delayed+depth.Dead)
	require.NoError(t, copied.Close())
}

func TestACheckpointOfAClosedQueueIsRefused(t *testing.T) {
	t.Parallel()
	b, err := Create("queue", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.Checkpoint(t.Context(), "queue2", func() error { return nil }), errClosed)
}

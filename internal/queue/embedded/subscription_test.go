package embedded

import (
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/queue"
)

// next returns the next message, and fails the test if no message arrives.
func next(t *testing.T, in <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg := <-in:
		return msg
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "no message came")
		return nil
	}
}

func publish(t *testing.T, b *Broker, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, b.Publish(topicName, message.NewMessage(fmt.Sprint(i), []byte("x"))))
	}
}

// An answer makes room for the next message before the answer is written.
func TestASubscriptionOfOneMessageGetsTheNextOneWithTheAnswer(t *testing.T) {
	t.Parallel()
	b, err := Create("queue", Options{FS: vfs.NewMem(), MaxInFlight: map[string]int{topicName: 1}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	const n = 100
	publish(t, b, n)
	release := make(chan struct{})
	b.holds <- func() { <-release } // the writer writes nothing, so all messages stay in out
	defer close(release)
	in, err := b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	topic := b.byName[topicName]
	for i := range n {
		msg := next(t, in)
		topic.mu.Lock()
		out := len(topic.out)
		topic.mu.Unlock()
		require.Equal(t, i+1, out, "messages that were taken")
		msg.Ack()
	}
}

// A restart does not change the due time of a delayed message.
func TestADelayedMessageIsDueAfterARestart(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	b := mustOpen(t, fs)
	publish(t, b, 1)
	in, err := b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	msg := next(t, in)
	queue.ReceiveOf(msg).RetryAfter(time.Hour)
	msg.Nack()
	disktest.Until(t, func() bool {
		depth, err := b.Depth(t.Context(), topicName)
		return err != nil || depth.Delayed == 1
	})
	require.NoError(t, b.Close())
	b, err = Create("queue", Options{FS: fs, Now: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	in, err = b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	msg = next(t, in)
	assert.Equal(t, 2, queue.ReceiveOf(msg).Receives)
	msg.Ack()
}

func TestABufferIsInOrder(t *testing.T) {
	t.Parallel()
	for _, order := range [][]uint64{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}, {2, 1}} {
		topic := newTopic("likes", state{})
		for _, major := range order {
			topic.insert(entry{at: position{major, major}})
		}
		for i, e := range topic.buffer {
			assert.EqualValues(t, i+1, e.at.major, order)
		}
	}
}

// Damage that the store's checksums do not detect must not turn into another message.
func TestARecordThatIsCutIsRefused(t *testing.T) {
	t.Parallel()
	msg := message.NewMessage("id", nil)
	msg.Metadata.Set("key", "value")
	r := newRecord(msg, 3)
	got, err := r.decode()
	require.NoError(t, err)
	assert.True(t, got.Equals(msg))
	for end := range r {
		_, err := r[:end].decode()
		require.ErrorIs(t, err, errRecord, end)
	}
}

package embedded

import (
	"bytes"
	"context"
	"encoding/base64"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
)

// unread is a file system on which reads of large blocks fail while left is above 0.
type unread struct {
	vfs.FS
	left *atomic.Int64
}

func (u unread) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	f, err := u.FS.Open(name, options...)
	return unreadFile{f, u.left}, err
}

type unreadFile struct {
	vfs.File
	left *atomic.Int64
}

func (u unreadFile) ReadAt(p []byte, at int64) (int, error) {
	if len(p) > 8<<10 && u.left.Add(-1) >= 0 {
		return 0, syscall.EIO
	}
	return u.File.ReadAt(p, at)
}

// If a message becomes due while the disk cannot be read, the message is delivered once the disk can be read.
func TestADelayedMessageOutlivesAFailedRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := unread{vfs.NewMem(), new(atomic.Int64)}
		b, err := Create("queue", Options{FS: fs})
		require.NoError(t, err)
		random := make([]byte, 24<<10) // needs a block of its own, which the next process does not have in memory
		_, err = rand.NewChaCha8([32]byte{}).Read(random)
		require.NoError(t, err)
		payload := base64.StdEncoding.AppendEncode(nil, random)
		require.NoError(t, b.Publish(topicName, message.NewMessage("late", payload)))
		ctx, stop := context.WithCancel(t.Context())
		msg := <-subscribe(ctx, t, b, topicName)
		queue.ReceiveOf(msg).RetryAfter(10 * time.Second)
		msg.Nack()
		<-time.After(time.Second)
		stop()
		require.NoError(t, b.Close())
		<-time.After(time.Minute) // the message is due when the next process starts

		fs.left.Store(3)
		b, err = Create("queue", Options{FS: fs})
		require.NoError(t, err)
		ctx, stop = context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		got, ok := <-subscribe(ctx, t, b, topicName)
		assert.Negative(t, fs.left.Load(), "reads failed")
		if assert.True(t, ok, "the message is handed out") {
			assert.True(t, bytes.Equal(payload, got.Payload))
			got.Ack()
		}
		stop()
		require.NoError(t, b.Close())
	})
}

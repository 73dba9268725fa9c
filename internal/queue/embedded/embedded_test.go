package embedded_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/queue/embedded"
	"fanfare/internal/queue/queuetest"
	"fanfare/messages"
)

// crashable opens brokers on a file system in memory. After Crash, the file system has only its synced part.
type crashable struct{ fs *vfs.MemFS }

func (c *crashable) open(t *testing.T, o queuetest.Options) queue.Broker {
	t.Helper()
	options := embedded.Options{FS: c.fs, Log: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))}
	if o.MaxInFlight > 0 {
		options.MaxInFlight = map[string]int{}
		for _, topic := range queue.Topics() {
			options.MaxInFlight[topic] = o.MaxInFlight
		}
	}
	b, err := embedded.Create("queue", options)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, b.Close())
	})
	return b
}

func (c *crashable) crash(*testing.T, queue.Broker) {
	c.fs = c.fs.CrashClone(vfs.CrashCloneCfg{})
}

func TestBrokerKeepsTheContract(t *testing.T) {
	t.Parallel()
	queuetest.RunVirtual(t, func(*testing.T) queuetest.Backend {
		c := &crashable{vfs.NewCrashableMem()}
		return queuetest.Backend{Open: c.open, Crash: c.crash, Fair: true}
	})
}

func TestBrokerPassesWatermillsSuite(t *testing.T) {
	t.Parallel()
	b, err := embedded.Create(t.TempDir(), embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, b.Close())
	})
	queuetest.RunWatermill(t, func(*testing.T) queue.Broker { return b },
		func(context.Context, queue.Broker, string) error { return nil })
}

// The process that has a real directory open holds the lock of the directory.
func TestSecondBrokerOnADirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	_, err := embedded.Create(dir, embedded.Options{})
	assert.ErrorContains(t, err, "in use")
}

func TestDirectoryThatCannotBeMadeIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := embedded.Create(filepath.Join(file, "queue"), embedded.Options{})
	assert.ErrorContains(t, err, file)
}

func TestAConsumerGetsThePublishedEventItselfUnlessItComesFromDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := embedded.Create(dir, embedded.Options{})
	require.NoError(t, err)
	sent := &messages.Liked{Like: messages.Like{
		Header: messages.Header{EventID: id.Min, Time: time.Now()}, PostID: id.Min, UserID: "ann",
	}}
	msg, err := queue.Message(t.Context(), sent)
	require.NoError(t, err)
	require.NoError(t, b.Publish(queue.TopicLikes, msg))
	receive := func() messages.Event {
		in, err := b.Subscribe(t.Context(), queue.TopicLikes)
		require.NoError(t, err)
		event, err := queue.Event(<-in)
		require.NoError(t, err)
		return event
	}
	assert.Same(t, sent, receive())
	require.NoError(t, b.Close()) // Close takes the message back
	b, err = embedded.Create(dir, embedded.Options{})
	require.NoError(t, err)
	assert.NotSame(t, sent, receive())
	require.NoError(t, b.Close())
}

func TestOutages(t *testing.T) {
	t.Parallel()
	queuetest.RunOutages(t, func(*testing.T) queuetest.Backend {
		c := &crashable{vfs.NewMem()}
		return queuetest.Backend{Open: c.open, Crash: c.crash, Fair: true}
	})
}

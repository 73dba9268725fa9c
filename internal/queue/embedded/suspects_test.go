package embedded

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/queue"
	"fanfare/messages"
)

// A consumer has as many messages in flight as it may have, and dies whenever it receives a certain message.
// It dies at once, so no later write can record that this message was in flight.
func TestAMessageThatKillsTheProcessBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	const innocent = 100
	fs := vfs.NewCrashableMem()
	b := mustOpen(t, fs)
	for i := range innocent {
		if i == innocent/2 {
			require.NoError(t, b.Publish(topicName, text("poison")))
		}
		require.NoError(t, b.Publish([]string{topicName, queue.TopicPosts}[i%2], text(fmt.Sprint(i))))
	}
	processed := map[string]bool{}
	deaths := 0
	for done := false; !done; {
		require.LessOrEqualf(t, deaths, 2*maxCrashes, "the process died %d times", deaths)
		ctx, cancel := context.WithCancel(t.Context())
		likes, posts := subscribe(ctx, t, b, topicName), subscribe(ctx, t, b, queue.TopicPosts)
		var held []*message.Message // one consumer acks late, as a consumer with windows does
		dead := false
		for !done && !dead {
			var msg *message.Message
			select {
			case msg = <-likes:
				dead = msg.UUID == "poison"
			case msg = <-posts:
			default:
			}
			if msg == nil {
				depth := queue.Depth{}
				for _, topic := range []string{topicName, queue.TopicPosts} {
					d, err := b.Depth(t.Context(), topic)
					require.NoError(t, err)
					depth.Ready, depth.InFlight, depth.Dead = depth.Ready+d.Ready, depth.InFlight+d.InFlight, depth.Dead+d.Dead
				}
				done = depth == queue.Depth{Dead: 1}
				for _, msg := range held {
					processed[msg.UUID] = true
					msg.Ack()
				}
				held = nil
				continue
			}
			if held = append(held, msg); dead {
				deaths++
				fs = fs.CrashClone(vfs.CrashCloneCfg{}) // as kill -9 does
			}
		}
		cancel()
		if dead {
			b = mustOpen(t, fs)
		}
	}
	letters, err := b.ListDead(t.Context(), topicName, 10)
	if err != nil || len(letters) != 1 || letters[0].ID != "poison" || letters[0].Receives < maxCrashes || !strings.Contains(letters[0].Reason, string(messages.ReasonCrashed)) {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	assert.Lenf(t, processed, innocent, "%d of %d innocent messages were processed", len(processed), innocent)
	t.Logf("the process died %d times", deaths)
}

func subscribe(ctx context.Context, t *testing.T, b *Broker, topic string) <-chan *message.Message {
	t.Helper()
	in, err := b.Subscribe(ctx, topic)
	require.NoError(t, err)
	return in
}

func TestAStopInOrderIsNoCrash(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	for range 3 {
		b := mustOpen(t, fs)
		assert.False(t, b.suspects.careful(b.now()), "a start after a stop in order is careful")
		require.NoError(t, b.Publish(topicName, text("1")))
		<-subscribe(t.Context(), t, b, topicName) // the message is held during the stop
		require.NoError(t, b.Close())
	}
	b := mustOpen(t, fs)
	msg := <-subscribe(t.Context(), t, b, topicName)
	if n := b.suspects.out.Load(); n != 0 {
		t.Errorf("%d of %s are suspects", n, msg.UUID)
	}
}

// unreadable is a file system on which reads of sorted files fail while the fault is on.
type unreadable struct {
	vfs.FS
	on     *atomic.Bool
	failed *atomic.Int64
}

func (u unreadable) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := u.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return unreadableFile{f, u}, nil
}

type unreadableFile struct {
	vfs.File
	fs unreadable
}

func (f unreadableFile) ReadAt(p []byte, at int64) (int, error) {
	if f.fs.on.Load() {
		f.fs.failed.Add(1)
		return 0, syscall.EIO
	}
	return f.File.ReadAt(p, at)
}

func TestASubscriptionGoesOnAfterAReadError(t *testing.T) {
	t.Parallel()
	fs := unreadable{vfs.NewMem(), new(atomic.Bool), new(atomic.Int64)}
	b := mustOpen(t, fs)
	for i := range 5000 { // more messages than the buffer takes
		err := b.submit(request{changes: []change{{topic: mustTopic(t, b), to: ready, value: newRecord(text(fmt.Sprint(i)), 0)}}}, false, false)
		require.NoError(t, err)
	}
	require.NoError(t, b.Publish(topicName, text("last")))
	require.NoError(t, b.db.Flush())
	require.NoError(t, b.Close())
	b = mustOpen(t, fs)
	fs.on.Store(true)
	in := subscribe(t.Context(), t, b, topicName)
	disktest.Until(t, func() bool { return fs.failed.Load() > 0 })
	fs.on.Store(false)
	for range 5001 {
		(<-in).Ack()
	}
}

func mustTopic(t *testing.T, b *Broker) *topic {
	t.Helper()
	top, err := b.topic(topicName)
	require.NoError(t, err)
	return top
}

package likeagg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// listener receives the events of aggregators.
type listener struct {
	mu    sync.Mutex
	down  bool
	tries int
	sent  []*messages.LikeCounted
}

func (l *listener) listen(_ context.Context, events ...messages.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	if l.down {
		return &queue.UnsentError{Queue: "out", Err: errors.New("down")}
	}
	for _, e := range events {
		l.sent = append(l.sent, e.(*messages.LikeCounted))
	}
	return nil
}

func (l *listener) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

func TestCountedLikesAreTold(t *testing.T) {
	step(t, func(w *world) {
		var out listener
		w.tune = func(c *Config) { c.Events = out.listen }
		w.run()
		ann := w.send("ann", true)
		bob := w.send("bob", true)
		w.settle()
		w.wantCount(2)
		last := w.send("ann", false)
		w.settle()
		w.wantCount(1)
		require.Len(t, out.sent, 3)
		assert.Equal(t, &messages.LikeCounted{
			Header: messages.Header{EventID: last, Time: out.sent[2].Time}, PostID: w.post, AuthorID: "author", UserID: "ann", LikeCount: new(int64(1)),
		}, out.sent[2])
		assert.ElementsMatch(t, []string{ann, bob}, []string{out.sent[0].EventID, out.sent[1].EventID})
		assert.True(t, out.sent[0].Liked)
		assert.EqualValues(t, 2, *out.sent[1].LikeCount)
	})
}

// An aggregator that dies after its flush and before its event leaves the messages unacked, and a failing
// queue of events does the same. The next window finds the likes counted, counts no like twice, and sends the
// events.
func TestACrashBetweenFlushAndEventLosesNoEvent(t *testing.T) {
	step(t, func(w *world) {
		out := listener{down: true}
		w.tune = func(c *Config) { c.Events, c.Kinds = out.listen, []string{"love"} }
		w.run()
		versions := []string{w.send("ann", true), w.send("bob", true), w.send("ann", false), w.react("eve", "love")}
		pass(5 * time.Second)
		w.wantKinds(map[string]int64{"like": 1, "love": 1})
		require.Equal(t, 4, w.queue.len(), "a message was acked before its event was sent")
		out.set(false)
		w.run() // the windows of another process find likes of the first process
		w.settle()
		w.wantKinds(map[string]int64{"like": 1, "love": 1})
		told := map[string]string{}
		for _, e := range out.sent {
			told[e.EventID] = e.Reaction
			assert.Equal(t, e.Reaction == schema.KindLike, e.Liked)
		}
		assert.Equal(t, map[string]string{versions[1]: "like", versions[2]: "", versions[3]: "love"}, told)
		w.wantDead(0, "")
	})
}

// TestACrashBetweenFlushAndEventLosesNoEvent and TestARepostCountsUntilItsEnd cover the kinds of message that an aggregator handles. A new
// kind needs a row in such a test.
func TestAnAggregatorHandlesNoOtherKind(t *testing.T) {
	files, err := filepath.Glob("../../messages/testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	step(t, func(w *world) {
		refused := 0
		for _, file := range files {
			payload, err := os.ReadFile(file)
			require.NoError(t, err)
			e, err := messages.Decode(payload)
			require.NoError(t, err)
			switch e.(type) {
			case *messages.Liked, *messages.Unliked, *messages.Reacted, *messages.Reposted:
				continue
			}
			e.Head().EventID = w.newID() // an id that is not too old
			payload, err = messages.Encode(e)
			require.NoError(t, err)
			w.queue.publish(payload)
			refused++
		}
		w.run()
		w.settle()
		w.wantDead(refused, string(messages.ReasonWrongTopic))
	})
}

func TestEventsThatAreNotSentMakeDeadLetters(t *testing.T) {
	step(t, func(w *world) {
		out := listener{down: true}
		w.tune = func(c *Config) { c.Events = out.listen }
		w.run()
		w.send("ann", true)
		w.settle()
		w.wantCount(1)
		w.wantDead(1, "its event was not sent")
	})
}

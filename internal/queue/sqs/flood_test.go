package sqs_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqstest"
	"fanfare/messages"
)

// An outage makes few copies: the process polls less until most answers are no transient errors.
func TestInAnOutageTheProcessPollsLess(t *testing.T) {
	const sent = 500
	unavailable := &queue.UnavailableError{Op: "read", Err: fmt.Errorf("no")}
	for name, c := range map[string]struct {
		err  error
		less bool
		// handled is the number of messages that are handled in 20 minutes, at most or at least.
		handled int64
	}{
		"transient errors": {unavailable, true, 10*120 + 500},
		"later":            {&queue.Later{After: time.Minute, Reason: "not yet"}, false, sent * 15},
		"other errors":     {fmt.Errorf("a defect"), false, sent * 10},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(t *bubble) {
				for i := range sent {
					event := t.event(time.Now().Add(time.Duration(i) * time.Millisecond))
					require.NoError(t, t.sqs.Load(mainName, event))
				}
				var handled atomic.Int64
				var mended atomic.Bool
				stop := t.consume(func(context.Context, messages.Event) error {
					handled.Add(1)
					if mended.Load() {
						return nil
					}
					return c.err
				})
				pass(20 * time.Minute)
				if c.less {
					assert.Less(t, handled.Load(), c.handled)
				} else {
					assert.Greater(t, handled.Load(), c.handled)
				}
				mended.Store(true)
				pass(10 * time.Minute)
				stop()
				assert.Zero(t, t.sqs.Len(mainName), "messages left ten minutes after the outage")
			})
		})
	}
}

// The floods of one user: removals wait an hour, deletions of posts six minutes.
func TestAFloodOfWaitingMessagesIsHardlyInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		messages int
		within   time.Duration
		wait     time.Duration
	}{
		"1,700 removals of users in 30 s":      {1700, 30 * time.Second, time.Hour},
		"2,000 posts made and deleted in 30 s": {2000, 30 * time.Second, 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5*time.Millisecond, func(t *bubble) {
				in, _ := t.subscribe()
				handled := 0
				go func() {
					for msg := range in {
						handled++
						time.AfterFunc(50*time.Millisecond, func() { again(msg, c.wait) })
					}
				}()
				most := 0
				for i := range c.messages {
					t.publish(message.NewMessage(fmt.Sprint(i), []byte("x")))
					pass(c.within/time.Duration(c.messages) - 5*time.Millisecond)
					_, inFlight, _ := t.sqs.States(mainName)
					most = max(most, inFlight)
				}
				pass(30 * time.Second)
				visible, inFlight, delayed := t.sqs.States(mainName)
				t.Logf("%s: at most %d in flight during the flood; after it %d visible, %d in flight, %d delayed", name, most, visible, inFlight, delayed)
				assert.Less(t, most, 100)
				assert.Zero(t, visible+inFlight)
				assert.Equal(t, c.messages, delayed)
				assert.Equal(t, c.messages, handled)
				pass(c.wait - 2*time.Minute - c.within)
				assert.Equal(t, c.messages, handled, "no handler is called at a hop")
			})
		})
	}
}

// Where deletes always fail, each copy is one message more. So the copies end with the first failure,
// and one a minute tries again.
func TestDeletesThatAlwaysFailDoNotMultiplyMessages(t *testing.T) {
	lost := sqstest.Fault{Lost: true}
	for name, c := range map[string]struct {
		op    string
		fault sqstest.Fault
		// each is the number of messages that one copy may make: the SDK repeats a request three times.
		each int
	}{
		"deletes fail":              {opDelete, serviceUnavailable(), 1},
		"replies of sends are lost": {opSend, lost, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(t *bubble) {
				const sent, minutes = 10, 12
				t.publish(msgs(sent)...)
				t.sqs.FailFor(100*time.Hour, c.fault, c.op)
				in, stop := t.subscribe()
				t.answering(in, 40*time.Second)
				pass(minutes * time.Minute)
				stop()
				left := t.sqs.Len(mainName)
				t.Logf("%s: %d messages after %d minutes, %d were published", name, left, minutes, sent)
				// Copies of all messages may be under way when the first one fails.
				assert.LessOrEqual(t, left, sent+c.each*(sent+minutes), "messages in the queue")
			})
		})
	}
}

// answering nacks all messages for a wait.
func (t *bubble) answering(in <-chan *message.Message, wait time.Duration) {
	go func() {
		for msg := range in {
			again(msg, wait)
		}
	}()
}

package sqs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue/sqstest"
)

// One user causes these floods: a removal waits for an hour, and the deletion of a post waits for six minutes.
func TestAFloodOfWaitingMessagesIsHardlyInFlight(t *testing.T) {
	t.Parallel()
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

// If deletes always fail, each copy adds a message to the queue. So the process stops sending copies after
// the first failure, and then tries one copy a minute.
func TestDeletesThatAlwaysFailDoNotMultiplyMessages(t *testing.T) {
	t.Parallel()
	lost := sqstest.Fault{Lost: true}
	for name, c := range map[string]struct {
		op    string
		fault sqstest.Fault
		// each is the maximum number of messages that one copy may add: the SDK makes up to three tries
		// of a request.
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
				defer stop()
				// Each minute is checked, because messages that multiply are soon too many for a test.
				for minute := range minutes {
					pass(time.Minute)
					// Copies of all messages may be in progress when the first copy fails.
					most := sent + c.each*(sent+minute+1)
					require.LessOrEqualf(t, t.sqs.Len(mainName), most, "messages in the queue after %d minutes, %d were published", minute+1, sent)
				}
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

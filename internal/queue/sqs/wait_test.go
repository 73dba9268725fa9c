package sqs_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
	"fanfare/messages"
)

// holdMost is the maximum wait of a message in flight. delayMost is the maximum delay of SQS.
const (
	holdMost  = 10 * time.Second
	delayMost = 15 * time.Minute
)

// serviceUnavailable returns a fault for which all retries of the SDK fail.
func serviceUnavailable() sqstest.Fault {
	return sqstest.Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"}
}

// wantStates fails unless the queue has these numbers of messages.
func (t *bubble) wantStates(visible, inFlight, delayed int) {
	t.Helper()
	synctest.Wait()
	v, f, d := t.sqs.States(mainName)
	assert.Equal(t, [3]int{visible, inFlight, delayed}, [3]int{v, f, d}, "visible, in flight, delayed")
}

// again nacks msg for wait.
func again(msg *message.Message, wait time.Duration) {
	queue.ReceiveOf(msg).RetryAfter(wait)
	msg.Nack()
}

// next returns the next message, which must arrive within a day.
func (t *bubble) next(in <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg := <-in:
		return msg
	case <-time.After(24 * time.Hour):
		t.Fatal("no message came")
		return nil
	}
}

// wait nacks the message with the delay d, and returns the message of the next receive.
func (t *bubble) wait(in <-chan *message.Message, msg *message.Message, d time.Duration) *message.Message {
	t.Helper()
	began := time.Now()
	again(msg, d)
	got := t.next(in)
	assert.InDelta(t, d.Seconds(), time.Since(began).Seconds(), 1.5, "the wait")
	return got
}

func TestAMessageThatWaitsForLongIsNotInFlight(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]struct{ inFlight, delayed, hops int }{
		holdMost:                   {1, 0, 0},
		holdMost + time.Second:     {0, 1, 1},
		delayMost:                  {0, 1, 1},
		delayMost + 5*time.Second:  {0, 1, 2},
		time.Hour:                  {0, 1, 4},
		12 * time.Hour:             {0, 1, 48},
		100 * 24 * time.Hour:       {0, 1, 48}, // RetryAfter sets 12 hours at most
		2*delayMost + time.Second:  {0, 1, 3},
		5 * time.Second:            {1, 0, 0},
		time.Hour - 20*time.Second: {0, 1, 4},
	} {
		t.Run(wait.String(), func(t *testing.T) {
			forDays(t, func(t *bubble) {
				sent := message.NewMessage("id", []byte("text"))
				sent.Metadata = message.Metadata{queue.MetaGroup: "grüße", "traceparent": "00-a-b-01"}
				t.publish(sent)
				groups := t.sqs.Groups(mainName)
				in, _ := t.subscribe()
				msg := t.next(in)
				before := t.sqs.Requests()[opSend]
				again(msg, wait)
				pass(time.Second)
				t.wantStates(0, want.inFlight, want.delayed)
				wait = min(wait, 12*time.Hour)
				pass(wait - 2*time.Second)
				t.wantNoMore(in)
				pass(3 * time.Second)
				msg = t.next(in)
				assert.True(t, msg.Equals(sent), "%s %v %q", msg.UUID, msg.Metadata, msg.Payload)
				assert.Equal(t, 2, queue.ReceiveOf(msg).Receives, "a hop is no receive")
				assert.Equal(t, want.hops, t.sqs.Requests()[opSend]-before, "copies")
				queue.HandBack(msg)
				synctest.Wait()
				queue.HandBack(t.next(in))
				msg = t.next(in)
				assert.Equal(t, 4, queue.ReceiveOf(msg).Receives)
				msg.Ack()
				t.wantLeft(0)
				require.Len(t, groups, 1)
			})
		})
	}
}

// A copy belongs to the group of its message, even if the producer has set only the message group id.
func TestACopyKeepsTheGroup(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.sendGroup("a.group")
		in, stop := t.subscribe()
		again(t.next(in), time.Minute)
		pass(30 * time.Second)
		stop()
		pass(time.Minute)
		assert.Equal(t, []string{"a.group"}, t.sqs.Groups(mainName))
	})
}

// If a message always fails, its delays grow with its receives. It becomes a dead letter after
// MaxAttempts, whatever the number of its copies. A redrive begins at 0.
func TestReceivesCountOverCopies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err      error
		attempts int
		within   time.Duration
	}{
		"an error":          {fmt.Errorf("a defect"), queue.MaxAttempts + 1, 2 * time.Hour},
		"an unsent event":   {&queue.UnsentError{Queue: "events", Err: fmt.Errorf("no")}, queue.MaxUnsent + 1, time.Hour},
		"too often in all":  {&queue.UnavailableError{Op: "read", Err: fmt.Errorf("no")}, 1000, 4 * 24 * time.Hour},
		"a permanent error": {&messages.PermanentError{Reason: messages.ReasonNoPost}, 1, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			forDays(t, func(t *bubble) {
				event := t.event(time.Now())
				t.publish(event)
				handled, began, last := 0, time.Now(), time.Time{}
				stop := t.consume(func(context.Context, messages.Event) error {
					handled++
					last = time.Now()
					return c.err
				})
				pass(c.within)
				stop()
				wait := time.Duration(0)
				for n := 1; n < handled; n++ {
					wait += queue.Backoff(n)
				}
				assert.InDelta(t, wait.Seconds(), last.Sub(began).Seconds(), 2*float64(handled), "the sum of the backoff")
				letters, err := t.broker.ListDead(t.Context(), topic, 10)
				require.NoError(t, err)
				require.Len(t, letters, 1)
				assert.Equal(t, c.attempts, handled)
				assert.GreaterOrEqual(t, letters[0].Receives, handled)
				assert.Equal(t, event.Metadata, letters[0].Metadata)
				if c.attempts == 1000 {
					assert.Contains(t, letters[0].Reason, "received too often: more than 1000 times since "+began.UTC().Format(time.RFC3339))
				}
				_, _, err = t.broker.Redrive(t.Context(), topic, nil, nil)
				require.NoError(t, err)
				in, _ := t.subscribe()
				got := t.next(in)
				assert.Equal(t, 1, queue.ReceiveOf(got).Receives, "a redrive begins at 0")
				assert.True(t, got.Equals(event))
				got.Ack()
			})
		})
	}
}

// A message that was left for later for hours still has all its attempts.
func TestAMessageThatWaitedItsTurnHasAllItsAttempts(t *testing.T) {
	t.Parallel()
	forDays(t, func(t *bubble) {
		t.publish(t.event(time.Now()))
		const turns = 1100
		handled := 0
		stop := t.consume(func(context.Context, messages.Event) error {
			if handled++; handled <= turns {
				return &queue.Later{After: 30 * time.Second, Reason: "another one is at work"}
			}
			return fmt.Errorf("a defect")
		})
		pass(turns*30*time.Second + 3*time.Hour)
		stop()
		assert.Equal(t, turns+queue.MaxAttempts+1, handled, "handled")
	})
}

// SQS's own redrive policy moves a copy unchanged.
func TestACopyThatSQSMovesToTheDeadLettersBeginsAtZero(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		copied := message.NewMessage("id", []byte("x"))
		copied.Metadata.Set(queue.MetaWait, fmt.Sprintf("7 1 %d", time.Now().UnixMilli()))
		require.NoError(t, t.sqs.Load(deadName, copied))
		_, _, err := t.broker.Redrive(t.Context(), topic, nil, nil)
		require.NoError(t, err)
		in, _ := t.subscribe()
		got := t.next(in)
		assert.Empty(t, got.Metadata)
		assert.Equal(t, 1, queue.ReceiveOf(got).Receives)
		got.Ack()
	})
}

// MaxAge counts from the event's id, over all copies, although SQS's 14 days begin again with each copy.
func TestAWaitingMessageTooOldIsADeadLetter(t *testing.T) {
	t.Parallel()
	forDays(t, func(t *bubble) {
		made, last := time.Now().Add(-messages.MaxAge+24*time.Hour), time.Time{}
		t.publish(t.event(made))
		stop := t.consume(func(context.Context, messages.Event) error {
			last = time.Now()
			return &queue.Later{After: 12 * time.Hour, Reason: "not yet"}
		})
		pass(2 * 24 * time.Hour)
		stop()
		assert.InDelta(t, messages.MaxAge.Hours(), last.Sub(made).Hours(), 12.1)
		letters, err := t.broker.ListDead(t.Context(), topic, 10)
		require.NoError(t, err)
		require.Len(t, letters, 1)
		assert.Contains(t, letters[0].Reason, "event_id")
	})
}

// For a minute after a failed delete, messages wait by their visibility timeout.
func TestAfterADeleteThatFailedMessagesWaitInFlight(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		held, in, _ := t.hold(4)
		t.sqs.FailFor(10*time.Second, serviceUnavailable(), opDelete)
		held[0].Ack()
		pass(20 * time.Second)
		again(held[1], time.Hour)
		t.wantStates(0, 4, 0)
		pass(time.Minute)
		for _, msg := range held[2:] { // the first copy shows that copies succeed
			again(msg, time.Hour)
			pass(time.Second)
		}
		t.next(in).Ack() // held[0] is redelivered
		pass(time.Second)
		t.wantStates(0, 1, 2)
	})
}

// If a process ends between the copy and the delete, both the message and the copy stay.
func TestACrashBetweenCopyAndDeleteLeavesOneCopyMore(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		held, _, _ := t.hold(32)
		t.sqs.FailFor(time.Hour, hang(), opDelete)
		for _, msg := range held {
			again(msg, time.Hour)
		}
		pass(time.Second)
		_ = t.broker.Close() // Close fails because the deletes hang; this is the crash
		t.sqs.SetFault(nil)
		assert.LessOrEqual(t, t.sqs.Len(mainName), 64)
		in, _ := t.subscribeTo(t.open())
		seen := map[string]int{}
		for range t.sqs.Len(mainName) {
			msg := t.next(in)
			seen[msg.UUID]++
			msg.Ack()
		}
		assert.Len(t, seen, 32)
		for id, n := range seen {
			assert.LessOrEqual(t, n, 2, id)
		}
		t.wantLeft(0)
	})
}

// If another producer's message has no room for the attribute of a copy, the message itself waits in flight.
func TestAMessageWithoutRoomWaitsInFlight(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, c := range map[string]struct {
		body       string
		attributes int
		delayed    int
	}{
		"a body of 1 MiB":                        {strings.Repeat("x", mib), 0, 0},
		"room for the id, not for the attribute": {"x", 9, 0},
		"ten attributes":                         {"x", 10, 0},
		"room for both":                          {"x", 8, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(t *bubble) {
				attributes := map[string]types.MessageAttributeValue{}
				for i := range c.attributes {
					attributes[fmt.Sprint("a", i)] = binary("\x00\xff")
				}
				t.send(c.body, attributes)
				in, _ := t.subscribe()
				msg := t.next(in)
				uuid := msg.UUID
				msg = t.wait(in, msg, 30*time.Minute)
				assert.Zero(t, t.logged.Len(), "SQS refused a copy, so no message has one for a minute")
				assert.Equal(t, uuid, msg.UUID)
				assert.Equal(t, c.body, string(msg.Payload))
				assert.Len(t, msg.Metadata, c.attributes)
				assert.Equal(t, 2, queue.ReceiveOf(msg).Receives)
				again(msg, time.Hour)
				pass(time.Second)
				t.wantStates(0, 1-c.delayed, c.delayed)
			})
		})
	}
}

// A producer may forge the attribute of a copy: the message is then handled at once.
func TestAForgedNoteHoldsNothingBack(t *testing.T) {
	t.Parallel()
	for _, note := range []string{"", "1", "x y z", "-1 2 3", "1 1 4900000000000", "1 1 99999999999999999999", "1 1 1 1"} {
		t.Run(note, func(t *testing.T) {
			inBubble(t, 0, func(t *bubble) {
				attributes := map[string]types.MessageAttributeValue{queue.MetaWait: text(note)}
				if note == "" {
					attributes[queue.MetaWait] = binary("\x00")
				}
				t.send("x", attributes)
				in, _ := t.subscribe()
				msg := t.next(in)
				assert.Zero(t, time.Since(t.began))
				assert.Empty(t, msg.Metadata)
				msg.Ack()
				t.wantLeft(0)
			})
		})
	}
}

// While a process's clock is in doubt, the process does not delay a copy because of its due time.
func TestAClockInDoubtHoldsNothingBack(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		held, _, stop := t.hold(1)
		again(held[0], time.Hour)
		pass(time.Second)
		stop()
		other := sqs.New(sqstest.Client(t.sqs), sqs.Options{
			Prefix: "test", PollWait: pollWait, Now: func() time.Time { return time.Now().Add(-40 * 24 * time.Hour) },
			Doubt: func() error { return fmt.Errorf("it is behind") },
		})
		closeAfter(t.T, other)
		in, _ := t.subscribeTo(other)
		msg := t.next(in)
		assert.LessOrEqual(t, time.Since(t.began), delayMost+time.Minute)
		assert.Equal(t, 2, queue.ReceiveOf(msg).Receives)
		msg.Ack()
	})
}

// event returns the message of a removal that began at a time.
func (t *bubble) event(at time.Time) *message.Message {
	t.Helper()
	eventID, err := id.NewGenerator(func() time.Time { return at }).New()
	require.NoError(t, err)
	msg, err := queue.Message(t.Context(), &messages.UserForgotten{Header: messages.Header{EventID: eventID, Time: at}, UserID: "ann"})
	require.NoError(t, err)
	return msg
}

// consume handles messages until stop.
func (t *bubble) consume(handle queue.Handler) (stop func()) {
	t.Helper()
	c := &queue.Consumer{Topic: topic, Broker: t.broker, Handle: handle, Workers: 32, Now: time.Now, Log: zap.NewNop()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() {
		cancel()
		assert.NoError(t, <-ended)
	}
}

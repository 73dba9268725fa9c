package sqs_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqstest"
)

// longestDrain is the maximum time from the last poll to the end of a subscription, and from
// the end of the last subscription to the end of Close. The daemon relies on both.
const (
	longestDrain = 4 * time.Second
	longestStop  = pollWait + longestDrain
)

// hang returns a fault with which a request never gets a reply.
func hang() sqstest.Fault { return sqstest.Fault{Delay: time.Hour} }

// Messages that a poll returns after the stop are visible to other consumers at once.
func TestMessagesThatArriveAfterTheStopAreHandedBack(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.publish(msgs(10)...)
		t.sqs.FailNth(1, opReceive, sqstest.Fault{Hold: 4 * time.Second})
		in, stop := t.subscribe()
		pass(time.Second)
		stop()
		_, open := <-in
		assert.False(t, open, "a message came after the stop")
		n := t.sqs.Visible(mainName)
		assert.Equalf(t, 10, n, "%d of 10 messages are visible after the subscription ended", n)
	})
}

// Close waits for the polls, sends, deletes, extensions and hand-backs that are in progress. It loses no
// message and leaves no message hidden.
func TestCloseInEveryPhase(t *testing.T) {
	t.Parallel()
	for at := time.Duration(0); at < 3*time.Second; at += 150 * time.Millisecond {
		t.Run(at.String(), func(t *testing.T) {
			inBubble(t, 100*time.Millisecond, func(t *bubble) {
				t.publish(msgs(60)...)
				in, _ := t.subscribe()
				acked, published := 0, 60
				var working sync.WaitGroup
				working.Go(func() {
					for msg := range in {
						switch len(msg.UUID) % 3 {
						case 0:
							acked++
							msg.Ack()
						case 1:
							queue.HandBack(msg)
							time.Sleep(70 * time.Millisecond) //nolint:forbidigo // virtual time
						default: // no answer
						}
					}
				})
				working.Go(func() {
					for i := range 40 {
						if t.broker.Publish(topic, message.NewMessage(fmt.Sprint("more-", i), []byte("x"))) != nil {
							return
						}
						published++
					}
				})
				time.Sleep(at) //nolint:forbidigo // virtual time
				assert.NoError(t, t.broker.Close())
				working.Wait()
				left := t.sqs.Len(mainName)
				visible := t.sqs.Visible(mainName)
				assert.Equalf(t, left, visible, "%d of %d messages are visible after close", visible, left)
				assert.GreaterOrEqualf(t, left, published-acked, "messages left of %d with %d acks", published, acked)
			})
		})
	}
}

// holdHanging holds n messages, and has extensions and polls in progress that get no reply.
func (t *bubble) holdHanging(n int) (held []*message.Message, in <-chan *message.Message, stop func()) {
	t.Helper()
	held, in, stop = t.hold(n)
	t.sqs.FailFor(time.Hour, hang())
	pass(15 * time.Second)
	require.NotZero(t, t.sqs.Requests()[opChange], "no extension is under way")
	return held, in, stop
}

// wantAgain fails unless n messages are redelivered once SQS replies again.
func (t *bubble) wantAgain(n int) {
	t.Helper()
	t.sqs.SetFault(nil)
	in, _ := t.subscribeTo(t.open())
	t.collect(in, n)
}

func TestSubscriptionEndsWhateverSQSDoes(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		held, in, stop := t.holdHanging(60)
		for i, msg := range held {
			switch i % 3 {
			case 0:
				msg.Ack()
			case 1:
				msg.Nack()
			}
		}
		pass(time.Second)
		began := time.Now()
		stop()
		for range in {
			t.Error("a message came after the stop")
		}
		assert.LessOrEqual(t, time.Since(began), longestStop, "the subscription ended after")
		t.wantAgain(60)
	})
}

// wantCut closes the broker. It fails unless Close returns within most, and cuts requests.
func (t *bubble) wantCut(most time.Duration) {
	t.Helper()
	began := time.Now()
	assert.ErrorIs(t, t.broker.Close(), queue.ErrClosed)
	assert.LessOrEqual(t, time.Since(began), most, "closed after")
}

func TestCloseEndsWhateverSQSDoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		subscribed bool
		most       time.Duration
	}{
		"with a subscription": {true, longestStop + longestDrain},
		"with sends only":     {false, longestDrain},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(t *bubble) {
				if test.subscribed {
					t.holdHanging(60)
				} else {
					t.publish(msgs(60)...)
					t.sqs.FailFor(time.Hour, hang())
				}
				var publishing sync.WaitGroup
				for i := range 20 {
					publishing.Go(func() {
						err := t.broker.Publish(topic, message.NewMessage(fmt.Sprint("more-", i), []byte("x")))
						if !errors.Is(err, queue.ErrClosed) || !queue.Transient(err) {
							t.Errorf("publish: %v, want a transient error for the stop", err)
						}
					})
				}
				synctest.Wait()
				t.wantCut(test.most)
				publishing.Wait()
				t.wantAgain(60)
			})
		})
	}
}

// Each entry that failed in a batch is sent again alone, up to three times. If SQS hangs, the
// tries of ten entries would take 10 × 3 × 20 s.
func TestCloseCutsTriesOneByOne(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		batch, hang := failing("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"), hang()
		first := true
		t.sqs.SetFault(func(op string) *sqstest.Fault {
			switch {
			case op != opSend:
				return nil
			case first:
				first = false
				return &batch
			}
			return &hang
		})
		published := make(chan error, 1)
		go func() { published <- t.broker.Publish(topic, msgs(10)...) }()
		pass(time.Second)
		t.wantCut(longestDrain)
		err := <-published
		assert.Truef(t, queue.Transient(err), "publish: %v, want a transient error", err)
	})
}

package sqs_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqstest"
)

// meet is a latency with which entries share a batch: of ten entries, the first has a request of its own, and
// the other nine share a request.
const meet = 10 * time.Millisecond

func TestPartialFailureOfADeleteIsRetriedOneByOne(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.publish(msgs(10)...)
		t.sqs.FailNth(1, opDelete, failing("0"))
		in, _ := t.subscribe()
		t.collect(in, 10)
		t.wantLeft(0)
	})
}

func TestPartialFailureOfAHandBackIsRetriedOneByOne(t *testing.T) {
	t.Parallel()
	inBubble(t, meet, func(t *bubble) {
		held, in, _ := t.hold(10)
		t.sqs.FailNth(2, opChange, failing("0", "3"))
		began := time.Now()
		for _, msg := range held {
			queue.HandBack(msg)
		}
		t.collect(in, 10)
		assert.LessOrEqual(t, time.Since(began), time.Second, "all came again after")
	})
}

func TestPartialFailureOfAHeartbeatIsRetriedOneByOne(t *testing.T) {
	t.Parallel()
	inBubble(t, meet, func(t *bubble) {
		held, _, _ := t.hold(10)
		t.sqs.FailNth(2, opChange, failing("0", "3"))
		pass(16 * time.Second) // the time of one round of extensions
		t.wantRequests(opChange, 4, "two batches and two single ones")
		t.wantHeld(held)
	})
}

func TestFailedHeartbeatIsMadeGoodByTheNext(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		held, in, _ := t.hold(10)
		const round = 16 * time.Second                                                                    // of extensions
		t.sqs.FailFor(round, sqstest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}, opChange) // the SDK does not retry this code
		pass(round)
		assert.NotZero(t, t.sqs.Requests()[opChange], "no extension failed")
		pass(5 * time.Minute)
		t.wantHeld(held)
		t.wantNoMore(in)
	})
}

func TestReplyThatLeavesEntriesOutIsNoSuccess(t *testing.T) {
	t.Parallel()
	t.Run("of a delete", func(t *testing.T) {
		inBubble(t, meet, func(t *bubble) {
			held, in, _ := t.hold(10)
			t.sqs.FailNth(2, opDelete, omitting())
			for _, msg := range held {
				msg.Ack()
			}
			t.wantLeft(1)
			assert.NotZero(t, t.logged.FilterMessageSnippet("answer failed").Len(),
				"the log does not say that a delete had no answer")
			t.collect(in, 1)
			t.wantLeft(0)
		})
	})
	t.Run("of a heartbeat", func(t *testing.T) {
		inBubble(t, meet, func(t *bubble) {
			held, in, _ := t.hold(10)
			t.sqs.FailNth(2, opChange, omitting())
			pass(2 * time.Minute)
			t.wantHeld(held)
			t.wantNoMore(in)
		})
	})
}

func TestFailedDeleteComesAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		held, in, _ := t.hold(1)
		t.sqs.FailFor(20*time.Second, sqstest.Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"}, opDelete)
		held[0].Ack()
		again := <-in
		assert.Equal(t, 2, queue.ReceiveOf(again).Receives, "receive count")
		again.Ack()
		t.wantLeft(0)
	})
}

func TestExpiredReceiptHandleHarmsNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		held, in, _ := t.hold(2)
		// No extension takes effect, so both messages become visible and get new receipts.
		expired := sqstest.EntryFault{Code: "ReceiptHandleIsInvalid", Sender: true}
		t.sqs.FailFor(time.Hour, sqstest.Fault{Entries: map[string]sqstest.EntryFault{"0": expired, "1": expired}}, opChange)
		pass(35 * time.Second)
		t.sqs.SetFault(nil)
		for _, msg := range held {
			assert.Error(t, msg.Context().Err(), "the handler does not know that it lost its message")
		}
		held[0].Ack() // the ack is too late: SQS no longer knows the receipt
		queue.HandBack(held[1])
		t.collect(in, 2)
		t.wantLeft(0)
	})
}

func TestHeldMessagesAreExtendedInBatches(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		held, _, _ := t.hold(100)
		pass(10 * time.Minute)
		// The extensions come in batches of ten. A message is extended every 10 s, which is a
		// third of the visibility timeout.
		if n := t.sqs.Requests()[opChange]; n < 400 || n > 750 {
			t.Errorf("%d requests to extend 100 messages for 10 minutes, want about 600", n)
		}
		t.wantHeld(held)
		for _, msg := range held {
			msg.Ack()
		}
		t.wantLeft(0)
	})
}

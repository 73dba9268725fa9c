package sqs_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/queue/sqstest"
)

func TestCutReplyStrandsNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]sqstest.Fault{"cut": {Cut: true}, "lost": {Lost: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(t *bubble) {
				t.publish(msgs(25)...)
				t.sqs.FailNth(1, opReceive, fault)
				in, _ := t.subscribe()
				t.collect(in, 25)
				t.wantLeft(0)
			})
		})
	}
}

func TestThrottledReceiveGoesOnLater(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.publish(msgs(5)...)
		t.sqs.FailFor(time.Minute, sqstest.Fault{Status: http.StatusForbidden, Code: "RequestThrottled"}, opReceive)
		in, _ := t.subscribe()
		t.collect(in, 5)
	})
}

func TestSlowRepliesHoldUpNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 3*time.Second, func(t *bubble) {
		t.publish(msgs(200)...)
		in, stop := t.subscribe()
		t.collect(in, 200)
		stop()
		assert.NoError(t, t.broker.Close())
		assert.Zero(t, t.sqs.Len(mainName), "messages left after close")
	})
}

func TestIdleSubscriptionPollsWithOnePoller(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.publish(msgs(500)...)
		in, stop := t.subscribe()
		t.collect(in, 500) // now all pollers run
		pass(time.Minute)
		before := t.sqs.Requests()[opReceive]
		pass(10 * time.Minute)
		n := t.sqs.Requests()[opReceive] - before
		assert.LessOrEqual(t, n, 125, "receives in 10 idle minutes: one poll of 5 s after the other")
		stop()
		_, open := <-in
		assert.False(t, open, "a message came from an empty queue")
	})
}

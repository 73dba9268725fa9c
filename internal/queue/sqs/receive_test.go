package sqs_test

import (
	"net/http"
	"testing"
	"time"

	"fanfare/internal/queue/sqstest"
)

func TestCutReplyStrandsNothing(t *testing.T) {
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
	inBubble(t, 0, func(t *bubble) {
		t.publish(msgs(5)...)
		t.sqs.FailFor(time.Minute, sqstest.Fault{Status: http.StatusForbidden, Code: "RequestThrottled"}, opReceive)
		in, _ := t.subscribe()
		t.collect(in, 5)
	})
}

func TestSlowRepliesHoldUpNothing(t *testing.T) {
	inBubble(t, 3*time.Second, func(t *bubble) {
		t.publish(msgs(200)...)
		in, stop := t.subscribe()
		t.collect(in, 200)
		stop()
		if err := t.broker.Close(); err != nil {
			t.Error(err)
		}
		if n := t.sqs.Len(mainName); n != 0 {
			t.Errorf("%d messages left after close", n)
		}
	})
}

func TestIdleSubscriptionPollsWithOnePoller(t *testing.T) {
	inBubble(t, 0, func(t *bubble) {
		t.publish(msgs(500)...)
		in, stop := t.subscribe()
		t.collect(in, 500) // all pollers run now
		pass(time.Minute)
		before := t.sqs.Requests()[opReceive]
		pass(10 * time.Minute)
		if n := t.sqs.Requests()[opReceive] - before; n > 125 {
			t.Errorf("%d receives in 10 idle minutes, want about 120: one poll of 5 s after the other", n)
		}
		stop()
		if _, open := <-in; open {
			t.Error("a message came from an empty queue")
		}
	})
}

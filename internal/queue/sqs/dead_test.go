package sqs_test

import (
	"net/http"
	"testing"
	"time"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqstest"
)

func TestRedriveThatCannotSendKeepsTheLetters(t *testing.T) {
	inBubble(t, 0, func(t *bubble) {
		for _, msg := range msgs(3) {
			if err := t.broker.DeadLetter(t.Context(), topic, msg, "why"); err != nil {
				t.Fatal(err)
			}
		}
		t.sqs.FailFor(time.Hour, sqstest.Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"}, opSend)
		if sent, _, err := t.broker.Redrive(t.Context(), topic, nil, nil); sent != 0 || !queue.Transient(err) {
			t.Errorf("sent %d, %v", sent, err)
		}
		if visible, n := t.sqs.Visible(deadName), t.sqs.Len(deadName); visible != 3 || n != 3 {
			t.Errorf("%d dead letters, %d of them visible, want 3", n, visible)
		}
	})
}

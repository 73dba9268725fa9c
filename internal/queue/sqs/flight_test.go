package sqs_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
)

// SQS delivers no messages from a queue with about 120,000 messages in flight. In this test all messages
// fail for ten minutes, 400 a second. A subscription may have MaxInFlight messages in flight at the
// beginning, and RestBatch more messages after each rest.
func TestAnOutageHidesFewMessages(t *testing.T) {
	t.Parallel()
	refused := sqstest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}
	const second = 400
	for name, c := range map[string]struct {
		denied  []string
		seconds int
		// waits is the maximum time for which a failed message is in flight.
		waits time.Duration
	}{
		"copies wait delayed":                              {nil, 120, holdMost},
		"no copy may be sent: messages wait by visibility": {[]string{opSend}, 600, 5 * time.Minute},
		"SQS takes no answer at all":                       {[]string{opSend, opDelete, opChange}, 120, visibility},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(t *bubble) {
				if len(c.denied) > 0 {
					t.sqs.FailFor(24*time.Hour, refused, c.denied...)
				}
				in, stop := t.subscribe()
				answerer := queue.Answerer{Topic: topic, Dead: t.broker, Log: zap.NewNop()}
				go func() { // runs until the subscription ends
					for msg := range in {
						answerer.Answer(t.Context(), msg, &queue.UnavailableError{Op: "read", Err: fmt.Errorf("no")}, false)
					}
				}()
				most := 0
				for i := range c.seconds {
					for j := range second {
						require.NoError(t, t.sqs.Load(mainName, message.NewMessage(fmt.Sprint(i, "-", j), []byte("x"))))
					}
					pass(time.Second)
					_, inFlight, _ := t.sqs.States(mainName)
					most = max(most, inFlight)
				}
				t.sqs.SetFault(nil)
				stop()
				bound := sqs.DefaultMaxInFlight + queue.RestBatch*int(c.waits/(10*time.Second)+1)
				t.Logf("%s: at most %d in flight, the bound is %d", name, most, bound)
				assert.LessOrEqual(t, most, bound)
				assert.Positive(t, most)
			})
		})
	}
}

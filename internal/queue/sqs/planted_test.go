package sqs_test

import (
	"testing"

	"fanfare/internal/planttest"
)

// The tests of waiting messages must fail for a transport that breaks a rule of docs/decisions/0041.
func TestEveryBrokenRuleOfWaitingIsFound(t *testing.T) {
	t.Parallel()
	const waits, subscription, sqs, outage = "internal/queue/sqs/wait.go", "internal/queue/sqs/subscription.go", "internal/queue/sqs/sqs.go", "internal/queue/outage.go"
	const counts = "TestReceivesCountOverCopies"
	for _, bug := range []struct {
		name       string
		edit       planttest.Edit
		test, want string
	}{
		{"W1: a copy for a short wait", planttest.Edit{File: waits, Old: "holdMost = queue.LongWait", New: "holdMost = time.Second"},
			"TestAMessageThatWaitsForLongIsNotInFlight", "visible, in flight, delayed"},
		{"W2: a long wait in flight", planttest.Edit{File: waits, Old: "if wait > holdMost && s.sendCopy", New: "if wait < 0 && s.sendCopy"},
			"TestAFloodOfWaitingMessagesIsHardlyInFlight", "is not less than"},
		{"W2: a handler at a hop", planttest.Edit{File: subscription, Old: "s.b.notDue(h.past); wait > 0", New: "s.b.notDue(h.past); wait < 0"},
			"TestAMessageThatWaitsForLongIsNotInFlight", "with receive count 2"},
		{"W2a: copies while deletes fail", planttest.Edit{File: waits, Old: "c.failed, c.trying = time.Now(), false", New: "c.failed, c.trying = time.Time{}, false"},
			"TestDeletesThatAlwaysFailDoNotMultiplyMessages", "messages in the queue"},
		{"W2a: all copies try after the pause", planttest.Edit{File: waits, Old: "c.trying = true", New: "c.trying = false"},
			"TestDeletesThatAlwaysFailDoNotMultiplyMessages", "messages in the queue"},
		{"W3: a copy without its receives", planttest.Edit{File: waits, Old: "carried{receives, h.past.first", New: "carried{0 * receives, h.past.first"},
			counts, "the sum of the backoff"},
		{"W3: a hop that is a receive", planttest.Edit{File: subscription, Old: "s.putOff(h, h.past.receives, wait)", New: "s.putOff(h, h.past.receives+1, wait)"},
			"TestAMessageThatWaitsForLongIsNotInFlight", "a hop is no receive"},
		{"W3: a long leave that is a receive", planttest.Edit{File: "internal/queue/sqs/answer.go", Old: "receive.Behind()", New: "receive.Receives"},
			"TestAMessageThatWaitedItsTurnHasAllItsAttempts", "handled"},
		{"W3: an attribute that consumers see", planttest.Edit{File: sqs, Old: "delete(m.MessageAttributes, queue.MetaWait)", New: `delete(m.MessageAttributes, "")`},
			"TestAMessageThatWaitsForLongIsNotInFlight", "Should be true"},
		{"W3a: a copy without room", planttest.Edit{File: waits, Old: "len(attributes) <= maxAttributes && size <= maxBody", New: "true"},
			"TestAMessageWithoutRoomWaitsInFlight", "SQS refused a copy"},
		{"W4: receives without an end", planttest.Edit{File: subscription, Old: "queue.ReceiveOf(msg).Receives > maxReceiveCount", New: "queue.ReceiveOf(msg).Receives < 0"},
			counts, "should have 1 item"},
		{"W5: an outage at full speed", planttest.Edit{File: outage, Old: "failed <= done {", New: "failed >= done {"},
			"TestOutagesOnTheFake", "receives of 600 messages in the first minute"},
		{"W5: an outage of messages left for later", planttest.Edit{File: outage, Old: "if !acked && !receive.failed", New: "if receive == nil"},
			"TestOutagesOnTheFake", "the message of beside-"},
		{"W5: one user's messages are an outage", planttest.Edit{File: outage, Old: "known.group == a.group", New: "known.group == 0"},
			"TestOutagesOnTheFake", "the message of u"},
		{"W5: an outage without an end", planttest.Edit{File: outage, Old: "outageMemory = 15 * time.Second", New: "outageMemory = 15 * time.Hour"},
			"TestOutagesOnTheFake", "the message of second"},
	} {
		t.Run(bug.name, func(t *testing.T) {
			binary := planttest.Build(t, planttest.Overlay(t, planttest.Root(t), []planttest.Edit{bug.edit}))
			planttest.MustFail(t, binary, bug.test, bug.want, 1)
		})
	}
}

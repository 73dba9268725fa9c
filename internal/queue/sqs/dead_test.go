package sqs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqstest"
)

func TestRedriveThatCannotSendKeepsTheLetters(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		for _, msg := range msgs(3) {
			require.NoError(t, t.broker.DeadLetter(t.Context(), topic, msg, "why"))
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

// send sends a message to the topic as a producer outside Fanfare may.
func (t *bubble) send(body string, attributes map[string]types.MessageAttributeValue) {
	t.Helper()
	url := "http://fake/000000000000/" + mainName
	_, err := sqstest.Client(t.sqs).SendMessage(t.Context(), &awssqs.SendMessageInput{
		QueueUrl: &url, MessageBody: &body, MessageAttributes: attributes,
	})
	require.NoError(t, err)
}

// sendGroup sends a message with a group id, but without the group in the metadata.
func (t *bubble) sendGroup(group string) {
	t.Helper()
	url := "http://fake/000000000000/" + mainName
	_, err := sqstest.Client(t.sqs).SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageGroupId: &group})
	require.NoError(t, err)
}

func text(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

func binary(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("Binary"), BinaryValue: []byte(value)}
}

// SQS must accept every message as a dead letter, too. A message that can neither be handled
// nor become a dead letter would be redelivered for days.
func TestEveryMessageCanBecomeADeadLetter(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	many := func(n int, value string) map[string]types.MessageAttributeValue {
		out := map[string]types.MessageAttributeValue{}
		for i := range n {
			out[fmt.Sprint("a", i)] = text(value)
		}
		return out
	}
	for name, c := range map[string]struct {
		body       string
		attributes map[string]types.MessageAttributeValue
		// note is the text that the reason contains if the letter has only a part of the message.
		note string
		kept func(queue.DeadLetter) bool
	}{
		"a body of 1 MiB": {strings.Repeat("x", mib), nil, "left out, since SQS takes no larger message: the end of the payload of 1048576 bytes",
			func(d queue.DeadLetter) bool { return len(d.Payload) > mib-8<<10 }},
		"a body of long characters": {strings.Repeat("€", mib/3), nil, "the end of the payload", func(d queue.DeadLetter) bool {
			return utf8.Valid(d.Payload) && len(d.Payload) > mib-8<<10
		}},
		"a binary attribute": {"x", map[string]types.MessageAttributeValue{"blob": binary("\x00\xff\x01")}, "in base64: blob",
			func(d queue.DeadLetter) bool { return d.Metadata["blob"] == "AP8B" }},
		"a binary id": {"x", map[string]types.MessageAttributeValue{"_watermill_message_uuid": binary("\x00")}, "",
			func(d queue.DeadLetter) bool { return d.ID != "" }},
		"a binary attribute and 1 MiB": {strings.Repeat("x", mib-14), map[string]types.MessageAttributeValue{"blob": binary("\x00\xff\x01\x02")}, "in base64: blob",
			func(d queue.DeadLetter) bool { return len(d.Metadata["blob"]) == 8 && len(d.Payload) > mib-8<<10 }},
		"ten attributes": {"x", many(10, "v"), "", func(d queue.DeadLetter) bool { return len(d.Metadata) == 10 && d.Metadata["a9"] == "v" }},
		"ten large attributes": {"x", many(10, strings.Repeat("<", 100_000)), "left out, since SQS takes no larger message: a0",
			func(d queue.DeadLetter) bool { return string(d.Payload) == "x" }},
		"ten binary attributes": {"x", map[string]types.MessageAttributeValue{"a": binary(strings.Repeat("\x00", 900_000)), "b": text("v")},
			"left out, since SQS takes no larger message: a", func(d queue.DeadLetter) bool { return d.Metadata["b"] == "v" }},
		"an id of 1 MB": {"x", map[string]types.MessageAttributeValue{"_watermill_message_uuid": text(strings.Repeat("i", 1_000_000))},
			"the end of the id", func(d queue.DeadLetter) bool { return len(d.ID) == 1000 }},
		"the names of a dead letter": {"x", map[string]types.MessageAttributeValue{"reason": text("r"), "source": text("s"), "failed_at": text("f"), "receives": text("7")}, "",
			func(d queue.DeadLetter) bool { return d.Metadata["reason"] == "r" && d.Metadata["receives"] == "7" }},
		"the name of packed metadata": {"x", map[string]types.MessageAttributeValue{"metadata": text(`{"a":"b"}`)}, "",
			func(d queue.DeadLetter) bool { return d.Metadata["metadata"] == `{"a":"b"}` && len(d.Metadata) == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(t *bubble) {
				t.send(c.body, c.attributes)
				in, stop := t.subscribe()
				defer stop()
				msg := <-in
				require.NoError(t, t.broker.DeadLetter(t.Context(), topic, msg, "no such version"))
				msg.Ack()
				letters, err := t.broker.ListDead(t.Context(), topic, 10)
				require.NoError(t, err)
				require.Len(t, letters, 1)
				reason := letters[0].Reason
				if !strings.HasPrefix(reason, "no such version") || !strings.Contains(reason, c.note) || c.note == "" && reason != "no such version" {
					t.Errorf("reason %q, want the note %q", reason, c.note)
				}
				if !c.kept(letters[0]) {
					t.Errorf("the letter %.200q %.500v lacks a part that it has room for", letters[0].Payload, letters[0].Metadata)
				}
			})
		})
	}
}

// A letter that SQS would refuse as a message stays, and does not block later letters.
func TestRedriveLeavesALetterThatNoQueueTakes(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		meta := map[string]string{}
		for i := range 30 {
			meta[fmt.Sprint("a", i)] = "v"
		}
		forged, err := json.Marshal(meta)
		require.NoError(t, err)
		bad := message.NewMessage("bad", []byte("x"))
		bad.Metadata = message.Metadata{queue.MetaReason: "why", "metadata": string(forged)}
		require.NoError(t, t.sqs.Load(deadName, bad)) // a producer that may send to the dead-letter queue
		for _, msg := range msgs(3) {
			require.NoError(t, t.broker.DeadLetter(t.Context(), topic, msg, "why"))
		}
		if sent, refused, err := t.broker.Redrive(t.Context(), topic, nil, nil); sent != 3 || refused != 1 || err != nil {
			t.Errorf("sent %d, refused %d, %v", sent, refused, err)
		}
		assert.Equal(t, 1, t.sqs.Len(deadName), "dead letters stayed")
		if lines := t.logged.FilterMessage("dead letter not sent again").All(); len(lines) != 1 || lines[0].ContextMap()["message_id"] != "bad" {
			t.Errorf("logged %v", lines)
		}
	})
}

package sqs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
)

func TestCutReplyOfASendLosesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.sqs.FailNth(1, opSend, sqstest.Fault{Cut: true})
		if err := t.broker.Publish(topic, msgs(10)...); err != nil {
			require.Truef(t, queue.Transient(err), "error %v, want none or a transient one", err)
			t.publish(msgs(10)...) // now SQS has each message twice
		}
		in, _ := t.subscribe()
		t.collect(in, 10)
	})
}

func TestPartialFailureOfASendIsRetriedOneByOne(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.sqs.FailNth(1, opSend, failing("2", "7"))
		t.publish(msgs(10)...)
		assert.Equal(t, 10, t.sqs.Len(mainName), "messages sent")
		t.wantRequests(opSend, 3, "the batch and two single ones")
	})
}

func TestLastingFailureOfASendIsTheCallersToSee(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.sqs.FailNth(1, opSend, sqstest.Fault{Entries: map[string]sqstest.EntryFault{"1": {Code: "InvalidMessageContents", Sender: true}}})
		err := t.broker.Publish(topic, msgs(3)...)
		assert.Error(t, err)
		assert.Falsef(t, queue.Transient(err), "error %v, want one that is not transient", err)
		t.wantRequests(opSend, 1, "no retry")
	})
}

func TestThrottledSendIsUnavailable(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.sqs.FailFor(time.Hour, sqstest.Fault{Status: http.StatusBadRequest, Code: "RequestThrottled"}, opSend)
		err := t.broker.Publish(topic, msgs(1)...)
		if _, ok := errors.AsType[*queue.UnavailableError](err); !ok || !queue.Transient(err) {
			t.Errorf("error %v, want an UnavailableError", err)
		}
	})
}

func TestSendWithoutAnAnswerForEachEntryIsNoSuccess(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		t.sqs.FailNth(1, opSend, omitting())
		err := t.broker.Publish(topic, msgs(10)...)
		assert.Truef(t, queue.Transient(err), "error %v for 9 of 10 messages, want a transient one", err)
	})
}

func TestThousandMessagesTakeAboutAHundredRequestsEach(t *testing.T) {
	t.Parallel()
	inBubble(t, 5*time.Millisecond, func(t *bubble) {
		var publishing sync.WaitGroup
		for i := range 250 { // the callers publish one message at a time
			publishing.Go(func() {
				for j := range 4 {
					if err := t.broker.Publish(topic, message.NewMessage(fmt.Sprint(i, "-", j), []byte("x"))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		publishing.Wait()
		in, stop := t.subscribe()
		t.collect(in, 1000)
		stop()
		assert.NoError(t, t.broker.Close())
		for _, op := range []string{opSend, opReceive, opDelete} {
			if n := t.sqs.Requests()[op]; n < 100 || n > 130 {
				t.Errorf("%d requests %s for 1,000 messages, want 100 to 130", n, op)
			}
		}
	})
}

func TestLoneMessageDoesNotWait(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		began := time.Now()
		t.publish(msgs(1)...)
		in, _ := t.subscribe()
		(<-in).Ack()
		synctest.Wait()
		assert.Zero(t, time.Since(began), "a lone message waited")
		assert.Zero(t, t.sqs.Len(mainName), "its delete waited")
	})
}

func TestBatchesStayWithinTheByteLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Millisecond, func(t *bubble) {
		large := msgs(25)
		for _, msg := range large {
			msg.Payload = bytes.Repeat([]byte("x"), 300<<10)
		}
		t.publish(large...)
		t.wantRequests(opSend, 9, "three of 300 KiB fit into 1 MiB")
	})
}

// A request serves many callers, on a goroutine that belongs to none of the callers.
func TestAPanicInARequestIsAnErrorOfItsCallers(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		broken := true
		t.broker = sqs.New(sqstest.Client(client(func(req *http.Request) (*http.Response, error) {
			if broken && strings.HasSuffix(req.Header.Get("X-Amz-Target"), "."+opSend) {
				panic("boom")
			}
			return t.sqs.Do(req)
		})), sqs.Options{Prefix: "test"})
		closeAfter(t.T, t.broker)
		err := t.broker.Publish(topic, msgs(3)...)
		assert.ErrorAs(t, err, new(*panics.Error))
		broken = false
		t.publish(msgs(3)...)
	})
}

// client is an HTTP client that is a function.
type client func(*http.Request) (*http.Response, error)

func (c client) Do(req *http.Request) (*http.Response, error) { return c(req) }

func TestGroupIsTheMessageGroupID(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		for _, group := range []string{"author_1-X", "grüße", "auth0|5f7c.@:"} {
			msg := message.NewMessage("id", []byte("x"))
			msg.Metadata.Set(queue.MetaGroup, group)
			t.publish(msg)
		}
		groups := t.sqs.Groups(mainName)
		if len(groups) != 3 || groups[0] != "author_1-X" || len(groups[1]) != 64 || groups[2] != "auth0|5f7c.@:" {
			t.Errorf("groups %q, want two as they are and a hash", groups)
		}
	})
}

// A health check has two seconds, for any number of topics.
func TestPingAsksForAllTopicsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, 700*time.Millisecond, func(t *bubble) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		assert.NoError(t, t.broker.Ping(ctx))
	})
}

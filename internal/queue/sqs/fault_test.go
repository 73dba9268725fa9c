package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
)

// The SDK's HTTP client keeps idle connections and has no way to close them, so
// those to LocalStack may outlive the tests by their idle timeout. Watermill's test kit
// lets its multiplier wait for a reader that has left when a test ends with messages
// under way.
func TestMain(m *testing.M) {
	const multiplier = "github.com/ThreeDotsLabs/watermill/internal/subscriber.(*multiplier).Subscribe"
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction(multiplier+".func2"),
		goleak.IgnoreAnyFunction(multiplier+".func3"))
}

const (
	topic    = queue.TopicPosts
	mainName = "test-posts"
	deadName = "test-posts-dlq"
)

// options of the tests here: a poll and a visibility that are easy to reckon with.
func options() sqs.Options {
	return sqs.Options{Visibility: 30 * time.Second, PollWait: 5 * time.Second}
}

func msgs(n int) []*message.Message {
	out := make([]*message.Message, n)
	for i := range out {
		out[i] = message.NewMessage(fmt.Sprint("id-", i), []byte("x"))
	}
	return out
}

func mustPublish(t *testing.T, b *sqs.Broker, msgs ...*message.Message) {
	t.Helper()
	if err := b.Publish(topic, msgs...); err != nil {
		t.Fatal(err)
	}
}

func subscribe(t *testing.T, b *sqs.Broker) (<-chan *message.Message, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, err := b.Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	return in, cancel
}

// collect acks until n different messages came.
func collect(t *testing.T, in <-chan *message.Message, n int) {
	t.Helper()
	seen := map[string]bool{}
	for len(seen) < n {
		select {
		case msg := <-in:
			seen[msg.UUID] = true
			msg.Ack()
		case <-time.After(time.Hour):
			t.Fatalf("%d of %d messages came within an hour", len(seen), n)
		}
	}
}

// settle lets virtual time pass until nothing more is to be done.
func settle(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

func TestCutReplyStrandsNothing(t *testing.T) {
	for name, what := range map[string]fault{"cut": {cut: true}, "lost": {lost: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				b := f.open(t, options())
				mustPublish(t, b, msgs(25)...)
				f.once("ReceiveMessage", what)
				in, cancel := subscribe(t, b)
				defer cancel()
				collect(t, in, 25)
				settle(time.Second)
				if n := f.length(mainName); n != 0 {
					t.Errorf("%d messages left", n)
				}
			})
		})
	}
}

func TestCutReplyOfASendLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		f.once("SendMessageBatch", fault{cut: true})
		if err := b.Publish(topic, msgs(10)...); err != nil {
			if !sqs.Transient(err) {
				t.Fatalf("error %v, want none or one that another try mends", err)
			}
			mustPublish(t, b, msgs(10)...) // now they are there twice
		}
		in, cancel := subscribe(t, b)
		defer cancel()
		collect(t, in, 10)
	})
}

func TestPartialFailureOfASendIsRetriedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		f.once("SendMessageBatch", fault{entries: map[string]entryFault{"2": {code: "InternalError"}, "7": {code: "RequestThrottled", sender: true}}})
		mustPublish(t, b, msgs(10)...)
		if n := f.length(mainName); n != 10 {
			t.Errorf("%d messages sent, want each of 10 once", n)
		}
		if n := f.counted()["SendMessageBatch"]; n != 3 {
			t.Errorf("%d requests, want the batch and two single ones", n)
		}
	})
}

func TestLastingFailureOfASendIsTheCallersToSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		f.once("SendMessageBatch", fault{entries: map[string]entryFault{"1": {code: "InvalidMessageContents", sender: true}}})
		err := b.Publish(topic, msgs(3)...)
		if err == nil || sqs.Transient(err) {
			t.Errorf("error %v, want one that no retry mends", err)
		}
		if n := f.counted()["SendMessageBatch"]; n != 1 {
			t.Errorf("%d requests, want no retry", n)
		}
	})
}

func TestThrottledSendIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		f.setFault(func(op string) *fault {
			if op == "SendMessageBatch" {
				return &fault{status: http.StatusBadRequest, code: "RequestThrottled"}
			}
			return nil
		})
		err := b.Publish(topic, msgs(1)...)
		if _, ok := errors.AsType[*queue.UnavailableError](err); !ok || !sqs.Transient(err) {
			t.Errorf("error %v, want an UnavailableError", err)
		}
	})
}

func TestThrottledReceiveGoesOnLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		mustPublish(t, b, msgs(5)...)
		began := time.Now()
		f.setFault(func(op string) *fault {
			if op == "ReceiveMessage" && time.Since(began) < time.Minute {
				return &fault{status: http.StatusForbidden, code: "RequestThrottled"}
			}
			return nil
		})
		in, cancel := subscribe(t, b)
		defer cancel()
		collect(t, in, 5)
	})
}

func TestPartialFailureOfADeleteIsRetriedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		mustPublish(t, b, msgs(10)...)
		in, cancel := subscribe(t, b)
		defer cancel()
		f.once("DeleteMessageBatch", fault{entries: map[string]entryFault{"0": {code: "InternalError"}}})
		collect(t, in, 10)
		settle(10 * time.Second)
		if n := f.length(mainName); n != 0 {
			t.Errorf("%d messages left after their acks", n)
		}
	})
}

// receive takes n messages out.
func receive(in <-chan *message.Message, n int) []*message.Message {
	var out []*message.Message
	for range n {
		out = append(out, <-in)
	}
	return out
}

// wantHeld wants every message to be out for the first time, and its handler to know.
func wantHeld(t *testing.T, held []*message.Message) {
	t.Helper()
	for _, msg := range held {
		if queue.ReceiveOf(msg).Receives != 1 || msg.Context().Err() != nil {
			t.Errorf("message %s was lost", msg.UUID)
		}
	}
}

// wantNoMore wants no message to come from the channel, now.
func wantNoMore(t *testing.T, in <-chan *message.Message) {
	t.Helper()
	select {
	case msg := <-in:
		t.Errorf("message %s came, with receive count %d", msg.UUID, queue.ReceiveOf(msg).Receives)
	default:
	}
}

// passing is a failure of two entries that another try mends.
func passing() fault {
	return fault{entries: map[string]entryFault{"0": {code: "InternalError"}, "3": {code: "RequestThrottled", sender: true}}}
}

func TestPartialFailureOfAHeartbeatIsRetriedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.latency = 10 * time.Millisecond // so that entries meet in a batch
		b := f.open(t, options())
		mustPublish(t, b, msgs(10)...)
		in, cancel := subscribe(t, b)
		defer cancel()
		held := receive(in, 10)
		// The first goes alone, the nine behind it together.
		f.nth(2, "ChangeMessageVisibilityBatch", passing())
		settle(16 * time.Second) // one round of extensions
		if n := f.counted()["ChangeMessageVisibilityBatch"]; n != 4 {
			t.Errorf("%d requests, want two batches and two single ones", n)
		}
		wantHeld(t, held)
	})
}

func TestPartialFailureOfAHandBackIsRetriedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.latency = 10 * time.Millisecond // so that entries meet in a batch
		b := f.open(t, options())
		mustPublish(t, b, msgs(10)...)
		in, cancel := subscribe(t, b)
		defer cancel()
		held := receive(in, 10)
		f.nth(2, "ChangeMessageVisibilityBatch", passing())
		began := time.Now()
		for _, msg := range held {
			queue.ReceiveOf(msg).RetryAfter(0)
			msg.Nack()
		}
		collect(t, in, 10)
		if took := time.Since(began); took > time.Second {
			t.Errorf("all came again after %s, want at once and not at the end of their visibility timeout", took)
		}
	})
}

func TestFailedHeartbeatIsMadeGoodByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		mustPublish(t, b, msgs(10)...)
		in, cancel := subscribe(t, b)
		defer cancel()
		held := receive(in, 10)
		failing := time.Now().Add(16 * time.Second) // as long as the first round of extensions is tried
		failed := 0
		f.setFault(func(op string) *fault {
			if op == "ChangeMessageVisibilityBatch" && time.Now().Before(failing) {
				failed++
				return &fault{status: http.StatusForbidden, code: "AccessDenied"} // nothing that the SDK retries
			}
			return nil
		})
		settle(5 * time.Minute)
		if failed == 0 {
			t.Error("no extension failed")
		}
		wantHeld(t, held)
		wantNoMore(t, in)
	})
}

func TestReplyThatLeavesEntriesOutIsNoSuccess(t *testing.T) {
	silent := fault{silent: []string{"3"}}
	t.Run("of a send", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			b := f.open(t, options())
			f.once("SendMessageBatch", silent)
			if err := b.Publish(topic, msgs(10)...); !sqs.Transient(err) {
				t.Errorf("error %v for 9 of 10 messages, want one that another try mends", err)
			}
		})
	})
	t.Run("of a delete", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.latency = 10 * time.Millisecond // so that entries meet in a batch
			core, logged := observer.New(zap.WarnLevel)
			o := options()
			o.Log = zap.New(core)
			b := f.open(t, o)
			mustPublish(t, b, msgs(10)...)
			in, cancel := subscribe(t, b)
			defer cancel()
			held := receive(in, 10)
			f.nth(2, "DeleteMessageBatch", silent) // the first goes alone, the nine behind it together
			for _, msg := range held {
				msg.Ack()
			}
			settle(time.Second)
			if n := f.length(mainName); n != 1 {
				t.Errorf("%d messages left, want the one that was left out", n)
			}
			if logged.FilterMessageSnippet("answer failed").Len() == 0 {
				t.Error("nobody is told that a delete had no answer")
			}
			collect(t, in, 1)
			settle(time.Second)
			if n := f.length(mainName); n != 0 {
				t.Errorf("%d messages left after they came again", n)
			}
		})
	})
	t.Run("of a heartbeat", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.latency = 10 * time.Millisecond
			b := f.open(t, options())
			mustPublish(t, b, msgs(10)...)
			in, cancel := subscribe(t, b)
			defer cancel()
			held := receive(in, 10)
			f.nth(2, "ChangeMessageVisibilityBatch", silent)
			settle(2 * time.Minute)
			wantHeld(t, held)
			wantNoMore(t, in)
		})
	})
}

func TestFailedDeleteComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		mustPublish(t, b, msgs(1)...)
		in, cancel := subscribe(t, b)
		defer cancel()
		began := time.Now()
		f.setFault(func(op string) *fault {
			if op == "DeleteMessageBatch" && time.Since(began) < 20*time.Second {
				return &fault{status: http.StatusServiceUnavailable, code: "ServiceUnavailable"}
			}
			return nil
		})
		(<-in).Ack()
		again := <-in
		if n := queue.ReceiveOf(again).Receives; n != 2 {
			t.Errorf("receive count %d, want 2", n)
		}
		again.Ack()
		settle(10 * time.Second)
		if n := f.length(mainName); n != 0 {
			t.Errorf("%d messages left", n)
		}
	})
}

func TestExpiredReceiptHandleHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		mustPublish(t, b, msgs(2)...)
		in, cancel := subscribe(t, b)
		defer cancel()
		first, second := <-in, <-in
		// No extension arrives, so both become visible and get new receipts.
		f.setFault(func(op string) *fault {
			if op == "ChangeMessageVisibilityBatch" {
				return &fault{entries: map[string]entryFault{
					"0": {code: "ReceiptHandleIsInvalid", sender: true}, "1": {code: "ReceiptHandleIsInvalid", sender: true},
				}}
			}
			return nil
		})
		settle(35 * time.Second)
		f.setFault(nil)
		for _, msg := range []*message.Message{first, second} {
			if msg.Context().Err() == nil {
				t.Error("the handler was not told that it lost its message")
			}
		}
		first.Ack() // too late: SQS knows the receipt no more
		queue.ReceiveOf(second).RetryAfter(0)
		second.Nack()
		collect(t, in, 2)
		settle(10 * time.Second)
		if n := f.length(mainName); n != 0 {
			t.Errorf("%d messages left", n)
		}
	})
}

func TestHeldMessagesAreExtendedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		mustPublish(t, b, msgs(100)...)
		in, cancel := subscribe(t, b)
		defer cancel()
		var held []*message.Message
		for range 100 {
			held = append(held, <-in)
		}
		f.resetCounts()
		settle(10 * time.Minute)
		// Every third of 30 s, 100 messages in tens.
		if n := f.counted()["ChangeMessageVisibilityBatch"]; n < 400 || n > 750 {
			t.Errorf("%d requests to extend 100 messages for 10 minutes, want about 600", n)
		}
		for _, msg := range held {
			if queue.ReceiveOf(msg).Receives != 1 || msg.Context().Err() != nil {
				t.Fatal("a held message was lost")
			}
			msg.Ack()
		}
		settle(time.Second)
		if n := f.length(mainName); n != 0 {
			t.Errorf("%d messages left", n)
		}
	})
}

func TestSlowRepliesHoldUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.latency = 3 * time.Second
		b := f.open(t, options())
		mustPublish(t, b, msgs(200)...)
		in, cancel := subscribe(t, b)
		collect(t, in, 200)
		cancel()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if n := f.length(mainName); n != 0 {
			t.Errorf("%d messages left after close", n)
		}
	})
}

// What a poll brings after the stop is visible to others at once.
func TestMessagesThatArriveAfterTheStopAreHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		mustPublish(t, b, msgs(10)...)
		f.once("ReceiveMessage", fault{hold: 4 * time.Second}) // received, on its way
		in, cancel := subscribe(t, b)
		settle(time.Second)
		cancel()
		if _, open := <-in; open {
			t.Error("a message came after the stop")
		}
		if n := f.visible(mainName); n != 10 {
			t.Errorf("%d of 10 messages are visible after the subscription ended", n)
		}
	})
}

func (f *fake) visible(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.queues[name].messages {
		if !m.gone && !m.visible.After(time.Now()) {
			n++
		}
	}
	return n
}

// Close may come while polls, sends, deletes, extensions and hand-backs are under
// way: it waits for them, loses nothing and leaves nothing hidden.
func TestCloseInEveryPhase(t *testing.T) {
	for at := time.Duration(0); at < 3*time.Second; at += 150 * time.Millisecond {
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.latency = 100 * time.Millisecond
				b := f.open(t, options())
				mustPublish(t, b, msgs(60)...)
				in, cancel := subscribe(t, b)
				defer cancel()
				acked := 0
				var working sync.WaitGroup
				working.Go(func() {
					for msg := range in {
						switch len(msg.UUID) % 3 {
						case 0:
							acked++
							msg.Ack()
						case 1:
							queue.ReceiveOf(msg).RetryAfter(0)
							msg.Nack()
							time.Sleep(70 * time.Millisecond) //nolint:forbidigo // virtual time
						default: // never answered
						}
					}
				})
				published := 60
				working.Go(func() {
					for i := range 40 {
						if b.Publish(topic, message.NewMessage(fmt.Sprint("more-", i), []byte("x"))) != nil {
							return
						}
						published++
					}
				})
				time.Sleep(at) //nolint:forbidigo // virtual time
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				working.Wait()
				if got := f.visible(mainName); got != f.length(mainName) {
					t.Errorf("%d of %d messages are visible after close", got, f.length(mainName))
				}
				if got := f.length(mainName); got < published-acked {
					t.Errorf("%d messages left of %d with %d acks", got, published, acked)
				}
			})
		})
	}
}

// blackHole lets requests of these operations, of all if none is named, hang for good.
func (f *fake) blackHole(ops ...string) {
	f.setFault(func(op string) *fault {
		if len(ops) == 0 || slices.Contains(ops, op) {
			return &fault{delay: time.Hour}
		}
		return nil
	})
}

// A subscription ends a poll's wait and 4 s after its stop at the latest, and Close 4 s
// after the last of them: that is what the daemon reckons with.
const (
	longestStop  = 9 * time.Second
	longestClose = longestStop + 4*time.Second
)

// hold takes all of n messages out and has extensions of them under way.
func hold(t *testing.T, f *fake, in <-chan *message.Message, n int) []*message.Message {
	t.Helper()
	var held []*message.Message
	for range n {
		held = append(held, <-in)
	}
	f.blackHole()
	settle(15 * time.Second) // a heartbeat, and a poll
	if f.counted()["ChangeMessageVisibilityBatch"] == 0 {
		t.Fatal("no extension is under way")
	}
	return held
}

// comeAgain wants every message of ids to come from a broker that SQS answers.
func comeAgain(t *testing.T, f *fake, n int) {
	t.Helper()
	f.setFault(nil)
	after := f.open(t, options())
	in, cancel := subscribe(t, after)
	defer cancel()
	collect(t, in, n)
}

func TestSubscriptionEndsWhateverSQSDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		mustPublish(t, b, msgs(60)...)
		in, cancel := subscribe(t, b)
		for i, msg := range hold(t, f, in, 60) {
			switch i % 3 {
			case 0:
				msg.Ack()
			case 1:
				msg.Nack()
			}
		}
		settle(time.Second)
		began := time.Now()
		cancel()
		for range in {
			t.Error("a message came after the stop")
		}
		if took := time.Since(began); took > longestStop {
			t.Errorf("the subscription ended after %s, want %s at most", took, longestStop)
		}
		comeAgain(t, f, 60)
	})
}

func TestCloseEndsWhateverSQSDoes(t *testing.T) {
	for name, test := range map[string]struct {
		subscribed bool
		most       time.Duration
	}{
		"with a subscription": {true, longestClose},
		"with sends only":     {false, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				b := f.open(t, options())
				mustPublish(t, b, msgs(60)...)
				if test.subscribed {
					in, cancel := subscribe(t, b)
					defer cancel()
					hold(t, f, in, 60)
				}
				f.blackHole()
				var publishing sync.WaitGroup
				for i := range 20 {
					publishing.Go(func() {
						err := b.Publish(topic, message.NewMessage(fmt.Sprint("more-", i), []byte("x")))
						if !errors.Is(err, queue.ErrClosed) || !sqs.Transient(err) {
							t.Errorf("publish: %v, want a transient one for the stop", err)
						}
					})
				}
				synctest.Wait()
				began := time.Now()
				if err := b.Close(); !errors.Is(err, queue.ErrClosed) {
					t.Errorf("close: %v, want that it cut requests", err)
				}
				if took := time.Since(began); took > test.most {
					t.Errorf("closed after %s, want %s at most", took, test.most)
				}
				publishing.Wait()
				comeAgain(t, f, 60)
			})
		})
	}
}

// Entries that failed in a batch are sent again alone, 10 x 3 requests of up to 20 s.
func TestCloseCutsTriesOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		all := map[string]entryFault{}
		for i := range 10 {
			all[fmt.Sprint(i)] = entryFault{code: "InternalError"}
		}
		first := true
		f.setFault(func(op string) *fault {
			switch {
			case op != "SendMessageBatch":
				return nil
			case first:
				first = false
				return &fault{entries: all}
			}
			return &fault{delay: time.Hour}
		})
		published := make(chan error, 1)
		go func() { published <- b.Publish(topic, msgs(10)...) }()
		settle(time.Second)
		began := time.Now()
		if err := b.Close(); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("close: %v, want that it cut requests", err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("closed after %s, want 4 s at most", took)
		}
		if err := <-published; !sqs.Transient(err) {
			t.Errorf("publish: %v, want a transient error", err)
		}
	})
}

func TestThousandMessagesTakeAboutAHundredRequestsEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.latency = 5 * time.Millisecond
		b := f.open(t, options())
		var publishing sync.WaitGroup
		for i := range 250 { // callers of one message each time
			publishing.Go(func() {
				for j := range 4 {
					if err := b.Publish(topic, message.NewMessage(fmt.Sprint(i, "-", j), []byte("x"))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		publishing.Wait()
		in, cancel := subscribe(t, b)
		collect(t, in, 1000)
		cancel()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		for op, most := range map[string]int{"SendMessageBatch": 130, "ReceiveMessage": 130, "DeleteMessageBatch": 130} {
			if n := f.counted()[op]; n < 100 || n > most {
				t.Errorf("%d requests %s for 1,000 messages, want 100 to %d", n, op, most)
			}
		}
	})
}

func TestLoneMessageDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		began := time.Now()
		mustPublish(t, b, msgs(1)...)
		in, cancel := subscribe(t, b)
		(<-in).Ack()
		synctest.Wait()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a lone message waited %s", waited)
		}
		if n := f.length(mainName); n != 0 {
			t.Errorf("its delete waited")
		}
		cancel()
	})
}

func TestBatchesStayWithinTheByteLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.latency = time.Millisecond
		b := f.open(t, options())
		var large []*message.Message
		for i := range 25 {
			large = append(large, message.NewMessage(fmt.Sprint(i), make([]byte, 300<<10)))
			for j := range large[i].Payload {
				large[i].Payload[j] = 'x'
			}
		}
		mustPublish(t, b, large...)
		// Three of 300 KiB fit into 1 MiB.
		if n := f.counted()["SendMessageBatch"]; n != 9 {
			t.Errorf("%d requests for 25 messages of 300 KiB, want 9", n)
		}
	})
}

// A request serves many callers, on a goroutine that is none of theirs.
func TestAPanicInARequestIsAnErrorOfItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		broken := true
		b := sqs.New(clientOn(client(func(req *http.Request) (*http.Response, error) {
			if broken && strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".SendMessageBatch") {
				panic("boom")
			}
			return f.Do(req)
		})), sqs.Options{Prefix: "test"})
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		err := b.Publish(topic, msgs(3)...)
		if _, ok := errors.AsType[*panics.Error](err); !ok {
			t.Errorf("error is %v", err)
		}
		broken = false
		mustPublish(t, b, msgs(3)...)
	})
}

// client is an HTTP client that is a function.
type client func(*http.Request) (*http.Response, error)

func (c client) Do(req *http.Request) (*http.Response, error) { return c(req) }

func TestIdleSubscriptionPollsWithOnePoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		mustPublish(t, b, msgs(500)...)
		in, cancel := subscribe(t, b)
		collect(t, in, 500) // wakes all pollers
		settle(time.Minute)
		f.resetCounts()
		settle(10 * time.Minute)
		if n := f.counted()["ReceiveMessage"]; n > 125 {
			t.Errorf("%d receives in 10 idle minutes, want about 120: one poll of 5 s after the other", n)
		}
		cancel()
		if _, open := <-in; open {
			t.Error("a message came from an empty queue")
		}
	})
}

func TestRedriveThatCannotSendKeepsTheLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		for _, msg := range msgs(3) {
			if err := b.DeadLetter(t.Context(), topic, msg, "why"); err != nil {
				t.Fatal(err)
			}
		}
		f.setFault(func(op string) *fault {
			if op == "SendMessageBatch" {
				return &fault{status: http.StatusServiceUnavailable, code: "ServiceUnavailable"}
			}
			return nil
		})
		if sent, _, err := b.Redrive(t.Context(), topic, nil, nil); sent != 0 || !sqs.Transient(err) {
			t.Errorf("sent %d, %v", sent, err)
		}
		if got, n := f.visible(deadName), f.length(deadName); got != 3 || n != 3 {
			t.Errorf("%d dead letters, %d of them visible, want 3", n, got)
		}
	})
}

func TestGroupIsTheMessageGroupID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := f.open(t, options())
		for _, group := range []string{"author_1-X", "grüße", "plain"} {
			msg := message.NewMessage("id", []byte("x"))
			msg.Metadata.Set(queue.MetaGroup, group)
			mustPublish(t, b, msg)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		sent := f.queues[mainName].messages
		if sent[0].group != "author_1-X" || len(sent[1].group) != 64 || sent[2].group != "plain" {
			t.Errorf("groups %q %q %q, want two as they are and a hash", sent[0].group, sent[1].group, sent[2].group)
		}
	})
}

func TestTransient(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("some defect"), false},
		{queue.ErrTooLarge, false},
		{context.Canceled, false},
		{fmt.Errorf("publish: %w", &queue.UnavailableError{Op: "send", Err: errors.New("x")}), true},
	} {
		if got := sqs.Transient(test.err); got != test.want {
			t.Errorf("%v: transient %v, want %v", test.err, got, test.want)
		}
	}
}

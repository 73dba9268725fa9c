package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker is a queue in memory that records the answers. It redelivers a nacked message after
// its delay, and closes its channel when the subscription ends.
type broker struct {
	mu      sync.Mutex
	in      chan *message.Message
	history map[string][]answer
	dead    map[string]string
	deadErr error
	ended   chan struct{}
	// answers counts the running goroutines of messages. ending counts the running goroutines that end a
	// subscription.
	answers, ending sync.WaitGroup
}

type answer struct {
	acked bool
	delay time.Duration
}

func newBroker() *broker {
	return &broker{
		in: make(chan *message.Message), history: map[string][]answer{}, dead: map[string]string{},
		ended: make(chan struct{}),
	}
}

func (b *broker) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	b.ending.Go(func() {
		<-ctx.Done()
		b.mu.Lock()
		close(b.ended)
		b.mu.Unlock()
		b.answers.Wait()
		close(b.in)
	})
	return b.in, nil
}

func (b *broker) Close() error { return nil }

// deliver offers a message until the message is acked or the subscription ends. receives is the
// receive count of the first receive.
func (b *broker) deliver(msg *message.Message, receives int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.ended:
		return
	default:
	}
	b.answers.Go(func() {
		for ; ; receives++ {
			copied := msg.Copy()
			receive := queue.NewReceive(receives)
			ctx, cancel := context.WithCancel(queue.WithReceive(context.Background(), receive))
			copied.SetContext(ctx)
			select {
			case b.in <- copied:
			case <-b.ended:
				cancel()
				return
			}
			var a answer
			select {
			case <-copied.Acked():
				a.acked = true
			case <-copied.Nacked():
				a.delay = receive.Delay()
			}
			cancel()
			b.mu.Lock()
			b.history[msg.UUID] = append(b.history[msg.UUID], a)
			b.mu.Unlock()
			if a.acked {
				return
			}
			select {
			case <-time.After(a.delay):
			case <-b.ended:
				return
			}
		}
	})
}

func (b *broker) DeadLetter(_ context.Context, topic string, msg *message.Message, reason string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deadErr != nil {
		return b.deadErr
	}
	b.dead[msg.UUID] = queue.NewDeadLetter(topic, msg, reason, time.Now()).Reason
	return nil
}

func (b *broker) ListDead(context.Context, string, int) ([]queue.DeadLetter, error) { return nil, nil }

func (b *broker) Redrive(context.Context, string, []string, func(queue.DeadLetter) error) (int, int, error) {
	return 0, 0, nil
}

func (b *broker) DropDead(context.Context, string, []string) (int, error) { return 0, nil }

func (b *broker) answersOf(msg *message.Message) []answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.history[msg.UUID])
}

func (b *broker) reason(msg *message.Message) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dead[msg.UUID]
}

func (b *broker) failDeadLetters(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadErr = err
}

// event returns a message with an event that happened now.
func event(t *testing.T) *message.Message {
	t.Helper()
	return eventAt(t, time.Now())
}

func eventAt(t *testing.T, at time.Time) *message.Message {
	t.Helper()
	eventID, err := id.NewGenerator(func() time.Time { return at }).New()
	require.NoError(t, err)
	msg, err := queue.Message(t.Context(), &messages.Liked{Like: messages.Like{
		Header: messages.Header{EventID: eventID, Time: time.Now()}, PostID: eventID, UserID: "ann",
	}})
	require.NoError(t, err)
	return msg
}

// consuming runs a consumer in virtual time while test runs, and then stops the consumer. It
// uses only one thread: the timer of the broker's time.After(0) runs on the thread that waits.
// Two timers of one bubble share a context of the race detector. If they run at the same time
// on two threads, the process ends (runtime/time.go, unlockAndRun).
func consuming(t *testing.T, handle queue.Handler, test func(t *testing.T, b *broker, stop func())) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := &queue.Consumer{
			Topic: queue.TopicLikes, Broker: b, Handle: handle, Workers: 4, Grace: 10 * time.Second,
			Now: time.Now, Log: zap.NewNop(),
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var runErr error
		running.Go(func() { runErr = c.Run(ctx) })
		test(t, b, cancel)
		cancel()
		running.Wait()
		b.ending.Wait()
		assert.NoErrorf(t, runErr, "the consumer ended with %v after a stop", runErr)
	})
}

func TestHandledMessageIsAcked(t *testing.T) {
	t.Parallel()
	consuming(t, func(context.Context, messages.Event) error { return nil }, func(t *testing.T, b *broker, _ func()) {
		t.Helper()
		msg := event(t)
		b.deliver(msg, 1)
		synctest.Wait()
		assert.Equal(t, []answer{{acked: true}}, b.answersOf(msg))
	})
}

// The consumer reports a message before its work, so that a hanging message is visible. A failure and a
// deliberate wait have different results.
func TestAMessageIsNotedBeforeItsWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, msg := newBroker(), event(t)
		var noted []string
		answers := []error{errors.New("some defect"), &queue.Later{After: time.Minute}, nil}
		c := &queue.Consumer{
			Topic: queue.TopicLikes, Broker: b, Now: time.Now, Log: zap.NewNop(),
			Taken: func(id string) { noted = append(noted, "taken "+id) },
			Handle: func(context.Context, messages.Event) error {
				err := answers[0]
				answers = answers[1:]
				noted = append(noted, "handled")
				return err
			},
			Observe: func(a queue.Answered) { noted = append(noted, fmt.Sprint(a.Result, " ", a.After)) },
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { assert.NoError(t, c.Run(ctx)) })
		b.deliver(msg, 1)
		pass(time.Hour)
		stop()
		running.Wait()
		b.ending.Wait()
		taken := "taken " + msg.UUID
		require.Len(t, noted, 9)
		assert.Equal(t, []string{taken, "handled", "again 1s", taken, "handled", "later 1m0s", taken, "handled"}, noted[:8])
		assert.Regexp(t, "^done ", noted[8])
	})
}

func TestPermanentErrorIsADeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	old := message.NewMessage("old", []byte(`{"type":"Liked","version":1,"event_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","time":"2016-07-30T23:54:10Z","post_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","user_id":"ann"}`))
	for name, msg := range map[string]*message.Message{
		"handler":         nil,
		"payload":         message.NewMessage("bad", []byte("no JSON")),
		"unknown version": message.NewMessage("new", []byte(`{"type":"Liked","version":99}`)),
		"too old":         old,
		"days ahead":      old, // virtual time begins in 2000
	} {
		t.Run(name, func(t *testing.T) {
			consuming(t, func(context.Context, messages.Event) error {
				return fmt.Errorf("apply: %w", &messages.PermanentError{Reason: messages.ReasonNoPost})
			}, func(t *testing.T, b *broker, _ func()) {
				t.Helper()
				if msg == nil {
					msg = event(t)
				} else if name == "too old" {
					time.Sleep(time.Until(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))) //nolint:forbidigo // virtual time
				}
				b.deliver(msg, 1)
				synctest.Wait()
				if got := b.answersOf(msg); !slices.Equal(got, []answer{{acked: true}}) || b.reason(msg) == "" {
					t.Errorf("answers %v, dead letter %q, want an ack and a reason", got, b.reason(msg))
				}
			})
		})
	}
}

func TestUnstoredDeadLetterComesAgain(t *testing.T) {
	t.Parallel()
	consuming(t, func(context.Context, messages.Event) error {
		return &messages.PermanentError{Reason: messages.ReasonNoPost}
	}, func(t *testing.T, b *broker, _ func()) {
		t.Helper()
		b.failDeadLetters(errors.New("disk full"))
		msg := event(t)
		b.deliver(msg, 1)
		synctest.Wait()
		require.Equal(t, []answer{{delay: time.Second}}, b.answersOf(msg), "nothing may be dropped (I6)")
		b.failDeadLetters(nil)
		pass(time.Second)
		if got := b.answersOf(msg); len(got) != 2 || !got[1].acked || b.reason(msg) == "" {
			t.Errorf("answers %v, dead letter %q", got, b.reason(msg))
		}
	})
}

// pass waits in virtual time.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

func TestFailureBacksOffAndDiesAfterMaxAttempts(t *testing.T) {
	t.Parallel()
	failing := errors.New("some defect")
	consuming(t, func(context.Context, messages.Event) error { return failing }, func(t *testing.T, b *broker, _ func()) {
		t.Helper()
		msg := event(t)
		b.deliver(msg, 1)
		pass(2 * time.Hour)
		got := b.answersOf(msg)
		if len(got) != queue.MaxAttempts+1 || !got[queue.MaxAttempts].acked {
			t.Fatalf("%d answers, the last %+v, want %d and an ack", len(got), got[len(got)-1], queue.MaxAttempts+1)
		}
		for i, a := range got[:queue.MaxAttempts] {
			assert.Equalf(t, queue.Backoff(i+1), a.delay, "attempt %d", i+1)
		}
		assert.Equal(t, messages.ReasonAttempts.Because("%v", failing), b.reason(msg), "dead letter")
	})
}

// If the queue of events fails for hours, it must not fill the queue of the work.
func TestAnEventThatIsNotSentMakesADeadLetterSoon(t *testing.T) {
	t.Parallel()
	down := &queue.UnavailableError{Op: "send", Err: errors.New("no such queue")}
	unsent := fmt.Errorf("fan-out: %w", &queue.UnsentError{Queue: "out", Err: down})
	consuming(t, func(context.Context, messages.Event) error { return unsent }, func(t *testing.T, b *broker, _ func()) {
		t.Helper()
		msg := event(t)
		b.deliver(msg, 1)
		pass(time.Minute)
		got := b.answersOf(msg)
		require.Len(t, got, queue.MaxUnsent+1)
		assert.True(t, got[queue.MaxUnsent].acked)
		assert.Contains(t, b.reason(msg), "its event was not sent: mend the queue out")
	})
}

func TestTransientErrorsNeverKillAMessage(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"throttled": fmt.Errorf("write: %w", &queue.UnavailableError{Op: "send", Err: errors.New("throttled")}),
		"cancelled": fmt.Errorf("read: %w", context.Canceled),
		"timeout":   fmt.Errorf("read: %w", context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			consuming(t, func(context.Context, messages.Event) error { return err }, func(t *testing.T, b *broker, _ func()) {
				t.Helper()
				msg := event(t)
				b.deliver(msg, 900)
				pass(time.Hour)
				for i, a := range b.answersOf(msg) {
					require.Falsef(t, a.acked, "answer %d is %+v, want nacks with backoff", i, a)
					require.Equalf(t, queue.Backoff(900), a.delay, "answer %d", i)
				}
				assert.GreaterOrEqual(t, len(b.answersOf(msg)), 10)
				assert.Empty(t, b.reason(msg))
			})
		})
	}
}

func TestLaterNeverKillsAMessage(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]time.Duration{7 * time.Second: 7 * time.Second, 0: 0, -1: queue.Backoff(500)} {
		left := 10
		consuming(t, func(context.Context, messages.Event) error {
			if left--; left < 0 {
				return nil
			}
			return fmt.Errorf("window: %w", &queue.Later{After: after, Reason: "fenced"})
		}, func(t *testing.T, b *broker, _ func()) {
			t.Helper()
			msg := event(t)
			b.deliver(msg, 500)
			pass(10*want + time.Second)
			got := b.answersOf(msg)
			require.Len(t, got, 11)
			require.Empty(t, b.reason(msg))
			for _, a := range got[:10] {
				assert.Equal(t, answer{delay: want}, a)
			}
		})
	}
}

// TestAnEventFromAheadWaitsUntilItIsDue delivers an event of a process whose clock is an hour
// ahead. The same happens if the consumer's clock is an hour behind. The event is redelivered
// soon, because another consumer may have the right clock.
func TestAnEventFromAheadWaitsUntilItIsDue(t *testing.T) {
	t.Parallel()
	var handled time.Time
	consuming(t, func(context.Context, messages.Event) error { handled = time.Now(); return nil }, func(t *testing.T, b *broker, _ func()) {
		t.Helper()
		due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		msg := eventAt(t, due.Add(messages.MaxAhead))
		b.deliver(msg, 1)
		pass(2 * time.Hour)
		got := b.answersOf(msg)
		if len(got) == 0 || !got[len(got)-1].acked || b.reason(msg) != "" || !handled.Equal(due) {
			t.Errorf("%d answers, dead letter %q, handled at %s, want it at %s", len(got), b.reason(msg), handled, due)
		}
		for i, a := range got[:len(got)-1] {
			assert.LessOrEqualf(t, a.delay, queue.Backoff(i+1), "answer %d", i+1)
		}
	})
}

func TestPanicCostsOneAttemptAndNoOtherMessage(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	var bad string
	consuming(t, func(_ context.Context, e messages.Event) error {
		mu.Lock()
		defer mu.Unlock()
		seen[e.Head().EventID]++
		if e.Head().EventID == bad && seen[bad] == 1 {
			panic("index out of range")
		}
		return nil
	}, func(t *testing.T, b *broker, _ func()) {
		t.Helper()
		first, second := event(t), event(t)
		mu.Lock()
		bad = first.UUID
		mu.Unlock()
		b.deliver(first, 1)
		b.deliver(second, 1)
		pass(time.Second)
		got := b.answersOf(first)
		assert.Equal(t, []answer{{delay: time.Second}, {acked: true}}, got, "answers to the message whose handler panicked")
		assert.Equal(t, []answer{{acked: true}}, b.answersOf(second), "answers to the other message")
	})
}

func TestStopLetsHandlersFinishWithinTheGrace(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var cancelled error
	consuming(t, func(ctx context.Context, _ messages.Event) error {
		select {
		case <-time.After(9 * time.Second):
			return nil
		case <-ctx.Done():
			mu.Lock()
			defer mu.Unlock()
			cancelled = ctx.Err()
			return ctx.Err()
		}
	}, func(t *testing.T, b *broker, stop func()) {
		t.Helper()
		msg := event(t)
		b.deliver(msg, 1)
		synctest.Wait()
		stop()
		late := event(t)
		b.deliver(late, 1)
		pass(9 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if got := b.answersOf(msg); !slices.Equal(got, []answer{{acked: true}}) || cancelled != nil {
			t.Errorf("answers %v, handler's context %v, want an ack", got, cancelled)
		}
		for _, a := range b.answersOf(late) {
			assert.False(t, a.acked, "a message was handled after the stop")
		}
	})
}

func TestStopCancelsAndHandsBackAfterTheGrace(t *testing.T) {
	t.Parallel()
	consuming(t, func(ctx context.Context, _ messages.Event) error {
		<-ctx.Done()
		return errors.New("an error that does not wrap the context's")
	}, func(t *testing.T, b *broker, stop func()) {
		t.Helper()
		msg := event(t)
		b.deliver(msg, 300) // one more failure would make the message a dead letter
		synctest.Wait()
		stop()
		pass(9 * time.Second)
		require.Empty(t, b.answersOf(msg), "within the grace")
		pass(time.Second)
		got := b.answersOf(msg)
		if len(got) == 0 || b.reason(msg) != "" {
			t.Errorf("answers %v, dead letter %q, want it handed back", got, b.reason(msg))
		}
		for _, a := range got { // the subscription may redeliver the message once before it ends
			assert.Equal(t, answer{delay: 0}, a)
		}
	})
}

// one is a broker with one message. The context of the message lives longer than its handler.
type one struct {
	*broker
	msg *message.Message
}

func (o one) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	in := make(chan *message.Message, 1)
	in <- o.msg
	close(in)
	return in, nil
}

// A handler may start work that ends only when its context ends.
func TestAHandlersContextEndsWithIt(t *testing.T) {
	t.Parallel()
	msg := event(t)
	var ended <-chan struct{}
	c := &queue.Consumer{
		Topic: queue.TopicLikes, Broker: one{msg: msg}, Now: time.Now, Log: zap.NewNop(),
		Handle: func(ctx context.Context, _ messages.Event) error { ended = ctx.Done(); return nil },
	}
	require.ErrorIs(t, c.Run(t.Context()), queue.ErrClosed)
	<-msg.Acked()
	require.NoError(t, msg.Context().Err())
	<-ended
}

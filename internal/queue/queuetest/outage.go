package queuetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/messages"
)

// RunOutages runs the tests of failing messages in virtual time. Each test calls newBackend in its own bubble.
func RunOutages(t *testing.T, newBackend func(t *testing.T) Backend) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*outageTest)
	}{
		{"a process whose messages all fail receives few, and all soon after the end", allFail},
		{"a quiet topic is at full speed soon after an outage", quietTopic},
		{"a process receives less the more users' messages fail", someFail},
		{"one user's failing messages slow nobody", oneUserFails},
		{"messages left for later, and work whose event was not sent, slow nobody", noFailures},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				test.run(&outageTest{T: t, b: newBackend(t).Open(t, Options{}), done: map[string]time.Duration{}})
			})
		})
	}
}

// outageTest counts the receives of a consumer's messages.
type outageTest struct {
	*testing.T
	b queue.Broker

	mu sync.Mutex
	// fails returns the error of a user's message, nil if its work succeeds.
	fails func(user string) error
	// received counts the receives. done has, for each user, the age of the last message when it was handled.
	received int
	done     map[string]time.Duration
}

// unavailable is a transient error.
func unavailable() error { return &queue.UnavailableError{Op: "read", Err: errors.New("no")} }

// consume handles messages until the end of the test. Their work takes a millisecond.
func (t *outageTest) consume() {
	t.Helper()
	c := &queue.Consumer{Topic: topic, Broker: t.b, Workers: 32, Now: time.Now, Log: zap.NewNop(), Handle: func(_ context.Context, e messages.Event) error {
		pass(time.Millisecond)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.received++
		err := t.fails(messages.GroupOf(e))
		if err == nil {
			t.done[messages.GroupOf(e)] = time.Since(e.Head().Time)
		}
		return err
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
}

// fail sets the errors of the messages that are received from now on.
func (t *outageTest) fail(fails func(user string) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fails = fails
}

// publish sends a message for each user.
func (t *outageTest) publish(users ...string) {
	t.Helper()
	for _, user := range users {
		eventID, err := id.NewGenerator(time.Now).New()
		require.NoError(t, err)
		msg, err := queue.Message(t.Context(), &messages.UserForgotten{Header: messages.Header{EventID: eventID, Time: time.Now()}, UserID: user})
		require.NoError(t, err)
		publish(t.T, t.b, msg)
	}
}

// users returns n names with a prefix.
func users(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(prefix, i)
	}
	return names
}

// during returns the number of receives in d. each is called once a second, and publishes messages.
func (t *outageTest) during(d time.Duration, each func(second int)) int {
	t.mu.Lock()
	before := t.received
	t.mu.Unlock()
	for second := range int(d / time.Second) {
		each(second)
		pass(time.Second)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received - before
}

func none(int) {}

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
}

// wantDone fails unless the last message of each user is handled within limit.
func (t *outageTest) wantDone(limit time.Duration, users ...string) {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, user := range users {
		took, ok := t.done[user]
		require.True(t, ok && took <= limit, "the message of %s: handled %v, after %s, want it within %s", user, ok, took, limit)
	}
}

// allFail has messages of many users. All work fails during an outage, or after a bad release.
func allFail(t *outageTest) {
	for name, failure := range map[string]error{"a transient error": unavailable(), "a defect": errors.New("a defect")} {
		t.fail(func(string) error { return failure })
		t.publish(users("u", 600)...)
		if t.received == 0 {
			t.consume()
		}
		start := t.during(time.Minute, none)
		assert.Less(t, start, 300, "%s: receives of 600 messages in the first minute", name)
		for range 5 {
			got := t.during(time.Minute, none)
			assert.LessOrEqual(t, got, 80, "%s: receives a minute", name)
			assert.GreaterOrEqual(t, got, 20, "%s: receives a minute: a process must notice the end", name)
		}
		t.fail(func(string) error { return nil })
		t.during(12*time.Second, none) // one rest, and some more seconds
		t.publish(users("fresh", 200)...)
		t.during(5*time.Second, none)
		t.wantDone(4*time.Second, users("fresh", 200)...)
		t.during(10*time.Minute, none) // the longest backoff
		t.wantDone(time.Hour, users("u", 600)...)
		t.done = map[string]time.Duration{}
	}
	waitDepth(t.T, t.b, queue.Depth{})
}

// quietTopic has few messages, so one success ends the outage. Older messages continue to fail.
func quietTopic(t *outageTest) {
	t.fail(func(string) error { return unavailable() })
	t.publish(users("u", 6)...)
	t.consume()
	t.during(2*time.Minute, none)
	t.publish(users("late", 6)...)
	t.during(12*time.Second, none)
	t.fail(func(user string) error {
		if user == "first" || user == "second" {
			return nil
		}
		return unavailable()
	})
	t.publish("first")
	t.during(14*time.Second, none) // late's first receives are now too old to count
	t.wantDone(11*time.Second, "first")
	t.publish("second")
	t.during(5*time.Second, none)
	t.wantDone(time.Second, "second")
	t.fail(func(string) error { return nil })
	t.during(5*time.Minute, none)
}

// someFail has messages of many users, of whom some have failing messages.
func someFail(t *outageTest) {
	var receives []int
	for _, tenths := range []int{3, 8, 10} {
		t.fail(func(user string) error {
			if int(user[len(user)-1]-'0') < tenths {
				return unavailable()
			}
			return nil
		})
		if len(receives) == 0 {
			t.consume()
		}
		receives = append(receives, t.during(time.Minute, func(second int) {
			t.publish(users(fmt.Sprint("s", tenths, "x", second, "u"), 20)...)
		}))
		if tenths == 3 {
			for i := tenths; i < 10; i++ {
				t.wantDone(time.Second, fmt.Sprint("s3x30u", i), fmt.Sprint("s3x59u1", i))
			}
		}
		t.fail(func(string) error { return nil })
		t.during(5*time.Minute, none)
	}
	assert.Greater(t, receives[0], 60*20, "receives while three users of ten fail")
	assert.Less(t, receives[1], receives[0]/2, "receives while eight users of ten fail")
	assert.Less(t, receives[2], receives[1], "receives while all users fail")
}

// oneUserFails has one user with more messages than all other users together. All messages of this user fail.
func oneUserFails(t *outageTest) {
	t.fail(func(user string) error {
		if user == "mallory" {
			return unavailable()
		}
		return nil
	})
	t.consume()
	t.during(time.Minute, func(second int) {
		t.publish(strings.Fields(strings.Repeat("mallory ", 40))...)
		t.publish(fmt.Sprint("u", second))
	})
	t.wantDone(time.Second, users("u", 60)...)
}

// noFailures has messages that are redelivered on purpose.
func noFailures(t *outageTest) {
	for name, err := range map[string]error{
		"later":  &queue.Later{After: 20 * time.Second, Reason: "not yet"},
		"unsent": &queue.UnsentError{Queue: "events", Err: unavailable()},
	} {
		t.fail(func(user string) error {
			if strings.HasPrefix(user, name) {
				return err
			}
			return nil
		})
		t.publish(users(name, 300)...)
		if t.received == 0 {
			t.consume()
		}
		t.during(10*time.Second, none)
		t.publish(users("beside-"+name, 20)...)
		t.during(5*time.Second, none)
		t.wantDone(time.Second, users("beside-"+name, 20)...)
	}
	t.fail(func(string) error { return nil })
	t.during(10*time.Minute, none)
	t.wantDone(time.Hour, users("later", 300)...)
}

package events_test

import (
	"bytes"
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

	"fanfare/internal/events"
	"fanfare/internal/fault"
	"fanfare/internal/page"
	"fanfare/internal/queue"
)

// memoryLog is a log in memory whose positions are letters.
type memoryLog struct {
	mu     sync.Mutex
	events [][]byte
	err    error
	grew   chan struct{}
}

func newLog(payloads ...string) *memoryLog {
	l := &memoryLog{grew: make(chan struct{})}
	for _, payload := range payloads {
		l.add(payload)
	}
	return l
}

func (l *memoryLog) add(payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, []byte(payload))
	close(l.grew)
	l.grew = make(chan struct{})
}

func (l *memoryLog) LogGrew() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grew
}

func (l *memoryLog) ReadLog(after string, yield func(string, []byte) bool) (next string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = after
	for i, payload := range l.events {
		position := string(rune('a' + i))
		if position <= after {
			continue
		}
		if !yield(position, payload) {
			break
		}
		next = position
	}
	return next, l.err
}

// reading returns a reader that runs until the end of the test.
func reading(t *testing.T, log events.Log) *events.Reader {
	t.Helper()
	r := events.NewReader(log, "")
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ran)
	})
	return r
}

func TestAPageEndsAtItsLimitOrItsSize(t *testing.T) {
	t.Parallel()
	half := string(bytes.Repeat([]byte("x"), page.MaxBytes/2))
	r := reading(t, newLog("1", "2", "3", half, half, half+half+"6", "7"))
	next := ""
	for _, want := range []string{"ab", "cd", "e", "f", "g"} { // c and d are two events, d and e with another one are too large
		read, err := r.Page(t.Context(), next, 2, 0)
		require.NoError(t, err)
		var got []string
		for _, e := range read.Events {
			got = append(got, e.Position)
		}
		assert.Equal(t, want, strings.Join(got, ""))
		next = read.Next
		assert.Equal(t, want[len(want)-1:], next, "the position of the last event of the page")
	}
}

func TestAReadWaitsForAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newLog("1")
		r := reading(t, log)
		began := time.Now()
		read, err := r.Page(t.Context(), "", 10, time.Minute)
		require.NoError(t, err)
		assert.Len(t, read.Events, 1)
		assert.Zero(t, time.Since(began), "an event was there")

		read, err = r.Page(t.Context(), "a", 10, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, events.Page{Next: "a"}, read)
		assert.Equal(t, time.Minute, time.Since(began), "no event came")

		began = time.Now()
		time.AfterFunc(time.Second, func() { log.add("2") })
		read, err = r.Page(t.Context(), "a", 10, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, "b", read.Next)
		assert.Equal(t, time.Second, time.Since(began))

		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Page(ctx, "b", 10, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestOnlySoManyReadsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		r := reading(t, log)
		var waiting sync.WaitGroup
		for range events.MaxWaiting {
			waiting.Go(func() {
				read, err := r.Page(t.Context(), "", 1, time.Hour)
				assert.NoError(t, err)
				assert.Len(t, read.Events, 1)
			})
		}
		synctest.Wait()
		_, err := r.Page(t.Context(), "", 1, time.Hour)
		assert.Equal(t, fault.Unavailable, kind(err))
		_, err = r.Page(t.Context(), "", 1, 0)
		require.NoError(t, err, "it does not wait")
		log.add("1")
		waiting.Wait()
		_, err = r.Page(t.Context(), "a", 1, time.Second)
		require.NoError(t, err, "nobody waits any more")
	})
}

func kind(err error) fault.Kind {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Kind
	}
	return 0
}

func TestAStopEndsTheWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := events.NewReader(newLog("1", "2"), "")
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- r.Run(ctx) }()
		began := time.Now()
		time.AfterFunc(time.Second, stop)
		read, err := r.Page(t.Context(), "b", 1, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, "b", read.Next)
		assert.Equal(t, time.Second, time.Since(began))
		require.NoError(t, <-ran)
		var got []string
		for e, err := range r.All(t.Context(), "a") {
			got = append(got, fmt.Sprint(e.Position, err))
		}
		assert.Equal(t, []string{"b<nil>", events.ErrStopped.Error()}, got)
	})
}

func TestAllYieldsEachEventOnceAndEndsWithAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newLog("1", "2")
		r := reading(t, log)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(time.Hour, func() { log.add("3") })
		time.AfterFunc(2*time.Hour, cancel)
		got := ""
		var last error
		for e, err := range r.All(ctx, "a") {
			got, last = got+e.Position, err
		}
		assert.Equal(t, "bc", got)
		require.ErrorIs(t, last, context.Canceled)
		for range r.All(t.Context(), "") {
			break
		}
	})
}

func TestTheFaultsOfAReadHaveKinds(t *testing.T) {
	t.Parallel()
	for want, err := range map[fault.Kind]error{
		fault.EventsGone: fmt.Errorf("read: %w", &queue.GoneError{Resume: "b"}), fault.Invalid: &queue.PositionError{Detail: "is wrong"}, fault.Unavailable: errors.New("the disk fails"),
	} {
		log := newLog()
		log.err = err
		_, got := reading(t, log).Page(t.Context(), "", 1, time.Hour)
		assert.Equal(t, want, kind(got), "%v", got)
	}
	_, err := events.NewReader(nil, "set something").Page(t.Context(), "", 1, time.Hour)
	assert.Equal(t, fault.EventsOff, kind(err))
	assert.ErrorContains(t, err, "set something")
}

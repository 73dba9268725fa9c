package obs_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/obs"
	"fanfare/internal/queue"
)

// pass lets the time d pass in virtual time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// The gauge shows messages that fail or hang, but no message that waits intentionally.
func TestTheAgeOfTheOldestUnfinishedMessage(t *testing.T) {
	const hour = time.Hour
	again := func(due time.Time, after time.Duration) queue.Answered {
		return queue.Answered{Topic: queue.TopicPosts, ID: "m", Result: queue.ResultAgain, Due: due, After: after}
	}
	end := func(r *obs.Receives, result queue.Result) {
		r.Answered(queue.Answered{Topic: queue.TopicPosts, ID: "m", Result: result, Due: time.Now()})
	}
	for name, c := range map[string]struct {
		do   func(r *obs.Receives, due time.Time)
		want time.Duration
	}{
		"none": {func(*obs.Receives, time.Time) {}, 0},
		"one that hangs": {func(r *obs.Receives, _ time.Time) {
			r.Taken("m")
			pass(hour)
		}, hour},
		"one that was done":        {func(r *obs.Receives, _ time.Time) { r.Taken("m"); pass(hour); end(r, queue.ResultDone) }, 0},
		"one that waits by design": {func(r *obs.Receives, _ time.Time) { r.Taken("m"); end(r, queue.ResultLater); pass(hour) }, 0},
		"one that was handed back": {func(r *obs.Receives, _ time.Time) { r.Taken("m"); end(r, queue.ResultHandedBack); pass(hour) }, 0},
		"a dead letter":            {func(r *obs.Receives, _ time.Time) { r.Taken("m"); end(r, queue.ResultRefused); pass(hour) }, 0},
		"one that waits by design after a failure": {func(r *obs.Receives, due time.Time) {
			r.Taken("m")
			r.Answered(again(due, time.Second))
			r.Taken("m")
			end(r, queue.ResultLater)
		}, 0},
		"one that failed": {func(r *obs.Receives, due time.Time) {
			r.Taken("m")
			r.Answered(again(due, 5*time.Minute))
			pass(5 * time.Minute)
		}, 6 * time.Minute},
		"one that failed and hangs now": {func(r *obs.Receives, due time.Time) {
			r.Taken("m")
			r.Answered(again(due, time.Second))
			pass(time.Second)
			r.Taken("m")
			pass(hour)
		}, hour + time.Minute + time.Second},
		"one that failed before it was due": {func(r *obs.Receives, due time.Time) {
			r.Taken("m")
			r.Answered(again(due.Add(hour), time.Second))
		}, 0},
		"one that failed and has no due time": {func(r *obs.Receives, _ time.Time) {
			r.Taken("m")
			pass(time.Minute)
			r.Answered(again(time.Time{}, time.Minute))
			pass(time.Minute)
		}, 2 * time.Minute},
		"one that failed here and went to another process": {func(r *obs.Receives, due time.Time) {
			r.Taken("m")
			r.Answered(again(due, time.Minute))
			pass(4 * time.Minute)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewRegistry()
				m, err := obs.NewMetrics(reg)
				require.NoError(t, err)
				c.do(m.Receives("fanout", queue.TopicPosts), time.Now().Add(-time.Minute))
				assert.Contains(t, scrape(t, reg), fmt.Sprintf("fanfare_message_overdue_seconds{role=\"fanout\",topic=\"posts\"} %v\n", c.want.Seconds()))
			})
		})
	}
}

// In an outage the first messages that fail are the oldest. The memory for such messages is bounded.
func TestTheMessagesThatAreRememberedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		m, err := obs.NewMetrics(reg)
		require.NoError(t, err)
		r := m.Receives("likeagg", queue.TopicLikes)
		r.Taken("oldest")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range 500_000 {
			r.Taken(fmt.Sprint(i))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(16<<20))
		pass(time.Minute)
		assert.Contains(t, scrape(t, reg), `fanfare_message_overdue_seconds{role="likeagg",topic="likes"} 60`+"\n")
	})
}

// increase() does not see an event if the counter begins at this event.
func TestTheFirstDeadLetterIsAnIncrease(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := obs.NewMetrics(reg)
	require.NoError(t, err)
	m.Receives("fanout", queue.TopicPosts)
	text := scrape(t, reg)
	for _, series := range []string{
		`fanfare_dead_letters_total{reason="refused",topic="posts"}`, `fanfare_dead_letters_total{reason="attempts",topic="posts"}`,
		`fanfare_message_seconds_count{result="done",topic="posts"}`, `fanfare_message_seconds_count{result="again",topic="posts"}`,
	} {
		assert.Contains(t, text, series+" 0\n")
	}
}

package fanout_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/queue"
	"fanfare/messages"
)

// removals has the results of the calls of Forget.
type removals []fanout.Forgotten

func (r *removals) Forget(_ context.Context, _, _ string, most int) (fanout.Forgotten, error) {
	next := (*r)[0]
	*r = (*r)[1:]
	next.Removed = min(next.Removed, most)
	return next, nil
}

func TestAUserIsLookedForUntilNothingIsLeftAndOnceMore(t *testing.T) {
	left := removals{{Removed: 700}, {Removed: 700, Unliked: 1}, {Removed: 200}, {}, {}}
	w := newWorld(t, 0, small, func(c *fanout.Config) { c.Users = &left })
	for i := range left { // the profile is removed by a worker that is two hours late
		left[i].Left = w.now.Add(2 * time.Hour)
	}
	e := &messages.UserForgotten{Header: w.header(), UserID: author}
	w.now = w.now.Add(2 * time.Hour)
	later := func() time.Duration {
		t.Helper()
		again, ok := errors.AsType[*queue.Later](w.worker.HandleBackfills(t.Context(), e))
		require.True(t, ok)
		return again.After
	}
	assert.Zero(t, later(), "at once: more than one receive removes")
	assert.Equal(t, 10*time.Second, later(), "the same likes would be taken back again until they are counted")
	assert.Equal(t, 10*time.Second, later(), "likes may not be counted yet")
	assert.InDelta(t, time.Hour, later(), float64(time.Minute), "events may be on their way")
	w.now = w.now.Add(time.Hour + time.Minute)
	require.NoError(t, w.worker.HandleBackfills(t.Context(), e))
	assert.Empty(t, left)
}

func TestAMessageOfAnOlderRemovalIsDone(t *testing.T) {
	left := removals{{Overtaken: true}}
	w := newWorld(t, 0, small, func(c *fanout.Config) { c.Users = &left })
	require.NoError(t, w.worker.HandleBackfills(t.Context(), &messages.UserForgotten{Header: w.header(), UserID: author}))
	assert.Empty(t, left)
}

// While only likes are left, which an aggregator has to count, the worker waits as long as Forget asks for,
// but not beyond the last look.
func TestALookForLikesThatWaitComesWhenForgetAsksForIt(t *testing.T) {
	t.Parallel()
	left := removals{{Removed: 5, Unliked: 5, Wait: 40 * time.Second}, {Wait: 20 * time.Minute}, {Wait: time.Hour}, {Wait: time.Second}, {Removed: 5, Unliked: 5, Wait: time.Hour}, {}}
	w := newWorld(t, 0, small, func(c *fanout.Config) { c.Users = &left })
	e := &messages.UserForgotten{Header: w.header(), UserID: author}
	for i := range left {
		left[i].Left = w.now
	}
	for _, want := range []time.Duration{40 * time.Second, 20 * time.Minute, time.Hour, 10 * time.Second} {
		again, ok := errors.AsType[*queue.Later](w.worker.HandleBackfills(t.Context(), e))
		require.True(t, ok)
		assert.InDelta(t, want, again.After, float64(time.Second))
	}
	w.now = w.now.Add(2 * time.Hour)
	again, ok := errors.AsType[*queue.Later](w.worker.HandleBackfills(t.Context(), e))
	require.True(t, ok)
	assert.Equal(t, time.Hour, again.After, "likes are left after the last look, too")
	require.NoError(t, w.worker.HandleBackfills(t.Context(), e))
}

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

// removals are the numbers of things that calls of Forget remove, and of the likes among them.
type removals []struct{ things, likes int }

func (r *removals) Forget(_ context.Context, _, _ string, most int) (removed, unliked int, err error) {
	next := (*r)[0]
	*r = (*r)[1:]
	return min(next.things, most), next.likes, nil
}

func TestAUserIsLookedForUntilNothingIsLeftAndOnceMore(t *testing.T) {
	left := removals{{700, 0}, {700, 1}, {200, 0}, {0, 0}, {0, 0}}
	w := newWorld(t, 0, small, func(c *fanout.Config) { c.Users = &left })
	e := &messages.UserForgotten{Header: w.header(), UserID: author}
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

package fanfare_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare"
	"fanfare/client"
	"fanfare/messages"
)

// next returns the first event behind a position.
func next(t *testing.T, s *fanfare.Server, after string) fanfare.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for e, err := range s.Events(ctx, after) {
		require.NoError(t, err)
		return e
	}
	t.Fatal("the loop ended without an error")
	return fanfare.Event{}
}

func TestAProgramReadsEventsAndContinuesAfterARestart(t *testing.T) {
	cfg := fanfare.Config{DataDir: t.TempDir(), Settings: kept("1h")}
	var posts, positions []string
	position := ""
	for range 2 {
		s, err := fanfare.Start(t.Context(), cfg)
		require.NoError(t, err)
		post, err := signUp(t, at(t, s), "ann").CreatePost(t.Context(), client.PostInput{Text: "Hello"})
		require.NoError(t, err)
		e := next(t, s, position)
		delivered, ok := e.Message.(*messages.PostDelivered)
		require.Truef(t, ok, "%+v", e)
		assert.Equal(t, post.ID, delivered.PostID)
		assert.Greater(t, e.Position, position)
		position, posts, positions = e.Position, append(posts, post.ID), append(positions, e.Position)

		waiting := make(chan error, 1)
		go func() {
			var last error
			for _, err := range s.Events(context.WithoutCancel(t.Context()), position) {
				last = err
			}
			waiting <- last
		}()
		require.NoError(t, s.Close())
		require.ErrorContains(t, <-waiting, "stopped")
	}
	assert.Len(t, positions, 2)
	assert.NotEqual(t, posts[0], posts[1])
}

func TestEventsEndWithTheContextOrTheReasonWhyThereAreNone(t *testing.T) {
	s := start(t, fanfare.Config{})
	for e, err := range s.Events(t.Context(), "") {
		require.ErrorContains(t, err, "FANFARE_EVENTS_KEPT", e)
	}
	s = start(t, fanfare.Config{Settings: kept("1h")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	for _, err := range s.Events(ctx, "") {
		n++
		require.ErrorIs(t, err, context.Canceled)
	}
	assert.Equal(t, 1, n)
	_, err := fanfare.Start(t.Context(), fanfare.Config{Settings: kept("1m")})
	require.ErrorContains(t, err, "FANFARE_EVENTS_KEPT")
}

// kept are the settings of a log of events.
func kept(d string) map[string]string { return map[string]string{"FANFARE_EVENTS_KEPT": d} }

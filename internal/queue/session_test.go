package queue_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"

	"fanfare/internal/queue"
)

// ended is a subscriber whose subscription has ended.
type ended struct{}

func (ended) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	in := make(chan *message.Message)
	close(in)
	return in, nil
}

func (ended) Close() error { return nil }

func TestSessionReportsASubscriptionThatEndsBeforeTheStop(t *testing.T) {
	drain := func(_ context.Context, in <-chan *message.Message) {
		for range in {
			t.Error("a message came")
		}
	}
	session := queue.Session{Subscriber: ended{}, Topic: queue.TopicLikes}
	assert.ErrorIs(t, session.Run(t.Context(), drain), queue.ErrClosed)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	assert.NoError(t, session.Run(stopped, drain), "after the stop")
}

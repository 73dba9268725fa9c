package queue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

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
	if err := session.Run(t.Context(), drain); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("error %v, want %v", err, queue.ErrClosed)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := session.Run(stopped, drain); err != nil {
		t.Errorf("error %v after the stop, want none", err)
	}
}

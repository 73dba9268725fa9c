package queue_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"

	"fanfare/internal/queue"
)

// ended is a subscriber whose subscriptions have already ended.
type ended struct{}

func (ended) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	in := make(chan *message.Message)
	close(in)
	return in, nil
}

func (ended) Close() error { return nil }

func TestSessionReportsASubscriptionThatEndsBeforeTheStop(t *testing.T) {
	t.Parallel()
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

// refusing is a subscriber that refuses a subscription, and keeps the context of the subscription.
type refusing struct{ subscription context.Context }

func (r *refusing) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	r.subscription = ctx
	return nil, queue.ErrClosed
}

func (*refusing) Close() error { return nil }

func TestSessionWhoseSubscriptionIsRefusedLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	subscriber := new(refusing)
	session := queue.Session{Subscriber: subscriber, Topic: queue.TopicLikes}
	err := session.Run(t.Context(), func(context.Context, <-chan *message.Message) { t.Error("it works on nothing") })
	assert.ErrorIs(t, err, queue.ErrClosed)
	assert.ErrorIs(t, subscriber.subscription.Err(), context.Canceled)
}

func TestAMessageThatIsHandedBackComesAgainAtOnce(t *testing.T) {
	t.Parallel()
	msg, receive := message.NewMessage("id", nil), queue.NewReceive(7)
	msg.SetContext(queue.WithReceive(t.Context(), receive))
	queue.HandBack(msg)
	<-msg.Nacked()
	assert.Zero(t, receive.Delay())
}

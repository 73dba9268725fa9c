package likeagg

import (
	"testing"
	"time"

	"fanfare/internal/feed/access"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// api publishes the events of a feed.Service to the queue of a world.
type api struct{ *fakeQueue }

func (a api) Publish(_ string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		a.publish(msg.Payload)
	}
	return nil
}

// TestTheUsersNextClickOverridesALikeFromAhead stores a like whose version is ahead of the API's clock. Each
// later click of the user has to win over that like, and over all earlier clicks.
func TestTheUsersNextClickOverridesALikeFromAhead(t *testing.T) {
	for name, tt := range map[string]struct {
		shards int
		clicks []bool // liked or not, a millisecond apart
	}{
		"one click":      {1, []bool{false}},
		"a sharded list": {3, []bool{false}},
		"quick clicks":   {1, []bool{false, true, false, true, false, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			step(t, func(w *world) {
				w.post = w.newPost(schema.PostRef{LikeShards: tt.shards})
				_, err := w.mem.Put(w.t.Context(), table.PutInput{Item: schema.Profile{User: "alice", Name: "Alice"}.Item()})
				require.NoError(t, err)
				service := feed.New(feed.Config{
					Access: access.New(access.Config{
						Store: w.mem, Publisher: api{w.queue}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour),
					}),
				})
				w.run()
				ahead := id.Floor(time.Now().Add(messages.MaxAhead - time.Second))
				w.queue.publish(encode(ahead, w.post, "alice", "like"))
				w.settle()
				w.wantCount(1)
				for _, liked := range tt.clicks {
					act := service.Unlike
					if liked {
						act = service.Like
					}
					require.NoError(t, act(w.t.Context(), "alice", w.post))
					pass(time.Millisecond)
				}
				w.settle()
				w.wantCount(0)
			})
		})
	}
}

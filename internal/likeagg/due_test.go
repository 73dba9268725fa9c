package likeagg

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
)

// The due time of a like is the time when the like was made, but not before the time of its post.
func TestALikeIsDueWithItsPost(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	for ahead, want := range map[time.Duration]time.Time{-time.Hour: now, time.Minute: now.Add(time.Minute)} {
		msg := message.NewMessage("m", encode(id.Floor(now), id.Floor(now.Add(ahead)), "ann", "like"))
		msg.SetContext(queue.WithReceive(t.Context(), queue.NewReceive(1)))
		_, _, err := newCollector(Config{}.withDefaults()).decode(msg)
		require.NoError(t, err)
		var got queue.Answered
		queue.Answerer{Log: zap.NewNop(), Observe: func(a queue.Answered) { got = a }}.Answer(t.Context(), msg, nil, false)
		assert.Equal(t, want, got.Due.UTC(), "of a post %s ahead", ahead)
	}
}

// The aggregator reports a like when it receives the like, so that a like whose window hangs is visible.
func TestALikeIsNotedWhenItIsReceived(t *testing.T) {
	var noted []string
	c := newCollector(Config{Taken: func(id string) { noted = append(noted, id) }}.withDefaults())
	now := id.Floor(time.Now())
	c.take(t.Context(), message.NewMessage("m", encode(now, now, "ann", "like")))
	assert.Equal(t, []string{"m"}, noted)
}

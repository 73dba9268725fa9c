package producer_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/messages"
	"fanfare/producer"
)

const aPost = "01JD8QJ4WY0000000000000002"

func TestEventsHaveTheirQueueAndGroupAndDecode(t *testing.T) {
	p := producer.New()
	post, err := p.Post("ann", "Hello")
	require.NoError(t, err)
	like, err := p.Like("bob", post.PostID)
	require.NoError(t, err)
	unlike, err := p.Unlike("bob", post.PostID)
	require.NoError(t, err)
	assert.Greater(t, unlike.EventID, like.EventID, "the later action has the lower id")
	for _, row := range []struct {
		event        messages.Event
		topic, group string
	}{
		{post, queue.TopicPosts, "ann"},
		{like, queue.TopicLikes, post.PostID},
		{unlike, queue.TopicLikes, post.PostID},
	} {
		msg, err := producer.Encode(row.event)
		require.NoError(t, err)
		assert.Equal(t, row.topic, msg.Topic)
		assert.Equal(t, "team-"+row.topic, msg.Queue("team"))
		assert.Equal(t, row.group, msg.Group)
		assert.Equal(t, row.event.Head().EventID, msg.ID)
		back, err := messages.Decode(msg.Payload)
		require.NoError(t, err)
		assert.Equal(t, row.event, back)
		assert.True(t, id.Valid(msg.ID))
	}
	assert.Equal(t, queue.MetaGroup, producer.AttributeGroup)
}

func TestEventsThatNoConsumerAcceptsAreRefused(t *testing.T) {
	p := producer.New()
	for name, change := range map[string]func(*messages.PostCreated) messages.Event{
		"no author":      func(e *messages.PostCreated) messages.Event { e.AuthorID = ""; return e },
		"no text":        func(e *messages.PostCreated) messages.Event { e.Content = messages.Content{}; return e },
		"long text":      func(e *messages.PostCreated) messages.Event { e.Text = strings.Repeat("é", 5001); return e },
		"text not UTF-8": func(e *messages.PostCreated) messages.Event { e.Text = "\xff"; return e },
		"image": func(e *messages.PostCreated) messages.Event {
			e.Images = []messages.Image{{URL: "javascript:alert(1)"}}
			return e
		},
		"image with a user": func(e *messages.PostCreated) messages.Event {
			e.Images = []messages.Image{{URL: "https://a:b@example.com/"}}
			return e
		},
		"image with a space": func(e *messages.PostCreated) messages.Event {
			e.Images = []messages.Image{{URL: "https://example.com/a b"}}
			return e
		},
		"image that turns text": func(e *messages.PostCreated) messages.Event {
			e.Images = []messages.Image{{URL: "https://example.com/\u202egnp.exe"}}
			return e
		},
		"kind":          func(e *messages.PostCreated) messages.Event { e.Kind = "Album"; return e },
		"data":          func(e *messages.PostCreated) messages.Event { e.Data = `[]`; return e },
		"mention twice": func(e *messages.PostCreated) messages.Event { e.Mentions = []string{"a", "a"}; return e },
		"no event":      func(*messages.PostCreated) messages.Event { return nil },
		"nil event":     func(*messages.PostCreated) messages.Event { return (*messages.PostCreated)(nil) },
		"like without post": func(e *messages.PostCreated) messages.Event {
			return &messages.Liked{Like: messages.Like{Header: e.Header, UserID: "a"}}
		},
		"an internal event": func(e *messages.PostCreated) messages.Event { return &messages.Seen{Header: e.Header, UserID: "a"} },
		"an event to others": func(e *messages.PostCreated) messages.Event {
			return &messages.PostDelivered{Header: e.Header, PostID: aPost, AuthorID: "a"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			good, err := p.Post("ann", strings.Repeat("é", 5000))
			require.NoError(t, err)
			good.Images = []messages.Image{{URL: "https://example.com/a.png"}}
			_, err = producer.Encode(good)
			require.NoError(t, err)
			_, err = producer.Encode(change(good))
			assert.Error(t, err)
		})
	}
}

func TestBadIDsAreRefusedWhereTheyAreGiven(t *testing.T) {
	p := producer.New()
	_, err := p.Post("a b", "")
	require.ErrorContains(t, err, "author_id")
	require.ErrorContains(t, err, "text")
	for _, user := range []string{"", "a b", strings.Repeat("u", 65), "ann\n"} {
		_, err = p.Post(user, "Hello")
		require.ErrorContains(t, err, "author_id", "%q", user)
		_, err = p.Like(user, aPost)
		require.ErrorContains(t, err, "user_id", "%q", user)
		_, err = p.Unlike(user, aPost)
		require.ErrorContains(t, err, "user_id", "%q", user)
	}
	_, err = p.Like("bob", "no post")
	require.ErrorContains(t, err, "post_id")
	_, err = p.Unlike("a b", "")
	require.ErrorContains(t, err, "post_id")
	require.ErrorContains(t, err, "user_id")
}

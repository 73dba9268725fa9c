// Package producer helps programs outside Fanfare to send posts and likes to Fanfare. It makes events with
// their ids, and encodes each event with the name of its queue and its group key. The caller sends the messages
// with any client of SQS: docs/PRODUCERS.md shows Watermill's client and boto3. The package must never send
// anything, and knows no queue, no table and no AWS.
//
// Send an event until SQS has accepted it, and send the same event each time: consumers apply an event once, by
// its ids, however often it arrives. This package refuses an event that no consumer would accept, so that the
// event does not become a dead letter.
//
//	p := producer.New()
//	post, err := p.Post("ann", "Hello")
//	msg, err := producer.Encode(post)
//	// msg.Payload goes to the queue msg.Queue("fanfare"), with the group key msg.Group
package producer

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"fanfare/internal/id"
	"fanfare/messages"
)

// These are the topics that accept events of other producers.
const (
	TopicPosts = "posts"
	TopicLikes = "likes"
)

// These are the message attributes that consumers read. Both are optional.
const (
	// AttributeID holds the id of a message, for logs and dead letters. Watermill sets it.
	AttributeID = "_watermill_message_uuid"
	// AttributeGroup holds the group key, which a redrive of a dead letter needs.
	AttributeGroup = "group"
)

// Producer makes events with ascending ids, so a process needs only one Producer. Goroutines may share a
// Producer.
type Producer struct {
	ids *id.Generator
	now func() time.Time
}

// New returns a producer that uses the clock of this machine.
func New() *Producer { return &Producer{id.NewGenerator(time.Now), time.Now} }

// Post returns the event of a new post. The event's PostID is the id of the post and contains the time of
// the post. Keep the event, and send the same event again if a send fails. The caller may set Images,
// Kind, Data, Mentions and ExpiresAt. Post refuses an invalid author or text, and the error names
// each fault.
func (p *Producer) Post(author, text string) (*messages.PostCreated, error) {
	post, err := p.ids.New()
	if err != nil {
		return nil, err
	}
	head, err := p.header()
	if err != nil {
		return nil, err
	}
	return checked(&messages.PostCreated{Header: head, PostID: post, AuthorID: author, Content: messages.Content{Text: text}})
}

// Like returns the event of a user who likes a post. If there are several events of a user and a post,
// the event with the highest id counts, whatever the order of arrival is. Like refuses an invalid user id
// or post id, and the error names each fault.
func (p *Producer) Like(user, post string) (*messages.Liked, error) {
	head, err := p.header()
	if err != nil {
		return nil, err
	}
	return checked(&messages.Liked{Like: messages.Like{Header: head, PostID: post, UserID: user}})
}

// React returns the event of a user whose reaction to a post has a kind other than like.
// FANFARE_REACTIONS must contain the kind. The reaction replaces the user's previous reaction. React
// refuses the same ids as Like.
func (p *Producer) React(user, post, kind string) (*messages.Reacted, error) {
	head, err := p.header()
	if err != nil {
		return nil, err
	}
	return checked(&messages.Reacted{Like: messages.Like{Header: head, PostID: post, UserID: user}, Reaction: kind})
}

// Unlike returns the event of a user who takes a reaction of any kind back. It refuses the same ids as
// Like.
func (p *Producer) Unlike(user, post string) (*messages.Unliked, error) {
	head, err := p.header()
	if err != nil {
		return nil, err
	}
	return checked(&messages.Unliked{Like: messages.Like{Header: head, PostID: post, UserID: user}})
}

func (p *Producer) header() (messages.Header, error) {
	event, err := p.ids.New()
	return messages.Header{EventID: event, Time: p.now().UTC()}, err
}

// checked returns the event if Encode accepts it, so that an invalid id is refused early.
func checked[E messages.Event](e E) (E, error) {
	if _, err := Encode(e); err != nil {
		var none E
		return none, err
	}
	return e, nil
}

// Message is an encoded event for a queue.
type Message struct {
	Topic string
	// ID is the id of the event.
	ID string
	// Group is the key by which queues are fair. Send it as the MessageGroupId.
	Group string
	// Payload is the JSON of the event. Send it as the body of the SQS message.
	Payload []byte
}

// Queue returns the name of the SQS queue of m, for a value of FANFARE_QUEUE_PREFIX.
func (m Message) Queue(prefix string) string { return prefix + "-" + m.Topic }

// Encode encodes an event for its queue. It refuses events that consumers would refuse.
func Encode(e messages.Event) (Message, error) {
	topic := TopicLikes
	var bad error
	switch e := e.(type) {
	case *messages.PostCreated:
		if topic = TopicPosts; e != nil {
			bad = checkPost(e)
		}
	case *messages.Liked, *messages.Unliked, *messages.Reacted:
	default:
		return Message{}, fmt.Errorf("encode %T: other producers send PostCreated, Liked, Unliked and Reacted only", e)
	}
	payload, err := messages.Encode(e)
	if err = errors.Join(err, bad); err != nil {
		return Message{}, err
	}
	return Message{Topic: topic, ID: e.Head().EventID, Group: messages.GroupOf(e), Payload: payload}, nil
}

func checkPost(e *messages.PostCreated) error {
	var errs []error
	e.CheckShown(func(field, detail string) {
		errs = append(errs, fmt.Errorf("encode PostCreated: %s %s", field, detail))
	})
	if n := utf8.RuneCountInString(e.Text); n > messages.MaxText || !utf8.ValidString(e.Text) {
		errs = append(errs, fmt.Errorf("encode PostCreated: text has %d characters: it must be UTF-8 of at most %d", n, messages.MaxText))
	}
	return errors.Join(errs...)
}

package notify

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Recipient returns the user that an event notifies, "" for none. The user is the group of the event on
// the topic. No user is notified of the user's own actions.
func Recipient(e messages.Event) string {
	about, action := read(e)
	if about.user == action.act.User {
		return ""
	}
	return about.user
}

// Sender returns the sender of events to the topic of notices. It drops events that
// notify nobody.
func Sender(send func(context.Context, ...messages.Event) error) func(context.Context, ...messages.Event) error {
	return func(ctx context.Context, events ...messages.Event) error {
		notices := slices.DeleteFunc(slices.Clone(events), func(e messages.Event) bool { return Recipient(e) == "" })
		if len(notices) == 0 {
			return nil
		}
		return send(ctx, notices...)
	}
}

// subject names a notification: the recipient, the kind and the target.
type subject struct {
	user   string
	kind   schema.NoticeKind
	target string
}

// action is an action together with its message.
type action struct {
	act schema.Act
	// comment, if not "", is the comment that is the action, or the comment that has the mention.
	comment string
	at      time.Time
	msg     *message.Message
	// err is the reason why the message is redelivered. done means that the table refutes the action.
	err  error
	done bool
}

// read returns the notification of an event, and the event's action. For any other kind of event, both are empty.
func read(e messages.Event) (subject, action) {
	version := e.Head().EventID
	switch e := e.(type) {
	case *messages.LikeCounted:
		return subject{e.AuthorID, schema.NoticeLike, e.PostID}, action{act: schema.Act{Version: version, State: e.Reaction, User: e.UserID}}
	case *messages.Commented:
		return subject{e.AuthorID, schema.NoticeComment, e.PostID},
			action{act: schema.Act{Version: e.CommentID, State: there(e.Deleted), User: e.UserID}, comment: e.CommentID}
	case *messages.Followed: // the sender has replaced the mark's version by the id of the follow
		return subject{e.AuthorID, schema.NoticeFollow, ""}, action{act: schema.Act{Version: e.MarkVersion, State: schema.ActHolds, User: e.FollowerID}}
	case *messages.Unfollowed:
		return subject{e.AuthorID, schema.NoticeFollow, ""}, action{act: schema.Act{Version: e.MarkVersion, User: e.FollowerID}}
	case *messages.Mentioned:
		return subject{e.UserID, schema.NoticeMention, e.PostID},
			action{act: schema.Act{Version: cmp.Or(e.CommentID, e.PostID), State: there(e.Deleted), User: e.ActorID}, comment: e.CommentID}
	case *messages.Reposted:
		return subject{e.AuthorID, schema.NoticeRepost, e.PostID}, action{act: schema.Act{Version: e.RepostID, State: there(e.Deleted), User: e.UserID}}
	}
	return subject{}, action{}
}

// record returns the key of the item that shows whether the action happened, if the event was sent before the action.
func (a *action) record(about subject) (key table.Key, early bool) {
	switch {
	case a.comment != "":
		return schema.CommentKey(about.target, a.comment), true
	case about.kind == schema.NoticeRepost:
		return schema.PostByIDKey(a.act.Version), true
	case about.kind == schema.NoticeFollow && !a.act.Holds():
		return schema.MarkKey(a.act.User, about.user), true
	}
	return table.Key{}, false
}

func there(deleted bool) string {
	if deleted {
		return ""
	}
	return schema.ActHolds
}

// decode returns the notification and the action of a message. The user is "" if the message
// notifies nobody. After an error, a retry helps only if the error depends on the time.
func (cfg *Config) decode(msg *message.Message) (about subject, a *action, err error) {
	event, err := queue.Event(msg)
	if err != nil {
		return subject{}, nil, err
	}
	head := event.Head()
	if err := cfg.Clock.CheckAge("event_id", head.EventID, cfg.Now()); err != nil {
		return subject{}, nil, err
	}
	about, read := read(event)
	if about.kind == "" {
		return subject{}, nil, messages.Permanent(messages.ReasonWrongTopic, "%s on %s", messages.KindOf(event), queue.TopicNotices)
	}
	if about.user == read.act.User {
		about.user = ""
	}
	read.msg = msg
	read.at, err = id.Time(head.EventID)
	return about, &read, err
}

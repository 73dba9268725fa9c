package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/internal/strictjson"
	"fanfare/messages"
)

// DeadLetter is a dead letter as the admin address shows it.
type DeadLetter struct {
	ID       string    `json:"id"`
	Topic    string    `json:"topic"`
	Reason   string    `json:"reason"`
	FailedAt time.Time `json:"failed_at"`
	Receives int       `json:"receives"`
	// Type and User are the type and the user of the event. They are absent if the payload
	// is not an event.
	Type     string           `json:"type,omitempty"`
	User     string           `json:"user,omitempty"`
	Metadata message.Metadata `json:"metadata,omitempty"`
	Payload  string           `json:"payload,omitempty"`
	// Raw is the payload (base64 in JSON) if it is not text.
	Raw []byte `json:"payload_base64,omitempty"`
}

// Selection names dead letters of a topic: the letters in IDs, or, without IDs, all letters that match the
// remaining fields.
type Selection struct {
	IDs []string `json:"ids,omitempty"`
	All bool     `json:"all,omitempty"`
	// Reason is a part of the reason, whatever its case.
	Reason string `json:"reason,omitempty"`
	// Before and After bound the time of the failure.
	Before time.Time `json:"before,omitzero"`
	After  time.Time `json:"after,omitzero"`
	// Limit is the maximum number of letters that a redrive sends, 0 for no limit, or that a list looks at.
	Limit int `json:"limit,omitempty"`
}

// Filtered reports whether s selects letters by their reason or age.
func (s Selection) Filtered() bool {
	return s.Reason != "" || !s.Before.IsZero() || !s.After.IsZero()
}

// Means reports whether s selects the reason and the age of a letter.
func (s Selection) Means(l DeadLetter) bool { return s.matches(l.Reason, l.FailedAt) }

func (s Selection) matches(reason string, failed time.Time) bool {
	return strings.Contains(strings.ToLower(reason), strings.ToLower(s.Reason)) &&
		(s.Before.IsZero() || failed.Before(s.Before)) && (s.After.IsZero() || failed.After(s.After))
}

// fault returns the fault of a selection for a change, "" if there is no fault.
func (s Selection) fault() string {
	switch {
	case s.All == (len(s.IDs) > 0):
		return "give either ids, or \"all\": true for all dead letters of the topic"
	case len(s.IDs) > 0 && (s.Filtered() || s.Limit != 0):
		return "reason, before, after and limit need \"all\": true"
	case s.Limit < 0:
		return "limit is negative"
	}
	return ""
}

// Redriven counts the sent and the refused letters of a redrive.
type Redriven struct {
	Sent    int `json:"sent"`
	Refused int `json:"refused"`
}

// list reads up to in.Limit dead letters, and returns the letters that in selects.
func list(ctx context.Context, d Domain, in Letters) ([]DeadLetter, error) {
	letters, err := d.Letters.ListDead(ctx, in.Topic, in.Limit)
	if err != nil {
		return nil, err
	}
	out := []DeadLetter{}
	for i := range letters {
		if l := &letters[i]; l.Selected(in.IDs) && in.matches(l.Reason, l.FailedAt) {
			out = append(out, shown(l))
		}
	}
	return out, nil
}

// shown returns a letter for people. A letter of an event has the type and the user of the
// event. A payload that is not text is shown as bytes.
func shown(l *queue.DeadLetter) DeadLetter {
	d := DeadLetter{ID: l.ID, Topic: l.Topic, Reason: l.Reason, FailedAt: l.FailedAt, Receives: l.Receives, Metadata: l.Metadata}
	var event struct {
		Type       string `json:"type"`
		UserID     string `json:"user_id"`
		FollowerID string `json:"follower_id"`
		AuthorID   string `json:"author_id"`
	}
	if strictjson.Unmarshal(l.Payload, &event) == nil { // an event of a later version passes, too
		d.Type, d.User = event.Type, cmp.Or(event.UserID, event.FollowerID, event.AuthorID)
	}
	if utf8.Valid(l.Payload) {
		d.Payload = string(l.Payload)
	} else {
		d.Raw = l.Payload
	}
	return d
}

// redrive sends the selected letters to the topic again. Letters that are too old stay.
func redrive(ctx context.Context, d Domain, s Letters) (Changed, error) {
	chosen := 0
	sent, refused, err := d.Letters.Redrive(ctx, s.Topic, s.IDs, func(l queue.DeadLetter) error {
		if !s.matches(l.Reason, l.FailedAt) {
			return queue.ErrNotMeant
		}
		if s.Limit > 0 && chosen == s.Limit {
			return queue.ErrEnough
		}
		err := tooOld(l, d.Now())
		if err == nil {
			chosen++
		}
		return err
	})
	return Changed{Redriven: Redriven{sent, refused}}, err
}

// tooOld returns an error for an event that every consumer refuses because of its age.
func tooOld(l queue.DeadLetter, now time.Time) error {
	event, err := messages.Decode(l.Payload)
	if err != nil {
		return nil //nolint:nilerr // a consumer of another version may understand the message
	}
	err = messages.CheckAge(event, now)
	if _, early := errors.AsType[*messages.EarlyError](err); early {
		return nil // consumers hand the message back until it is due
	}
	return err
}

// drop removes the selected letters for good.
func drop(ctx context.Context, d Domain, s Letters) (Changed, error) {
	if !s.Filtered() {
		dropped, err := d.Letters.DropDead(ctx, s.Topic, s.IDs)
		return Changed{Dropped: dropped}, err
	}
	for dropped := 0; ; {
		letters, err := d.Letters.ListDead(ctx, s.Topic, MaxDeadLetters)
		if err != nil {
			return Changed{Dropped: dropped}, err
		}
		var ids []string
		for i := range letters {
			if s.matches(letters[i].Reason, letters[i].FailedAt) {
				ids = append(ids, letters[i].ID)
			}
		}
		if len(ids) == 0 && len(letters) == MaxDeadLetters {
			return Changed{Dropped: dropped}, fmt.Errorf("the first %d dead letters of %s have another reason or age, and there may be more: redrive or drop some, and do this again", MaxDeadLetters, s.Topic)
		}
		if len(ids) == 0 {
			return Changed{Dropped: dropped}, nil
		}
		n, err := d.Letters.DropDead(ctx, s.Topic, ids)
		dropped += n
		if err != nil || n == 0 {
			return Changed{Dropped: dropped}, err
		}
	}
}

// Changed counts the letters of a redrive or of a drop.
type Changed struct {
	Redriven
	Dropped int `json:"dropped"`
}

// MaxDeadLetters is the maximum number of letters in one list.
const MaxDeadLetters = 1000

// Letters selects dead letters of a topic.
type Letters struct {
	Topic string `json:"-"`
	Selection
}

// ListLetters lists dead letters of a topic.
func ListLetters() Op[Letters, []DeadLetter] {
	return Op[Letters, []DeadLetter]{
		Route: "GET /admin/dead-letters/{topic}",
		Params: func(in *Letters) []Param {
			return []Param{
				{Name: "topic", At: &in.Topic}, {Name: "limit", At: &in.Limit},
				{Name: "reason", At: &in.Reason}, {Name: "before", At: &in.Before}, {Name: "after", At: &in.After},
			}
		},
		Has: hasLetters,
		Check: func(in Letters) error {
			if in.Limit < 1 || in.Limit > MaxDeadLetters {
				return invalid("limit must be 1 to %d", MaxDeadLetters)
			}
			return knownTopic(in.Topic)
		},
		Run: list,
	}
}

// Redrive sends dead letters to their topic again.
func Redrive() Op[Letters, Changed] {
	return Op[Letters, Changed]{
		Name: "redrive", Route: "POST /admin/dead-letters/{topic}/redrive", Form: letterForm,
		Params: letterParams, Has: hasLetters, Check: Letters.check, Run: redrive,
		Note: func(in Letters, done Changed) (int, []zap.Field) {
			return done.Sent, append(in.fields(), zap.Int("sent", done.Sent), zap.Int("refused", done.Refused))
		},
	}
}

// Drop removes dead letters for good.
func Drop() Op[Letters, Changed] {
	return Op[Letters, Changed]{
		Name: "drop", Route: "POST /admin/dead-letters/{topic}/drop", Form: letterForm,
		Params: letterParams, Has: hasLetters, Check: Letters.check, Run: drop,
		Note: func(in Letters, done Changed) (int, []zap.Field) {
			return done.Dropped, append(in.fields(), zap.Int("dropped", done.Dropped))
		},
	}
}

const letterForm = `{"ids": […]} or {"all": true}`

func letterParams(in *Letters) []Param { return []Param{{Name: "topic", At: &in.Topic}} }

func hasLetters(d Domain) bool { return d.Letters != nil }

func knownTopic(topic string) error {
	if !slices.Contains(queue.Topics(), topic) {
		return &RefusalError{http.StatusNotFound, fmt.Sprintf("there is no topic %q: use one of %v", topic, queue.Topics())}
	}
	return nil
}

func (in Letters) check() error {
	if fault := in.fault(); fault != "" {
		return invalid("%s", fault)
	}
	return knownTopic(in.Topic)
}

// fields describes the selection, but omits the text of its reason, which may come from a
// payload.
func (in Letters) fields() []zap.Field {
	return []zap.Field{zap.String("topic", in.Topic), zap.Int("ids", len(in.IDs)), zap.Bool("all", in.All), zap.Bool("by_reason", in.Reason != "")}
}

package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/queue"
	"fanfare/internal/rfc3339"
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
	// Limit is the maximum number of letters that a redrive sends; 0 is no limit.
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

// Operator works on dead letters: on the letters of a broker, or through the admin address
// of the process that has the broker.
type Operator interface {
	// List reads up to limit dead letters of a topic, and returns the letters that s
	// selects.
	List(ctx context.Context, topic string, s Selection, limit int) ([]DeadLetter, error)
	// Redrive sends the selected letters to the topic again. Letters that are too old stay.
	Redrive(ctx context.Context, topic string, s Selection) (Redriven, error)
	// Drop removes the selected letters for good.
	Drop(ctx context.Context, topic string, s Selection) (dropped int, err error)
}

// Redriven counts the sent and the refused letters of a redrive.
type Redriven struct {
	Sent    int `json:"sent"`
	Refused int `json:"refused"`
}

// NewOperator returns an Operator on a broker.
func NewOperator(broker queue.DeadLetters, now func() time.Time) Operator {
	return &brokerLetters{broker, now}
}

type brokerLetters struct {
	broker queue.DeadLetters
	now    func() time.Time
}

func (b *brokerLetters) List(ctx context.Context, topic string, s Selection, limit int) ([]DeadLetter, error) {
	letters, err := b.broker.ListDead(ctx, topic, limit)
	if err != nil {
		return nil, err
	}
	out := []DeadLetter{}
	for i := range letters {
		if l := &letters[i]; l.Selected(s.IDs) && s.matches(l.Reason, l.FailedAt) {
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

func (b *brokerLetters) Redrive(ctx context.Context, topic string, s Selection) (Redriven, error) {
	chosen := 0
	sent, refused, err := b.broker.Redrive(ctx, topic, s.IDs, func(l queue.DeadLetter) error {
		if !s.matches(l.Reason, l.FailedAt) {
			return queue.ErrNotMeant
		}
		if s.Limit > 0 && chosen == s.Limit {
			return queue.ErrEnough
		}
		err := b.tooOld(l)
		if err == nil {
			chosen++
		}
		return err
	})
	return Redriven{sent, refused}, err
}

// tooOld returns an error for an event that every consumer refuses because of its age.
func (b *brokerLetters) tooOld(l queue.DeadLetter) error {
	event, err := messages.Decode(l.Payload)
	if err != nil {
		return nil //nolint:nilerr // a consumer of another version may understand the message
	}
	err = messages.CheckAge(event, b.now())
	if _, early := errors.AsType[*messages.EarlyError](err); early {
		return nil // consumers hand the message back until it is due
	}
	return err
}

func (b *brokerLetters) Drop(ctx context.Context, topic string, s Selection) (int, error) {
	if !s.Filtered() {
		return b.broker.DropDead(ctx, topic, s.IDs)
	}
	for dropped := 0; ; {
		letters, err := b.broker.ListDead(ctx, topic, MaxDeadLetters)
		if err != nil {
			return dropped, err
		}
		var ids []string
		for i := range letters {
			if s.matches(letters[i].Reason, letters[i].FailedAt) {
				ids = append(ids, letters[i].ID)
			}
		}
		if len(ids) == 0 && len(letters) == MaxDeadLetters {
			return dropped, fmt.Errorf("the first %d dead letters of %s have another reason or age, and there may be more: redrive or drop some, and do this again", MaxDeadLetters, topic)
		}
		if len(ids) == 0 {
			return dropped, nil
		}
		n, err := b.broker.DropDead(ctx, topic, ids)
		dropped += n
		if err != nil || n == 0 {
			return dropped, err
		}
	}
}

// MaxDeadLetters is the maximum number of letters in one list.
const MaxDeadLetters = 1000

type deadLetterAnswer struct {
	Redriven
	Dropped int `json:"dropped"`
}

// handleDeadLetters adds the operations on dead letters to mux. The admin address needs no
// token, so handleDeadLetters refuses changes from cross-origin pages.
func handleDeadLetters(mux *http.ServeMux, letters Operator) {
	guard := http.NewCrossOriginProtection()
	mux.HandleFunc("GET /admin/dead-letters/{topic}", func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || limit < 1 || limit > MaxDeadLetters {
			http.Error(w, fmt.Sprintf("limit must be 1 to %d", MaxDeadLetters), http.StatusUnprocessableEntity)
			return
		}
		s, err := filter(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		answer(w, r, func(ctx context.Context, topic string) (any, error) { return letters.List(ctx, topic, s, limit) })
	})
	mux.Handle("POST /admin/dead-letters/{topic}/redrive", guard.Handler(change(func(ctx context.Context, topic string, s Selection) (any, error) {
		redriven, err := letters.Redrive(ctx, topic, s)
		return deadLetterAnswer{Redriven: redriven}, err
	})))
	mux.Handle("POST /admin/dead-letters/{topic}/drop", guard.Handler(change(func(ctx context.Context, topic string, s Selection) (any, error) {
		dropped, err := letters.Drop(ctx, topic, s)
		return deadLetterAnswer{Dropped: dropped}, err
	})))
}

// filter returns the selection of a query.
func filter(query url.Values) (s Selection, err error) {
	s.Reason = query.Get("reason")
	for name, at := range map[string]*time.Time{"before": &s.Before, "after": &s.After} {
		if text := query.Get(name); text != "" {
			if *at, err = rfc3339.Parse(text); err != nil {
				return s, fmt.Errorf("%s %w", name, err)
			}
		}
	}
	return s, nil
}

func change(do func(ctx context.Context, topic string, s Selection) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in Selection
		if !read(w, r, &in, `{"ids": […]} or {"all": true}`) {
			return
		}
		if fault := in.fault(); fault != "" {
			http.Error(w, fault, http.StatusUnprocessableEntity)
			return
		}
		answer(w, r, func(ctx context.Context, topic string) (any, error) { return do(ctx, topic, in) })
	}
}

func answer(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, topic string) (any, error)) {
	topic := r.PathValue("topic")
	if !slices.Contains(queue.Topics(), topic) {
		http.Error(w, fmt.Sprintf("there is no topic %q: use one of %v", topic, queue.Topics()), http.StatusNotFound)
		return
	}
	out, err := do(r.Context(), topic)
	write(w, out, err)
}

// maxBody is the maximum size of a request's body, in bytes.
const maxBody = 1 << 20

// read decodes the body of a request. If the body is refused, read sends an error that
// shows the right form.
func read(w http.ResponseWriter, r *http.Request, in any, form string) bool {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = strictjson.UnmarshalKnown(text, in)
	}
	if err != nil {
		http.Error(w, "the body must be "+form+": "+err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func write(w http.ResponseWriter, out any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A failed write means that the client is gone.
	_ = json.NewEncoder(w).Encode(out)
}

// List implements Operator.
func (c *Client) List(ctx context.Context, topic string, s Selection, limit int) ([]DeadLetter, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if s.Reason != "" {
		query.Set("reason", s.Reason)
	}
	for name, at := range map[string]time.Time{"before": s.Before, "after": s.After} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	var out []DeadLetter
	err := c.call(ctx, http.MethodGet, "/admin/dead-letters/"+url.PathEscape(topic)+"?"+query.Encode(), nil, &out)
	return out, err
}

// Redrive implements Operator.
func (c *Client) Redrive(ctx context.Context, topic string, s Selection) (Redriven, error) {
	var out deadLetterAnswer
	err := c.call(ctx, http.MethodPost, "/admin/dead-letters/"+url.PathEscape(topic)+"/redrive", s, &out)
	return out.Redriven, err
}

// Drop implements Operator.
func (c *Client) Drop(ctx context.Context, topic string, s Selection) (int, error) {
	var out deadLetterAnswer
	err := c.call(ctx, http.MethodPost, "/admin/dead-letters/"+url.PathEscape(topic)+"/drop", s, &out)
	return out.Dropped, err
}

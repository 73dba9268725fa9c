package admin

import (
	"bytes"
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

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/queue"
	"fanfare/messages"
)

// DeadLetter is a dead letter as the admin address shows it.
type DeadLetter struct {
	ID       string           `json:"id"`
	Topic    string           `json:"topic"`
	Reason   string           `json:"reason"`
	FailedAt time.Time        `json:"failed_at"`
	Receives int              `json:"receives"`
	Metadata message.Metadata `json:"metadata,omitempty"`
	Payload  string           `json:"payload,omitempty"`
}

// Operator works on dead letters: on a broker, or through the admin address of the
// process that owns the broker.
type Operator interface {
	// List returns up to limit dead letters of a topic.
	List(ctx context.Context, topic string, limit int) ([]DeadLetter, error)
	// Redrive sends the letters in ids again, or all of them. Letters that are too old stay.
	Redrive(ctx context.Context, topic string, ids []string) (Redriven, error)
	// Drop removes the letters in ids, or all of them, for good.
	Drop(ctx context.Context, topic string, ids []string) (dropped int, err error)
}

// Redriven counts the letters of a redrive.
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

func (b *brokerLetters) List(ctx context.Context, topic string, limit int) ([]DeadLetter, error) {
	letters, err := b.broker.ListDead(ctx, topic, limit)
	if err != nil {
		return nil, err
	}
	out := make([]DeadLetter, len(letters))
	for i, l := range letters {
		out[i] = DeadLetter{l.ID, l.Topic, l.Reason, l.FailedAt, l.Receives, l.Metadata, string(l.Payload)}
	}
	return out, nil
}

func (b *brokerLetters) Redrive(ctx context.Context, topic string, ids []string) (Redriven, error) {
	sent, refused, err := b.broker.Redrive(ctx, topic, ids, func(l queue.DeadLetter) error {
		event, err := messages.Decode(l.Payload)
		if err != nil {
			return nil //nolint:nilerr // a consumer of another version may understand the message
		}
		err = messages.CheckAge(event, b.now())
		if _, early := errors.AsType[*messages.EarlyError](err); early {
			return nil // consumers hand the message back until it is due
		}
		return err
	})
	return Redriven{sent, refused}, err
}

func (b *brokerLetters) Drop(ctx context.Context, topic string, ids []string) (int, error) {
	return b.broker.DropDead(ctx, topic, ids)
}

// MaxDeadLetters is the largest number of letters in one list.
const MaxDeadLetters = 1000

// deadLetterRequest selects dead letters. A request that selects none is a mistake.
type deadLetterRequest struct {
	IDs []string `json:"ids,omitempty"`
	All bool     `json:"all,omitempty"`
}

// selectIDs returns the request for ids, or for all letters if there are none.
func selectIDs(ids []string) deadLetterRequest {
	return deadLetterRequest{IDs: ids, All: len(ids) == 0}
}

type deadLetterAnswer struct {
	Redriven
	Dropped int `json:"dropped"`
}

// handleDeadLetters adds the operations on dead letters to mux. The address asks for no
// token, so a web page must not be able to change anything.
func handleDeadLetters(mux *http.ServeMux, letters Operator) {
	guard := http.NewCrossOriginProtection()
	mux.HandleFunc("GET /admin/dead-letters/{topic}", func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || limit < 1 || limit > MaxDeadLetters {
			http.Error(w, fmt.Sprintf("limit must be 1 to %d", MaxDeadLetters), http.StatusUnprocessableEntity)
			return
		}
		answer(w, r, func(ctx context.Context, topic string) (any, error) { return letters.List(ctx, topic, limit) })
	})
	mux.Handle("POST /admin/dead-letters/{topic}/redrive", guard.Handler(change(func(ctx context.Context, topic string, ids []string) (any, error) {
		redriven, err := letters.Redrive(ctx, topic, ids)
		return deadLetterAnswer{Redriven: redriven}, err
	})))
	mux.Handle("POST /admin/dead-letters/{topic}/drop", guard.Handler(change(func(ctx context.Context, topic string, ids []string) (any, error) {
		dropped, err := letters.Drop(ctx, topic, ids)
		return deadLetterAnswer{Dropped: dropped}, err
	})))
}

func change(do func(ctx context.Context, topic string, ids []string) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in deadLetterRequest
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil {
			http.Error(w, "the body must be {\"ids\": […]} or {\"all\": true}: "+err.Error(), http.StatusBadRequest)
			return
		}
		if in.All == (len(in.IDs) > 0) {
			http.Error(w, "give either ids, or \"all\": true for all dead letters of the topic", http.StatusUnprocessableEntity)
			return
		}
		answer(w, r, func(ctx context.Context, topic string) (any, error) { return do(ctx, topic, in.IDs) })
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

func write(w http.ResponseWriter, out any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A failed write means that the client is gone.
	_ = json.NewEncoder(w).Encode(out)
}

// Client calls the admin address of a running process.
type Client struct {
	base   string
	client *http.Client
}

// NewClient returns a client of the admin address addr (HOST:PORT).
func NewClient(addr string, client *http.Client) *Client {
	return &Client{"http://" + addr, client}
}

// List implements Operator.
func (c *Client) List(ctx context.Context, topic string, limit int) ([]DeadLetter, error) {
	var out []DeadLetter
	err := c.call(ctx, http.MethodGet, "/admin/dead-letters/"+url.PathEscape(topic)+"?limit="+strconv.Itoa(limit), nil, &out)
	return out, err
}

// Redrive implements Operator.
func (c *Client) Redrive(ctx context.Context, topic string, ids []string) (Redriven, error) {
	var out deadLetterAnswer
	err := c.call(ctx, http.MethodPost, "/admin/dead-letters/"+url.PathEscape(topic)+"/redrive", selectIDs(ids), &out)
	return out.Redriven, err
}

// Drop implements Operator.
func (c *Client) Drop(ctx context.Context, topic string, ids []string) (int, error) {
	var out deadLetterAnswer
	err := c.call(ctx, http.MethodPost, "/admin/dead-letters/"+url.PathEscape(topic)+"/drop", selectIDs(ids), &out)
	return out.Dropped, err
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := body(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("the admin address does not answer (is fanfare up running there? see --admin): %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return err
	}
	if res.StatusCode == notFound {
		return &NotFoundError{strings.TrimSpace(string(text))}
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d (is it the admin address of fanfare up? see --admin): %s", c.base, res.StatusCode, text)
	}
	return json.Unmarshal(text, out)
}

func body(in any) (io.Reader, error) {
	if in == nil {
		return http.NoBody, nil
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(text), nil
}

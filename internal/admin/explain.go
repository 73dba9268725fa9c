package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
)

// Explanation is the reason why a user's home shows a post or does not.
type Explanation struct {
	Post   string      `json:"post_id"`
	Author string      `json:"author_id"`
	InHome bool        `json:"in_home"`
	Reason home.Reason `json:"reason"`
	// Chunk is the number of the delivery's chunk with the user, 0 if the chunk is unknown.
	Chunk int `json:"chunk,omitempty"`
	// At is the time of the reason, nil if the reason has no time.
	At *time.Time `json:"at,omitempty"`
	// DeadLetter is the id of the dead letter that stopped the delivery. Topic is the topic
	// of the letter.
	DeadLetter string `json:"dead_letter,omitempty"`
	Topic      string `json:"topic,omitempty"`
	// Text is the reason as a sentence.
	Text string `json:"text"`
}

func explanation(x home.Explanation) Explanation {
	out := Explanation{
		Post: x.Post, Author: x.Author, InHome: x.Reason.Shown(), Reason: x.Reason, Chunk: x.Chunk,
		DeadLetter: x.Letter.ID, Topic: x.Letter.Topic, Text: x.String(),
	}
	if !x.At.IsZero() {
		out.At = new(x.At.UTC())
	}
	return out
}

// Explainer explains posts in homes: from the table and the queues, or through the admin
// address of a process that has them.
type Explainer interface {
	// Explain explains a post in user's home. If post is "", Explain explains the newest
	// posts of user's followees.
	Explain(ctx context.Context, user, post string) ([]Explanation, error)
	// Delivery returns the progress of a post.
	Delivery(ctx context.Context, post string) (delivery.Progress, error)
}

// NotFoundError means that a user or a post does not exist.
type NotFoundError struct{ Detail string }

func (e *NotFoundError) Error() string { return e.Detail }

// handleExplain adds the operations of an Explainer to mux.
func handleExplain(mux *http.ServeMux, e Explainer) {
	mux.HandleFunc("GET /admin/explain/{user}", func(w http.ResponseWriter, r *http.Request) {
		all, err := e.Explain(r.Context(), r.PathValue("user"), r.URL.Query().Get("post"))
		writeFound(w, all, err)
	})
	mux.HandleFunc("GET /admin/delivery/{post}", func(w http.ResponseWriter, r *http.Request) {
		d, err := e.Delivery(r.Context(), r.PathValue("post"))
		writeFound(w, d, err)
	})
}

// notFound is the status for a user or post that does not exist. It is not 404, because
// older versions without this route answer 404.
const notFound = http.StatusGone

func writeFound(w http.ResponseWriter, out any, err error) {
	if missing, ok := errors.AsType[*NotFoundError](err); ok {
		http.Error(w, missing.Detail, notFound)
		return
	}
	write(w, out, err)
}

// Explain implements Explainer.
func (c *Client) Explain(ctx context.Context, user, post string) ([]Explanation, error) {
	var out []Explanation
	err := c.call(ctx, http.MethodGet, fmt.Sprintf("/admin/explain/%s?post=%s", url.PathEscape(user), url.QueryEscape(post)), nil, &out)
	return out, err
}

// Delivery implements Explainer.
func (c *Client) Delivery(ctx context.Context, post string) (delivery.Progress, error) {
	var out delivery.Progress
	err := c.call(ctx, http.MethodGet, "/admin/delivery/"+url.PathEscape(post), nil, &out)
	return out, err
}

package daemon

import (
	"context"
	"errors"

	"fanfare/internal/admin"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/queue"
)

// explainer is the domain's Explain and deliveries as the admin address offers them.
type explainer struct {
	feed    *feed.Service
	letters queue.DeadLetters
}

func (e explainer) Explain(ctx context.Context, user, post string) ([]admin.Explanation, error) {
	if !id.ValidUser(user) {
		return nil, &admin.NotFoundError{Detail: "there is no such user: an id is " + id.UserGrammar}
	}
	if post != "" && !id.Valid(post) {
		return nil, errNoULID
	}
	all, err := e.feed.Explain(ctx, e.letters, user, post)
	if err != nil {
		return nil, notFound(err)
	}
	out := make([]admin.Explanation, len(all))
	for i, x := range all {
		out[i] = admin.Explanation{
			Post: x.Post, Author: x.Author, InHome: x.Reason.Shown(), Reason: string(x.Reason), Chunk: x.Chunk,
			DeadLetter: x.Letter.ID, Topic: x.Letter.Topic, Text: x.String(),
		}
		if !x.At.IsZero() {
			out[i].At = new(x.At.UTC())
		}
	}
	return out, nil
}

func (e explainer) Delivery(ctx context.Context, post string) (admin.Delivery, error) {
	if !id.Valid(post) {
		return admin.Delivery{}, errNoULID
	}
	d, err := e.feed.AnyDelivery(ctx, post)
	return admin.Delivery{
		State: string(d.State), Planned: d.Planned, Delivered: d.Delivered, Skipped: d.Skipped, ChunksDone: d.ChunksDone, ChunksTotal: d.ChunksTotal,
		AcceptedAt: d.AcceptedAt, StartedAt: d.StartedAt, CompletedAt: d.CompletedAt, Attempts: d.Attempts,
	}, notFound(err)
}

var errNoULID = &admin.NotFoundError{Detail: "there is no such post: the id is not a ULID, 26 digits and capital letters"}

// notFound turns the domain's NotFound into that of the admin address.
func notFound(err error) error {
	if missing, ok := errors.AsType[*feed.Error](err); ok && missing.Kind == feed.NotFound {
		return &admin.NotFoundError{Detail: missing.Detail}
	}
	return err
}

package home

import (
	"context"
	"errors"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Explain explains a post in user's home. If post is "", Explain explains the DefaultLimit newest
// posts of user's first 1,000 followees. Explain is for operators, because it names dead letters, and
// posts of all users.
//
// Explain reads the records of the delivery first, and then the items of a home read. A done chunk has
// written its entry, so Explain finds the entry of a done chunk.
func (h *Homes) Explain(ctx context.Context, letters queue.DeadLetters, user, post string) ([]Explanation, error) {
	if err := h.access.RequireUser(ctx, user); err != nil {
		return nil, err
	}
	posts := []string{post}
	if post == "" {
		var err error
		if posts, err = h.followeesPosts(ctx, user); err != nil {
			return nil, err
		}
	}
	out := make([]Explanation, len(posts))
	works := make([]func(context.Context) error, len(posts))
	for i, post := range posts {
		works[i] = func(ctx context.Context) (err error) { out[i], err = h.explain(ctx, user, post); return err }
	}
	for part := range slices.Chunk(works, access.Readers) {
		if err := panics.All(ctx, part...); err != nil {
			return nil, err
		}
	}
	if err := h.findDead(ctx, letters, out); err != nil {
		return nil, err
	}
	if err := h.explainOnce(ctx, user, out); err != nil {
		return nil, err
	}
	for i := range out {
		e := &out[i]
		e.InHome, e.At, e.Text = e.Reason.Shown(), e.At.UTC(), e.String()
	}
	return out, nil
}

// followeesPosts returns the newest posts of user's followees.
func (h *Homes) followeesPosts(ctx context.Context, user string) ([]string, error) {
	followees, err := h.followees(ctx, user, "", followeesPage)
	if err != nil {
		return nil, err
	}
	for i := range followees {
		followees[i].from = "" // older posts are explained, too
	}
	newest, err := h.mergedPosts(ctx, wantedPosts{page.BudgetAfter(1), access.Span{Low: id.Min}, page.DefaultLimit}, followees, page.Stretch[access.Ref]{})
	posts := make([]string, len(newest.Items))
	for i, r := range newest.Items {
		posts[i] = r.Post
	}
	return posts, err
}

// explain explains a post without a search for dead letters. A post that is not in the table is
// queued, and has no author.
func (h *Homes) explain(ctx context.Context, user, post string) (Explanation, error) {
	e := Explanation{Post: post, User: user}
	ref, err := h.access.PostOfAnyAudience(ctx, access.Operator, post)
	if missing, ok := errors.AsType[*fault.Error](err); ok && missing.Kind == fault.NotFound {
		e.Reason = ReasonQueued
		return e, nil
	}
	if err != nil {
		return e, err
	}
	e.Author, e.RepostOf = ref.Author, ref.RepostOf
	if e.TakenDown = ref.TakenDown; e.TakenDown != nil {
		e.Reason, e.At = ReasonTakenDown, e.TakenDown.At
		return e, nil
	}
	if ref.Gone(h.access.Now()) {
		if e.Reason = ReasonDeleted; !ref.Deleted {
			e.Reason, e.At = ReasonEnded, ref.End
		}
		return e, nil
	}
	lives, err := h.access.Lives(ctx)
	if err != nil {
		return e, err
	}
	if post < id.Floor(lives.Oldest(h.access.Now())) {
		e.Reason, e.At = ReasonExpired, lives.End(access.TimeOf(post))
		return e, nil
	}
	// A follow may be made between the read of its edge and the read of its mark. Then an entry seems to
	// be missing. The second round reads both the edge and the mark of that follow, unless the table shows the follow's
	// transaction item by item: then the answer is right a moment later.
	for range 2 {
		if e, err = h.explainShown(ctx, e); err != nil || e.Reason != ReasonMissing {
			return e, err
		}
	}
	return e, nil
}

// explainShown explains a living post that has not expired.
func (h *Homes) explainShown(ctx context.Context, e Explanation) (Explanation, error) {
	plan, err := h.explainedChunk(ctx, &e)
	if err != nil {
		return e, err
	}
	entryKey := table.Key{PK: schema.TimelinePK(e.User), SK: schema.EntrySK(e.Post, e.Author)}
	presenceKey, muteKey := schema.PresenceKey(e.User), schema.MuteKey(e.User, e.Author)
	markKey, edgeKey, postKey := schema.MarkKey(e.User, e.Author), schema.FollowingKey(e.User, e.Author), schema.PostKey(e.Author, e.Post)
	found, err := h.access.BatchGet(ctx, []table.Key{entryKey, markKey, edgeKey, postKey, presenceKey, muteKey}, true)
	if err != nil {
		return e, err
	}
	var mark schema.Mark
	if it, ok := found[markKey]; ok && schema.KnownMark(it) {
		if mark, err = schema.ParseMark(it); err != nil {
			return e, fault.Wrap("table", err)
		}
	}
	var presence schema.Presence
	if it, ok := found[presenceKey]; ok {
		if presence, err = schema.ParsePresence(it); err != nil {
			return e, fault.Wrap("table", err)
		}
	}
	edge, err := schema.ParseEdge(table.Item{Key: edgeKey, Attrs: found[edgeKey].Attrs})
	if err != nil {
		return e, fault.Wrap("table", err)
	}
	e.PostText = found[postKey].Str(schema.AttrText)
	mute, muted := found[muteKey]
	_, entry := found[entryKey]
	_, lives := found[postKey]
	_, follows := found[edgeKey]
	done := e.link != nil && !e.link.Done.IsZero()
	skipped := done && e.link.Skipped > 0
	merges := mark.Merges(h.access.Now()) && e.Post >= mark.Pull
	switch {
	case !lives:
		e.Reason = ReasonDeleted
	case e.Author == e.User && entry:
		e.Reason = ReasonOwn
	case e.Author == e.User:
		e.Reason = ReasonMissing // the transaction of the post had written the entry
	case mark.Kind == schema.MarkUnfollowed:
		e.Reason, e.At = ReasonUnfollowed, access.TimeOf(mark.Version)
	case muted && follows && e.Post >= edge.From:
		e.Reason, e.At = ReasonMuted, schema.MuteSince(mute)
	case entry && !mark.Hides(e.Post) && skipped && presence.At.After(e.link.Done):
		e.Reason, e.At = ReasonReturned, presence.At
	case entry && !mark.Hides(e.Post) && follows && access.TimeOf(e.Post).Before(edge.Since):
		e.Reason, e.At = ReasonCopied, edge.Since
	case entry && !mark.Hides(e.Post):
		e.Reason = ReasonPushed
		if done {
			e.At = e.link.Done
		}
	case merges && mark.Kind == schema.MarkPulled:
		e.Reason = ReasonPulled
	case merges:
		e.Reason, e.At = ReasonMerged, mark.Until
	case !follows:
		e.Reason = ReasonNotFollowed
	case e.Post < edge.From:
		e.Reason, e.At = ReasonBeforeFollow, edge.Since
	case h.pulls(presence, e.Post):
		e.Reason, e.At = ReasonByPull, (presence.Until + 1).Start()
		if presence.Lo != "" {
			e.At = access.TimeOf(presence.Lo)
		}
		if skipped {
			e.Reason = ReasonSkipped
		}
	case plan == nil || plan.State != schema.PlanPulled && !done:
		e.Reason = ReasonQueued
	default:
		e.Reason = ReasonMissing
	}
	return e, nil
}

// pulls reports whether a home with this presence is read by pull at the place of a post.
func (h *Homes) pulls(p schema.Presence, post string) bool {
	now := h.access.Now()
	return p.User != "" && (p.State == schema.PresenceReturning || !now.Before(p.Until.Start()) || now.Sub(p.At) < returnLinger ||
		p.Lo <= post && post < p.Hi)
}

// explainedChunk reads the plan of a post, nil if the post has no plan, and finds the chunk that
// contains the user. explainedChunk reads the chunks up to that chunk, but DeliveryPage chunks at
// most.
func (h *Homes) explainedChunk(ctx context.Context, e *Explanation) (*schema.Plan, error) {
	it, err := h.access.Get(ctx, schema.DeliveryPlanKey(e.Post), true)
	if err != nil || it == nil {
		return nil, err
	}
	plan, err := schema.ParsePlan(*it)
	if err != nil {
		return nil, fault.Wrap("table", err)
	}
	for page, err := range h.access.Store.Query(ctx, table.Query{
		PK: schema.DeliveryPK(e.Post), Low: schema.ChunkSK(""), High: schema.ChunkSK(e.User),
		Descending: true, PageSize: delivery.PageSize, Consistent: true,
	}) {
		if err != nil || len(page.Items) == 0 {
			return &plan, fault.Wrap("table", err)
		}
		link, err := schema.ParseChunk(page.Items[0])
		if err != nil {
			return nil, fault.Wrap("table", err)
		}
		if link.End == "" || e.User < link.End {
			e.link = &link
			if !page.More {
				e.Chunk = len(page.Items)
			}
		}
		break
	}
	return &plan, nil
}

// findDead searches for the dead letters at which queued deliveries stopped.
func (h *Homes) findDead(ctx context.Context, letters queue.DeadLetters, all []Explanation) error {
	if !slices.ContainsFunc(all, func(e Explanation) bool { return e.Reason == ReasonQueued }) {
		return nil
	}
	for _, topic := range []string{queue.TopicPosts, queue.TopicChunks} {
		dead, err := letters.ListDead(ctx, topic, maxDead)
		if err != nil {
			return fault.Wrap("queue", err)
		}
		for _, letter := range dead {
			event, err := messages.Decode(letter.Payload)
			if err != nil {
				continue // the letter names no post
			}
			for i := range all {
				all[i].stopAt(event, letter)
			}
		}
	}
	for _, e := range all {
		if e.Author == "" {
			return fault.NotFoundf("there is no post %s, or its message still waits", e.Post)
		}
	}
	return nil
}

// maxDead is the maximum number of dead letters that findDead reads of a topic.
const maxDead = 1000

// stopAt makes a dead letter the reason if the delivery to the user needs its message.
func (e *Explanation) stopAt(event messages.Event, letter queue.DeadLetter) {
	var post, author string
	switch event := event.(type) {
	case *messages.PostCreated:
		post, author = event.PostID, event.AuthorID
	case *messages.FanoutPlan:
		if e.link == nil {
			post, author = event.PostID, event.AuthorID
		}
	case *messages.FanoutChunk:
		if e.link != nil && e.link.First == event.First {
			post, author = event.PostID, event.AuthorID
		}
	}
	if e.Reason == ReasonQueued && e.Post == post && (e.Author == "" || e.Author == author) {
		e.Reason, e.Author, e.At = ReasonDeadLetter, author, letter.FailedAt
		e.DeadLetter, e.Topic, e.died = letter.ID, letter.Topic, letter.Reason
	}
}

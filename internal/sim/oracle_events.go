package sim

import (
	"context"
	"fmt"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// In half of the worlds the workers send the events of applied work to other programs
// (docs/decisions/0033-events-out.md). A worker sends such an event at least once, and only after
// the table has the work.

// told holds the events that were sent.
type told struct {
	posts   map[string]bool // posts by id
	follows map[string]bool // follows by the id of the follow
	likes   map[string]bool // likes by the version of the action
	taken   map[string]bool // posts that were taken down
	faded   map[string]bool // partitions of deliveries that have lost an item by its end
}

// tell returns the function by which a process sends events, nil in a world without such events.
func (w *World) tell(p *Proc) func(context.Context, ...messages.Event) error {
	if !w.shape.Events {
		return nil
	}
	life := p.life
	return func(ctx context.Context, events ...messages.Event) error {
		about, text := events[0].Head().EventID, make([]string, len(events))
		for i, e := range events {
			payload, err := messages.Encode(e)
			if err != nil {
				return err
			}
			text[i] = string(payload)
		}
		c := &call{kind: "events.send", class: "send events", about: about, label: label("send events", text), events: events}
		c.effect = func(float64) error {
			if err := w.engine.logEvents(events); err != nil {
				return err
			}
			for _, e := range events {
				w.heard(e)
			}
			return nil
		}
		if err := p.do(ctx, life, c); err != nil {
			return &queue.UnsentError{Queue: "events", Err: err}
		}
		return nil
	}
}

// heard checks an event of applied work against the table.
func (w *World) heard(e messages.Event) {
	switch e := e.(type) {
	case *messages.PostDelivered:
		w.told.posts[e.PostID] = true
		w.heardDelivered(e)
	case *messages.Followed:
		w.told.follows[e.EventID] = true
		of := fmt.Sprintf("%s of %s", e.FollowerID, e.AuthorID)
		if w.backfills[e.EventID] != of {
			w.load.fail("I6", "the event of a follow %s names %s, it is %q", e.EventID, of, w.backfills[e.EventID])
		}
		ids := 0
		for told := range w.told.follows {
			if w.backfills[told] == of {
				ids++
			}
		}
		if made := len(w.followers[e.AuthorID][e.FollowerID]); ids > made {
			w.load.fail("I6", "%s follows %s for the %dth time, and others were told by %d ids", e.FollowerID, e.AuthorID, made, ids)
		}
	case *messages.LikeCounted:
		w.told.likes[e.EventID] = true
		like, there := w.book.likes[e.PostID][e.UserID]
		if !there || w.pastTTL(like.TTL) || like.Version > e.EventID {
			return // a later action replaced the like, or the like was removed
		}
		ref := w.refOf(e.PostID)
		if ref == nil || ref.Deleted {
			return // the purge removed the item, and a redelivered message may have made another item
		}
		if like.Version < e.EventID || !w.book.counted(like) || like.Kind != e.Reaction || e.LikeCount != nil && *e.LikeCount < 0 {
			w.load.fail("I3", "by the event the reaction of %s to %s is %q (%s), its item is %+v", e.UserID, e.PostID, e.Reaction, e.EventID, like)
		}
		if ref.Author != e.AuthorID {
			w.load.fail("I3", "the event of a like of %s names the author %s", e.PostID, e.AuthorID)
		}
	case *messages.Notified:
		w.heardNotified(e)
	case *messages.PostTakenDown:
		w.told.taken[e.PostID] = true
		w.heardTakenDown(e)
	default:
		w.load.fail("I6", "an event of the kind %s is sent", messages.KindOf(e))
	}
}

func (w *World) heardDelivered(e *messages.PostDelivered) {
	var chain schema.Chain
	var plan schema.Plan
	for _, it := range w.partition(schema.DeliveryPK(e.PostID)) {
		if p, err := schema.ParsePlan(it); err == nil {
			plan = p
		} else if c, err := schema.ParseChunk(it); err == nil {
			chain.Add(c)
		}
	}
	pulled := plan.State == schema.PlanPulled
	if plan.Post == "" || w.pastTTL(plan.TTL) || w.told.faded[schema.DeliveryPK(e.PostID)] {
		return // the notification has expired meanwhile, or expires item by item
	}
	if e.EventID != e.PostID || e.AuthorID != plan.Author || e.Pulled != pulled ||
		!pulled && (!w.complete(e.PostID) || e.Delivered != chain.Delivered || e.Skipped != chain.Skipped) || pulled && e.Delivered+e.Skipped != 0 {
		w.load.fail("I6", "the event says that a post is delivered: %+v, its record says %+v, %+v", *e, plan, chain)
	}
}

// checkTold checks that each event was sent (I6), once the world is quiet.
func (w *World) checkTold(living map[string]map[string]bool) {
	if !w.shape.Events || w.aged {
		return // some messages are too old
	}
	dead := map[string]bool{}
	for _, d := range w.queue(queue.TopicLikes).dead { // quieten redrives dead letters of all other topics
		dead[d.ID] = true
	}
	for _, version := range sorted(w.backfills) {
		if !w.told.follows[version] {
			w.load.fail("I6", "no event says that %s follows, by %s", w.backfills[version], version)
		}
	}
	w.checkTakenTold()
	for _, author := range w.load.users {
		for _, post := range sorted(living[author]) {
			if w.complete(post) && !w.told.posts[post] {
				w.load.fail("I6", "no event says that post %s of %s is delivered", post, author)
			}
			for _, user := range w.load.likersOf(post) {
				p := w.load.likes[likeKey{post, user}]
				if !dead[p.version] && !w.past[p.version] && !w.told.likes[p.version] {
					w.load.fail("I6", "no event says that %s acted on %s, by %s", user, post, p.version)
				}
			}
		}
	}
}

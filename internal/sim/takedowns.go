package sim

import (
	"context"

	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// Some deletions are take-downs by a service, with a reason. If several take-downs of one post are
// answered, all answers have the reason in the tombstone. Other programs get the event of the
// take-down once the post's comments and likes are gone.

// takeDown takes a post of user down, and then takes the post down again with another reason.
func (l *workload) takeDown(user, post string) *operation {
	var downs []feed.TakeDown
	return &operation{
		name: "take down " + post, user: user,
		do: func(ctx context.Context, s *domain) error {
			downs = nil
			down, err := s.TakeDown(ctx, "moderation", post, "by "+opOf(ctx))
			if err != nil {
				return err
			}
			downs = append(downs, down)
			if again, err := s.TakeDown(ctx, "moderation", post, "again by "+opOf(ctx)); err == nil {
				downs = append(downs, again)
			}
			return nil
		},
		settle: func(err error) {
			l.deleted[post] = l.deleted[post] || err == nil
			if before, ok := l.taken[post]; ok {
				downs = append(downs, before)
			}
			for _, down := range downs {
				l.taken[post] = down
				if down != downs[0] {
					l.fail("I5", "the take-down of %s was answered with %v and %v", post, downs[0], down)
				}
			}
		},
	}
}

// checkTaken checks that the tombstone of each answered take-down has the take-down's reason (I5).
func (w *World) checkTaken() {
	for _, post := range sorted(w.load.taken) {
		down := w.load.taken[post]
		if ref := w.refOf(post); ref != nil && (ref.TakenDown == nil || feed.TakeDown(*ref.TakenDown) != down) {
			w.load.fail("I5", "the take-down of %s was answered with %v, and its tombstone has %v", post, down, ref.TakenDown)
		}
	}
}

// heardTakenDown checks the event of a take-down: the tombstone has the event's reason, and no
// comment or like of the post is left.
func (w *World) heardTakenDown(e *messages.PostTakenDown) {
	ref := w.refOf(e.PostID)
	if ref == nil {
		return // the tombstone has expired meanwhile
	}
	want := schema.TakeDown{Reason: e.Reason, By: e.By, At: e.At}
	if e.EventID != e.PostID || e.AuthorID != ref.Author || !ref.Deleted || !ref.Purged || ref.TakenDown == nil || *ref.TakenDown != want {
		w.load.fail("I6", "the event says that a post was taken down: %+v, its tombstone of %s has %v, deleted=%v, purged=%v", *e, ref.Author, ref.TakenDown, ref.Deleted, ref.Purged)
	}
}

// checkTakenTold checks that other programs got the event of each take-down whose purge has ended (I6).
func (w *World) checkTakenTold() {
	for _, post := range sorted(w.load.created) {
		if ref := w.refOf(post); ref != nil && ref.TakenDown != nil && ref.Purged && !w.told.taken[post] {
			w.load.fail("I6", "no event says that post %s was taken down", post)
		}
	}
}

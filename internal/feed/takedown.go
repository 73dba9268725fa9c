package feed

import (
	"context"
	"errors"
	"time"

	"fanfare/internal/display"
	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// Operator is the author of an operator's take-downs. The admin address knows no name that it could verify: the trail has
// the name that the operator gave. No service takes a post down with this name.
const Operator = "operator"

// TakeDown is the deletion of a post by the service By, with a reason for the author.
type TakeDown schema.TakeDown

func checkReason(reason string) (c checks) {
	c.shown("reason", reason, 1, messages.MaxReason, display.NameFault)
	return c
}

// ReasonFault returns the fault of a reason for a take-down, "" if there is none.
func ReasonFault(reason string) string {
	for _, fault := range checkReason(reason) {
		return fault.Detail
	}
	return ""
}

// TakeDown deletes a post as DeletePost does, for the service by. The tombstone keeps the first
// reason, and a repeated call returns the first reason. For a post that its author has deleted, or
// that has ended (I15), TakeDown returns NotFound.
func (s *Service) TakeDown(ctx context.Context, by, post, reason string) (TakeDown, error) {
	if c := checkReason(reason); len(c) > 0 {
		return TakeDown{}, c.err()
	}
	var down TakeDown
	err := s.access.RetryChanged(func() (changed bool, err error) {
		down, changed, err = s.takeDown(ctx, by, post, reason)
		return changed, err
	})
	return down, err
}

// takeDown makes one attempt of TakeDown. changed reports that a call has flagged the post as referred to after the read.
func (s *Service) takeDown(ctx context.Context, by, post, reason string) (down TakeDown, changed bool, err error) {
	byID, err := s.access.PostOfAnyAudience(ctx, access.Operator, post)
	if err != nil || byID.Gone(s.access.Now()) {
		down, err = takenDown(byID, err)
		return down, false, err
	}
	counts, err := s.access.Get(ctx, schema.CountsKey(byID.Author), true)
	if err != nil {
		return TakeDown{}, false, err
	}
	byID.TakenDown = &schema.TakeDown{Reason: reason, By: by, At: s.access.Now().UTC().Truncate(time.Millisecond)}
	if changed, err = s.deletePost(ctx, byID, counts); changed {
		return TakeDown{}, true, nil
	}
	if lost, ok := errors.AsType[*fault.Error](err); ok && lost.Kind == fault.NotFound {
		byID, err = s.access.PostOfAnyAudience(ctx, access.Operator, post) // another deletion came first
	}
	down, err = takenDown(byID, err)
	return down, false, err
}

// takenDown returns the take-down of a post that is gone.
func takenDown(post schema.PostRef, err error) (TakeDown, error) {
	switch {
	case err != nil:
		return TakeDown{}, err
	case post.TakenDown == nil && post.Deleted:
		return TakeDown{}, fault.NotFoundf("post %s was deleted by its author", post.ID)
	case post.TakenDown == nil: // the post has expired, by a clock that may be ahead of this process's clock
		return TakeDown{}, fault.NotFoundf("post %s %s", post.ID, access.WhyGone(post))
	}
	return TakeDown(*post.TakenDown), nil
}

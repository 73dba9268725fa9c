package home

import (
	"context"
	"errors"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
)

// source lists the references of a span of a home. A home by push becomes a home by pull if some of
// the home's entries are missing.
type source struct {
	homes  *Homes
	viewer string
	of     access.Span
	// push lists a home by push. push is nil if the home is read by pull.
	push *pushSource
	pull *pullSource
	// gathers means that the home by pull is gathered: the cursor is a cursor of a gathering, or the
	// viewer has more than a page of followees.
	gathers bool
}

func (h *Homes) source(viewer string, pull bool, of access.Span) *source {
	s := &source{homes: h, viewer: viewer, of: of}
	if !pull {
		s.push = &pushSource{homes: h, viewer: viewer, of: of}
	}
	return s
}

// errGathered means that one request cannot read the whole home.
var errGathered = errors.New("the home by pull of a reader of so many followees is gathered by several requests: list it with its cursors, or follow fewer users")

// gathered reports whether the home has to be gathered. If so, next returns no references.
func (s *source) gathered() bool { return s.push == nil && s.gathers }

// next returns the first want references that follow the post id last ("" for the start). next returns
// fewer references only at the end, or if the budget ends the read. Some references may name deleted
// posts. next skips hidden posts until calls is used up. next also returns the number of table calls
// that every call of next makes.
func (s *source) next(ctx context.Context, calls *page.Budget, last string, want int) (page.Stretch[access.Ref], int, error) {
	if s.push != nil {
		refs, again, byPull, err := s.push.next(ctx, calls, last, want)
		if err != nil || !byPull {
			return refs, again, err
		}
		s.push = nil // the reader is away or returns
	}
	if s.pull == nil && !s.gathers {
		followees, err := s.homes.followees(ctx, s.viewer, "", followeesPage+1)
		if err != nil {
			return page.Stretch[access.Ref]{}, 0, err
		}
		s.gathers = len(followees) > followeesPage
		s.pull = &pullSource{homes: s.homes, viewer: s.viewer, of: s.of, followees: heard(followees)}
	}
	if s.gathers {
		return page.Stretch[access.Ref]{}, 0, nil
	}
	return s.pull.next(ctx, calls, last, want)
}

// whole returns references as next does. For a gathered home, whole reads all lists, and fails if one
// request cannot read so many lists.
func (s *source) whole(ctx context.Context, calls *page.Budget, last string, want int) (page.Stretch[access.Ref], int, error) {
	refs, again, err := s.next(ctx, calls, last, want)
	if err != nil || !s.gathered() {
		return refs, again, err
	}
	refs, after, err := s.homes.gatherLists(ctx, s.viewer, "", wantedPosts{of: s.of.After(last), want: want}, page.Stretch[access.Ref]{})
	if err == nil && after != everyFollowee {
		err = fault.Wrap("home", errGathered)
	}
	return refs, followeesPage, err
}

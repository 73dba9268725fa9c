package feed

import (
	"context"
	"errors"

	"fanfare/internal/invariants"
	"fanfare/internal/table"
)

// Home returns a page of viewer's home: the posts of the followees and of the viewer,
// newest first. By push it takes two round trips to the table, three with a marked author,
// and one more for each further 100 marked authors. It takes more only for authors of posts
// without a byline, to fill up a page from which hidden posts were left out, or to read more
// than a page of marks.
//
// If the page is not full when the budget is used up, it ends at the last reference that
// was looked at.
func (s *Service) Home(ctx context.Context, viewer string, query HomeQuery, in PageRequest) (List[HomeItem], error) {
	page, err := s.home(ctx, viewer, query, in)
	if errors.Is(err, errByPull) {
		page, err = s.home(ctx, viewer, HomeQuery{Pull: true, After: query.After}, in)
	}
	return page, err
}

// home is Home. It fails with errByPull if a home by push lacks entries.
func (s *Service) home(ctx context.Context, viewer string, query HomeQuery, in PageRequest) (List[HomeItem], error) {
	scope := byID("home", viewer, query.After)
	at, gathers, err := homeAt(viewer, query.After, in.Cursor)
	if err != nil {
		return List[HomeItem]{}, err
	}
	before := at.before
	// Kept for the first page: the entries and the marks, then its items.
	calls := budgetAfter(2 + batches(in.limit()) + batches(2*in.limit()) + 1)
	if query.Pull && gathers {
		return s.goOnGathering(ctx, viewer, query, at, in.limit())
	}
	source, followees, err := s.refSource(ctx, viewer, query.Pull, s.newerThan(query.After))
	if err != nil {
		return List[HomeItem]{}, err
	}
	if source == nil {
		return s.gather(ctx, viewer, query, at, followees)
	}
	refs, again, err := source.next(ctx, calls, before, in.limit()+1)
	if err != nil {
		return List[HomeItem]{}, err
	}
	// The next post is not read: it may be deleted, and then the last page is empty.
	looked := refs.items[:min(in.limit(), len(refs.items))]
	items, err := s.hydrate(ctx, calls, viewer, looked)
	if err != nil {
		return List[HomeItem]{}, err
	}
	more, small := false, smallRefill(in.limit(), in.limit()-len(items))
	for want := in.limit() + 1; ; {
		missing := in.limit() - len(items)
		if missing == 0 && (more || len(refs.items) == want) {
			return homePage(items, items[in.limit()-1].Post.ID, scope), nil
		}
		if missing == 0 || refs.cut == "" && len(refs.items) < want {
			return homePage(items, refs.cut, scope), nil
		}
		if before = refs.cut; before == "" {
			before = looked[len(looked)-1].post
		}
		var look int
		var own *budget
		if want, look, own = homeRefill(calls, small, again, missing); own == nil {
			return homePage(items, before, scope), nil
		}
		small = 0
		refs, again, err = source.next(ctx, own, before, want)
		if err != nil {
			return List[HomeItem]{}, err
		}
		looked = refs.items[:min(look, len(refs.items))]
		var shown []HomeItem
		if shown, more, err = s.fillUp(ctx, viewer, looked, missing); err != nil {
			return List[HomeItem]{}, err
		}
		items = append(items, shown...)
	}
}

// homeRefill returns how many references a page that lacks missing items reads next, of how many
// of them it reads the posts, and the budget of the read, nil if calls has not enough left. small is
// the size of a small refill, 0 for none, and again the number of calls that references take.
//
// A small refill takes the calls of merged lists from the budget, and only if that leaves those of a
// large refill. Else a page could end earlier than without it.
func homeRefill(calls *budget, small, again, missing int) (want, look int, own *budget) {
	large := again + 1 + batches(3*missing)
	if small > 0 && calls.takeBefore(again-1, large) {
		return min(small+1, mostSmall), small, &budget{}
	}
	if calls.take(large) {
		return table.MaxBatchGet, table.MaxBatchGet, calls
	}
	return 0, 0, nil
}

// homePage returns a page that goes on after the post last, "" for the last page. It ends
// earlier where the next item does not fit.
func homePage(items []HomeItem, last string, scope scope) List[HomeItem] {
	for i := 1; invariants.Enabled && i < len(items); i++ {
		invariants.Check(items[i].Post.ID < items[i-1].Post.ID, "I7: a page of a home repeats or mixes up posts: %s, %s", items[i-1].Post.ID, items[i].Post.ID)
	}
	if n := fitting(items); n < len(items) {
		items, last = items[:n], items[n-1].Post.ID
	}
	if last == "" {
		return List[HomeItem]{Items: items}
	}
	return List[HomeItem]{Items: items, NextCursor: scope.cursor(last)}
}

// refSource returns the source of a span of viewer's home. A home by pull of more than a page
// of followees has none: it is gathered, and the followees of the first page are returned.
func (s *Service) refSource(ctx context.Context, viewer string, pull bool, of span) (refSource, []followee, error) {
	if !pull {
		return &pushSource{s: s, viewer: viewer, of: of}, nil, nil
	}
	followees, err := s.followees(ctx, viewer, "", followeesPage+1)
	if err != nil || len(followees) > followeesPage {
		return nil, followees, err
	}
	return &pullSource{s: s, viewer: viewer, of: of, followees: heard(followees)}, nil, nil
}

package home

import (
	"context"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/invariants"
	"fanfare/internal/page"
	"fanfare/internal/table"
)

// Home returns a page of viewer's home: the posts of the followees and of the viewer, newest first. By
// push, Home takes two round trips to the table. A home with a marked author takes three round trips,
// and one more for each further 100 marked authors. Further round trips happen only for authors of
// posts without a byline, for a page from which hidden posts were left out, and for more than one page
// of marks.
//
// If the page is not full when the budget is used up, the page ends at the last examined reference.
func (h *Homes) Home(ctx context.Context, viewer string, query Query, in page.Request) (page.List[feed.HomeItem], error) {
	scope := homeScope(viewer, query.After)
	at, gathers, err := homeAt(viewer, query.After, in.Cursor)
	if err != nil {
		return page.List[feed.HomeItem]{}, err
	}
	scope.once = feed.NewOnce(at.once)
	query.once = scope.once
	before := at.before
	// These calls are reserved for the first page: entries and marks, and then the page's items. The bookmarks of the first page do not count:
	// with them, no call would remain to fill a page of views up.
	calls := page.BudgetAfter(2 + access.Batches(in.Size()) + access.Batches(2*in.Size()) + 1)
	of, err := h.newerThan(ctx, query.After)
	if err != nil {
		return page.List[feed.HomeItem]{}, err
	}
	source := h.source(viewer, query.Pull, of)
	source.gathers = gathers
	refs, again, err := source.next(ctx, calls, before, in.Size()+1)
	if err != nil {
		return page.List[feed.HomeItem]{}, err
	}
	if source.gathered() {
		return h.gather(ctx, viewer, query, at, in.Size())
	}
	// The page does not read the post that follows. That post may be deleted, and then the last page is
	// empty.
	looked := refs.Items[:min(in.Size(), len(refs.Items))]
	items, err := h.items.Hydrate(ctx, calls, query.viewer(viewer), looked, nil)
	if err != nil {
		return page.List[feed.HomeItem]{}, err
	}
	more, small := false, page.SmallRefill(in.Size(), in.Size()-len(items))
	for want := in.Size() + 1; ; {
		missing := in.Size() - len(items)
		if missing == 0 && (more || len(refs.Items) == want) {
			return homePage(items, items[in.Size()-1].Post.ID, scope), nil
		}
		if missing == 0 || refs.Cut == "" && len(refs.Items) < want {
			return homePage(items, refs.Cut, scope), nil
		}
		if before = refs.Cut; before == "" {
			before = looked[len(looked)-1].Post
		}
		var look int
		var own *page.Budget
		if want, look, own = homeRefill(calls, small, again, callsOfItems(query, missing)); own == nil {
			return homePage(items, before, scope), nil
		}
		small = 0
		refs, again, err = source.next(ctx, own, before, want)
		if err != nil {
			return page.List[feed.HomeItem]{}, err
		}
		if source.gathered() && len(items) == 0 {
			return h.gather(ctx, viewer, query, gathering{before: before, once: query.once.Originals()}, in.Size())
		}
		if source.gathered() {
			return homePage(items, before, scope), nil
		}
		looked = refs.Items[:min(look, len(refs.Items))]
		var shown []feed.HomeItem
		if shown, more, err = h.items.FillUp(ctx, query.viewer(viewer), looked, missing); err != nil {
			return page.List[feed.HomeItem]{}, err
		}
		items = append(items, shown...)
	}
}

// callsOfItems returns the number of table calls for the counts, authors, likes and kept things of missing
// items.
func callsOfItems(query Query, missing int) int {
	n := access.Batches(3*missing) + query.calls()
	if query.View {
		n += access.Batches(missing)
	}
	return n
}

// homeRefill returns the number of references that a page with missing items reads next (want), the
// number of those posts that the page reads (look), and the budget of the read. The budget is nil if
// calls has too few calls left. small is the size of a small refill, 0 for no small refill. again is
// the number of calls for more references, and items the number of calls of callsOfItems.
//
// A small refill takes the calls of merged lists from the budget. It is made only if enough calls
// remain for a large refill. Otherwise a page could end earlier than without a small refill.
func homeRefill(calls *page.Budget, small, again, items int) (want, look int, own *page.Budget) {
	large := again + 1 + items
	if small > 0 && calls.TakeBefore(again-1, large) {
		return min(small+1, page.MostSmall), small, &page.Budget{}
	}
	if calls.Take(large) {
		return table.MaxBatchGet, table.MaxBatchGet, calls
	}
	return 0, 0, nil
}

// homePage returns a page that continues after the post last, or the last page if last is "". The page
// ends earlier if the next item does not fit.
func homePage(items []feed.HomeItem, last string, scope onceScope) page.List[feed.HomeItem] {
	for i := 1; invariants.Enabled && i < len(items); i++ {
		invariants.Check(items[i].Post.ID < items[i-1].Post.ID, "I7: a page of a home repeats or mixes up posts: %s, %s", items[i-1].Post.ID, items[i].Post.ID)
	}
	if n := page.Fitting(items); n < len(items) {
		items, last = items[:n], items[n-1].Post.ID
		scope.once.Keep(items)
	}
	if last == "" {
		return page.List[feed.HomeItem]{Items: items}
	}
	return page.List[feed.HomeItem]{Items: items, NextCursor: scope.Cursor(last)}
}

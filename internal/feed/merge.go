package feed

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"fanfare/internal/table"
)

// merge returns the first want items of the union of sorted lists, each once.
//
// Each list must be complete or have at least want items, or pages would skip items
// (I7). An item that was cut off from a list cannot be among the first want of the
// union, because want items of its own list come before it.
func merge[T any](want int, compare func(a, b T) int, lists ...[]T) []T {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, compare)
	all = slices.CompactFunc(all, func(a, b T) bool { return compare(a, b) == 0 })
	if len(all) > want {
		clear(all[want:])
		all = all[:want]
	}
	return all
}

// tableCalls is how many table calls a list makes for one request, apart from the first
// read of each list that a home or a sharded like list merges. Hidden data (entries of deleted
// posts and of unfollowed authors, taken-back likes) may be in the way without end. A list that has made its calls answers the page that it has, which may
// be short or empty, with a cursor at the last key that it read.
const tableCalls = 12

// budget counts the table calls that are left to a request. A nil budget has no bound.
type budget struct {
	mu   sync.Mutex
	left int
}

// budgetAfter returns the budget of a request that needs calls in any case.
func budgetAfter(calls int) *budget { return &budget{left: tableCalls - calls} }

// take takes calls from the budget, all or none of them.
func (b *budget) take(calls int) bool { return b.takeBefore(calls, 0) }

// takeBefore is take, if the budget has later calls left afterwards.
func (b *budget) takeBefore(calls, later int) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < calls+later {
		return false
	}
	b.left -= calls
	return true
}

// spend takes calls that are made in any case.
func (b *budget) spend(calls int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= calls
}

// refill says how a read goes on after a page in which too few items show.
type refill struct {
	budget *budget
	// calls is the number of table calls of one more page.
	calls int
	// most is the largest page. 0 keeps the size of the first one.
	most int
	// small says that the first refill is a smallRefill, which takes nothing from the budget.
	small bool
}

// Sizes of the pages of a refill.
const (
	// leastRefill is the least number of keys that a refill reads.
	leastRefill = 100
	// mostRefill is the largest number of keys that it reads at once.
	mostRefill = 1000
	// mostSmall is the largest small refill. One read unit reads as many entries of a home.
	mostSmall = 28
)

// smallRefill returns the number of keys that the first refill of a page of limit items reads if
// each key costs a read of its own: of its post, to see whether the post lives. missing items
// were left out of the page. Their share makes it likely that so many keys fill the page up. It
// returns 0 where more than half of the page is missing, or the refill would not be small: much
// more may have to be skipped there.
func smallRefill(limit, missing int) int {
	keys := missing + 1 + missing*missing/(limit-missing+1)
	if missing == 0 || 2*missing > limit+1 || keys > mostSmall {
		return 0
	}
	return keys
}

// grown returns the size of the page that follows a page of size. Pages grow, because
// where much was skipped, much more may have to be skipped.
func grown(size, most int) int { return min(max(4*size, leastRefill), most) }

// stretch is a part of a sorted list.
type stretch[T any] struct {
	items []T
	// more reports whether the list may go on after items.
	more bool
	// cut is the position of the last key read, if the budget ended the read. It is ""
	// if items are as many as were wanted, or reach the end of the list.
	cut string
}

// mergedList reads one of the lists that mergeLists merges: one page of size keys after a
// position ("" for the start), which shows want items at most.
type mergedList[T any] func(ctx context.Context, after string, want, size int) (stretch[T], error)

// runner runs reads and returns the first error.
type runner func(ctx context.Context, reads ...func(context.Context) error) error

// mergeLists merges the first want items of lists into top. compare orders positions.
//
// A page of each list is read in any case. It reads on only where a list was cut before
// the last item that the merge needs, and as long as the budget lasts, the list first
// whose cut comes first. Behind the first cut the merge is not complete, so those items
// are left out.
func mergeLists[T any](ctx context.Context, all runner, calls *budget, want int, compare func(a, b string) int, position func(T) string, top stretch[T], lists []mergedList[T]) (stretch[T], error) {
	read := make([]stretch[T], len(lists))
	sizes := make([]int, len(lists))
	due := make([]int, 0, len(lists))
	for i := range lists {
		due = append(due, i)
		sizes[i] = min(max(want, DefaultLimit+1), MaxLimit+1)
	}
	byPosition := func(a, b T) int { return compare(position(a), position(b)) }
	for {
		reads := make([]func(context.Context) error, len(due))
		for n, i := range due {
			reads[n] = func(ctx context.Context) error {
				next, err := lists[i](ctx, read[i].cut, want-len(read[i].items), sizes[i])
				sizes[i] = grown(sizes[i], mostRefill)
				read[i].items, read[i].cut = append(read[i].items, next.items...), next.cut
				return err
			}
		}
		if err := all(ctx, reads...); err != nil {
			return stretch[T]{}, err
		}
		merged := stretch[T]{items: top.items, cut: top.cut}
		due = due[:0]
		for i, list := range read {
			merged.items = merge(want, byPosition, merged.items, list.items)
			if list.cut != "" {
				due = append(due, i)
			}
		}
		slices.SortFunc(due, func(i, j int) int { return compare(read[i].cut, read[j].cut) })
		if len(due) > 0 && (merged.cut == "" || compare(read[due[0]].cut, merged.cut) < 0) {
			merged.cut = read[due[0]].cut
		}
		if merged.cut == "" {
			return merged, nil
		}
		complete := slices.DeleteFunc(slices.Clone(merged.items), func(item T) bool { return compare(position(item), merged.cut) > 0 })
		if len(complete) == want {
			return stretch[T]{items: complete}, nil
		}
		if len(merged.items) == want { // nobody needs the items behind them
			last := position(merged.items[want-1])
			due = slices.DeleteFunc(due, func(i int) bool { return compare(read[i].cut, last) > 0 })
		}
		granted := 0
		for granted < len(due) && calls.take(1) {
			granted++
		}
		if granted == 0 {
			return stretch[T]{items: complete, cut: merged.cut}, nil
		}
		due = due[:granted]
	}
}

// collect reads pages until it has want items, the list ends, or the budget is used up.
// parse returns the items of one page that are to be shown. The first page has want keys
// if q names no size.
func collect[T any](ctx context.Context, store table.Store, q table.Query, want int, fill refill, parse func([]table.Item) ([]T, error)) (stretch[T], error) {
	var read stretch[T]
	last := ""
	q.PageSize = cmp.Or(q.PageSize, want)
	for again := true; again; {
		again = false
		for page, err := range store.Query(ctx, q) {
			if err != nil {
				return stretch[T]{}, unavailable("table", err)
			}
			shown, err := parse(page.Items)
			if err != nil {
				return stretch[T]{}, err
			}
			read.items = append(read.items, shown...)
			if len(read.items) >= want {
				read.more = page.More || len(read.items) > want
				read.items = read.items[:want]
				return read, nil
			}
			if !page.More {
				return read, nil
			}
			if n := len(page.Items); n > 0 {
				last = sortKey(q, page.Items[n-1])
			}
			size, small := grown(q.PageSize, fill.most), 0
			if fill.small {
				small, fill.small = smallRefill(want, want-len(read.items)), false
			}
			switch {
			case small > 0:
				size = small
			// A page without a key, whose items have all expired, gives no position.
			case last != "" && !fill.budget.take(fill.calls):
				read.more, read.cut = true, positionOf(last)
				return read, nil
			}
			if fill.most > 0 && size != q.PageSize {
				q.PageSize, q.After, again = size, cmp.Or(last, q.After), true
				break
			}
		}
	}
	return read, nil
}

// sortKey returns the key by which q sorts it.
func sortKey(q table.Query, it table.Item) string {
	if q.Index {
		return it.Str(table.AttrGSI1SK)
	}
	return it.Key.SK
}

// positionOf returns the id in a sort key of a list: of the post, the comment or the
// user. An entry's sort key names the author after the post.
func positionOf(sk string) string {
	_, position, _ := strings.Cut(sk, "#")
	position, _, _ = strings.Cut(position, "#")
	return position
}

// each turns a parse function for one item into one for a page.
func each[T any](parse func(table.Item) (item T, show bool, err error)) func([]table.Item) ([]T, error) {
	return func(page []table.Item) ([]T, error) {
		items := make([]T, 0, len(page))
		for _, it := range page {
			item, show, err := parse(it)
			if err != nil {
				return nil, unavailable("table", err)
			}
			if show {
				items = append(items, item)
			}
		}
		return items, nil
	}
}

// limit returns the size of the requested page.
func (p PageRequest) limit() int {
	if p.Limit <= 0 {
		return DefaultLimit
	}
	return min(p.Limit, MaxLimit)
}

// page cuts a list for which one more item than limit was asked. If that item is
// there, the page has a cursor, and the next page is not empty. A page that the budget
// cut short goes on after the last key that was read. A page also ends where the next item
// does not fit.
func page[T any](read stretch[T], limit int, s scope, position func(T) string) List[T] {
	limit = min(limit, max(1, fitting(read.items)))
	switch {
	case len(read.items) > limit:
		return List[T]{Items: read.items[:limit], NextCursor: s.cursor(position(read.items[limit-1]))}
	case read.cut != "":
		return List[T]{Items: read.items, NextCursor: s.cursor(read.cut)}
	}
	return List[T]{Items: read.items}
}

// fit returns a page of items that goes on at next. It ends earlier where the next item does
// not fit.
func fit[T any](items []T, next string, scope scope, position func(T) string) List[T] {
	if n := fitting(items); n < len(items) {
		items, next = items[:n], scope.cursor(position(items[n-1]))
	}
	return List[T]{Items: items, NextCursor: next}
}

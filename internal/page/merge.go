package page

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"fanfare/internal/fault"
	"fanfare/internal/table"
)

// merge returns the first want items of the union of sorted lists, without repetitions.
//
// Each list must be complete or have at least want items, because pages would skip items otherwise
// (I7). An item beyond the end of a cut list cannot be among the first want items of the union,
// because want items of the same list precede it.
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

// TableCalls is the maximum number of table calls of a list for one request. The first read of each
// list that a home or a sharded like list merges does not count. A list may contain any number of
// hidden items (entries of deleted posts and of unfollowed authors, taken-back likes). After its
// calls, a list returns a page that may be short or empty, with a cursor at the last key that was
// read.
const TableCalls = 12

// Budget counts the remaining table calls of a request. A nil budget has no limit.
type Budget struct {
	mu   sync.Mutex
	left int
}

// BudgetAfter returns the budget of a request that always makes calls calls.
func BudgetAfter(calls int) *Budget { return &Budget{left: TableCalls - calls} }

// Take takes calls from the budget. Take takes all calls, or none if fewer are left.
func (b *Budget) Take(calls int) bool { return b.TakeBefore(calls, 0) }

// TakeBefore takes calls from the budget if at least later calls remain afterwards.
func (b *Budget) TakeBefore(calls, later int) bool {
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

// Spend takes calls that the request makes even without a budget.
func (b *Budget) Spend(calls int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= calls
}

// Refill describes how a read continues after a page with too few shown items.
type Refill struct {
	Budget *Budget
	// Calls is the number of table calls of one more page.
	Calls int
	// Most is the maximum size of a page. With 0, all pages have the size of the first page.
	Most int
	// Small means that the first refill is a SmallRefill, which takes nothing from the budget.
	Small bool
}

// These constants are the sizes of the pages of a refill.
const (
	// leastRefill is the minimum number of keys that a refill reads.
	leastRefill = 100
	// MostRefill is the maximum number of keys that a refill reads at once.
	MostRefill = 1000
	// MostSmall is the maximum number of keys of a small refill. One read unit reads that number of
	// entries of a home.
	MostSmall = 28
)

// SmallRefill returns the number of keys for the first refill of a page of limit items, if each key
// costs a read of its post to check that the post lives. missing items were left out of the page. The
// share of missing items makes it likely that the returned number of keys fills the page. SmallRefill
// returns 0 if more than half of the page is missing, or if the refill would not be small, because
// then the read may have to skip many more keys.
func SmallRefill(limit, missing int) int {
	keys := missing + 1 + missing*missing/(limit-missing+1)
	if missing == 0 || 2*missing > limit+1 || keys > MostSmall {
		return 0
	}
	return keys
}

// Grown returns the size of the page that follows a page of size. Pages grow, because after many
// skipped items, many more skipped items may follow.
func Grown(size, most int) int { return min(max(4*size, leastRefill), most) }

// Stretch is a part of a sorted list.
type Stretch[T any] struct {
	Items []T
	// More reports whether the list may continue after Items.
	More bool
	// Cut is the position of the last read key, if the budget ended the read. Cut is "" if Items has as
	// many items as wanted, or reaches the end of the list.
	Cut string
}

// MergedList reads one of the lists that Merge merges: one page of size keys after a position ("" for
// the start), with want shown items at most.
type MergedList[T any] func(ctx context.Context, after string, want, size int) (Stretch[T], error)

// Runner runs reads and returns the first error.
type Runner func(ctx context.Context, reads ...func(context.Context) error) error

// Merge merges sorted lists.
type Merge[T any] struct {
	// All runs the reads of several lists.
	All Runner
	// Budget has the table calls for further reads, after the first page of each list.
	Budget *Budget
	// Want is the number of items of the union.
	Want int
	// Compare orders positions, and Position returns the position of an item.
	Compare  func(a, b string) int
	Position func(T) string
}

// Lists merges the first items of lists into top.
//
// Lists always reads one page of each list. If a list was cut before the last item that the merge
// needs, Lists reads further pages of this list, while the budget lasts. Lists begins with the list
// that has the first cut. After the first cut the merge is not complete, so Lists leaves out the items after the
// first cut.
func (m Merge[T]) Lists(ctx context.Context, top Stretch[T], lists []MergedList[T]) (Stretch[T], error) {
	read := make([]Stretch[T], len(lists))
	sizes := make([]int, len(lists))
	due := make([]int, 0, len(lists))
	for i := range lists {
		due = append(due, i)
		sizes[i] = min(max(m.Want, DefaultLimit+1), MaxLimit+1)
	}
	byPosition := func(a, b T) int { return m.Compare(m.Position(a), m.Position(b)) }
	for {
		reads := make([]func(context.Context) error, len(due))
		for n, i := range due {
			reads[n] = func(ctx context.Context) error {
				next, err := lists[i](ctx, read[i].Cut, m.Want-len(read[i].Items), sizes[i])
				sizes[i] = Grown(sizes[i], MostRefill)
				read[i].Items, read[i].Cut = append(read[i].Items, next.Items...), next.Cut
				return err
			}
		}
		if err := m.All(ctx, reads...); err != nil {
			return Stretch[T]{}, err
		}
		merged := Stretch[T]{Items: top.Items, Cut: top.Cut}
		due = due[:0]
		for i, list := range read {
			merged.Items = merge(m.Want, byPosition, merged.Items, list.Items)
			if list.Cut != "" {
				due = append(due, i)
			}
		}
		slices.SortFunc(due, func(i, j int) int { return m.Compare(read[i].Cut, read[j].Cut) })
		if len(due) > 0 && (merged.Cut == "" || m.Compare(read[due[0]].Cut, merged.Cut) < 0) {
			merged.Cut = read[due[0]].Cut
		}
		if merged.Cut == "" {
			return merged, nil
		}
		complete := slices.DeleteFunc(slices.Clone(merged.Items), func(item T) bool { return m.Compare(m.Position(item), merged.Cut) > 0 })
		if len(complete) == m.Want {
			return Stretch[T]{Items: complete}, nil
		}
		if len(merged.Items) == m.Want { // the merge needs no items after these items
			last := m.Position(merged.Items[m.Want-1])
			due = slices.DeleteFunc(due, func(i int) bool { return m.Compare(read[i].Cut, last) > 0 })
		}
		granted := 0
		for granted < len(due) && m.Budget.Take(1) {
			granted++
		}
		if granted == 0 {
			return Stretch[T]{Items: complete, Cut: merged.Cut}, nil
		}
		due = due[:granted]
	}
}

// Collect reads pages until it has want items, the list ends, or the budget is used up. parse returns
// the shown items of one page. If q has no page size, the first page has want keys.
func Collect[T any](ctx context.Context, store table.Store, q table.Query, want int, fill Refill, parse func([]table.Item) ([]T, error)) (Stretch[T], error) {
	var read Stretch[T]
	last := ""
	q.PageSize = cmp.Or(q.PageSize, want)
	for again := true; again; {
		again = false
		for page, err := range store.Query(ctx, q) {
			if err != nil {
				return Stretch[T]{}, fault.Wrap("table", err)
			}
			shown, err := parse(page.Items)
			if err != nil {
				return Stretch[T]{}, err
			}
			read.Items = append(read.Items, shown...)
			if len(read.Items) >= want {
				read.More = page.More || len(read.Items) > want
				read.Items = read.Items[:want]
				return read, nil
			}
			if !page.More {
				return read, nil
			}
			if n := len(page.Items); n > 0 {
				last = sortKey(q, page.Items[n-1])
			}
			size, small := Grown(q.PageSize, fill.Most), 0
			if fill.Small {
				small, fill.Small = SmallRefill(want, want-len(read.Items)), false
			}
			switch {
			case small > 0:
				size = small
			// A page without a key, because all its items have expired, has no position.
			case last != "" && !fill.Budget.Take(fill.Calls):
				read.More, read.Cut = true, PositionOf(last)
				return read, nil
			}
			if fill.Most > 0 && size != q.PageSize {
				q.PageSize, q.After, again = size, cmp.Or(last, q.After), true
				break
			}
		}
	}
	return read, nil
}

// sortKey returns the key by which q sorts an item.
func sortKey(q table.Query, it table.Item) string {
	if q.Index {
		return it.Str(table.AttrGSI1SK)
	}
	return it.Key.SK
}

// PositionOf returns the id in a sort key of a list: the id of the post, the comment or the user. In
// the sort key of an entry, the author follows the post. The place of a notification has no prefix.
func PositionOf(sk string) string {
	if _, named, ok := strings.Cut(sk, "#"); ok {
		sk = named
	}
	position, _, _ := strings.Cut(sk, "#")
	return position
}

// Each makes a parse function for a page from a parse function for one item.
func Each[T any](parse func(table.Item) (item T, show bool, err error)) func([]table.Item) ([]T, error) {
	return func(page []table.Item) ([]T, error) {
		items := make([]T, 0, len(page))
		for _, it := range page {
			item, show, err := parse(it)
			if err != nil {
				return nil, fault.Wrap("table", err)
			}
			if show {
				items = append(items, item)
			}
		}
		return items, nil
	}
}

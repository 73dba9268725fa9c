package page

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"fanfare/internal/panics"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A budget gives all requested calls or none, until it is used up. Calls that are made in any case
// count, too.
func TestABudgetIsUsedUp(t *testing.T) {
	b := BudgetAfter(2)
	assert.True(t, b.Take(4))
	assert.False(t, b.Take(TableCalls-5))
	assert.True(t, b.Take(TableCalls-6))
	assert.False(t, b.Take(1))
	b = BudgetAfter(0)
	b.Spend(TableCalls - 1)
	assert.True(t, b.Take(1))
	assert.False(t, b.Take(1))
	b.Spend(1)
	assert.False(t, b.Take(0))
	var unbounded *Budget
	assert.True(t, unbounded.Take(1000))
}

// position is a key of a list in which each key is its own position.
type position struct {
	key    string
	hidden bool
}

// listOf returns the part of a list after start. It reads three keys at a time, and adds one to reads
// for each read.
func listOf(list []position, start string, reads *int) MergedList[string] {
	return func(_ context.Context, after string, want, _ int) (read Stretch[string], err error) {
		*reads++
		rest := list
		for len(rest) > 0 && rest[0].key <= max(start, after) {
			rest = rest[1:]
		}
		n := min(3, len(rest))
		for _, p := range rest[:n] {
			if !p.hidden {
				read.Items = append(read.Items, p.key)
			}
		}
		switch {
		case len(read.Items) >= want:
			read.Items = read.Items[:want]
		case n < len(rest):
			read.Cut = rest[n-1].key
		}
		return read, nil
	}
}

// mergedPage merges a page of lists after start. calls is the number of calls besides the first call
// of each list. mergedPage returns the number of reads of each list.
func mergedPage(t *testing.T, lists [][]position, start string, want, calls int) (Stretch[string], []int) {
	t.Helper()
	reads := make([]int, len(lists))
	merged := make([]MergedList[string], len(lists))
	for i, l := range lists {
		merged[i] = listOf(l, start, &reads[i])
	}
	itself := func(key string) string { return key }
	merge := Merge[string]{panics.All, BudgetAfter(TableCalls - calls), want, strings.Compare, itself}
	page, err := merge.Lists(t.Context(), Stretch[string]{}, merged)
	require.NoError(t, err)
	return page, reads
}

// Lists hide most of their keys, and a budget cuts the lists anywhere. The pages have each item once,
// in order (I7), and a page makes no call beyond its budget.
func TestMergedPagesHaveEachItemOnce(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lists := make([][]position, 1+rng.IntN(4))
		var all, got []string
		for i := range 40 {
			p, of := position{fmt.Sprintf("%03d", i), rng.IntN(4) > 0}, rng.IntN(len(lists))
			if lists[of] = append(lists[of], p); !p.hidden {
				all = append(all, p.key)
			}
		}
		want, calls := 1+rng.IntN(5), rng.IntN(4)
		for start, more := "", true; more; {
			page, reads := mergedPage(t, lists, start, want, calls)
			sum := 0
			for _, n := range reads {
				sum += n
			}
			require.LessOrEqualf(t, sum, len(lists)+calls, "seed %d: reads", seed)
			require.LessOrEqualf(t, len(page.Items), want, "seed %d", seed)
			got = append(got, page.Items...)
			switch {
			case page.Cut != "":
				require.Greaterf(t, page.Cut, start, "seed %d: a page does not move on", seed)
				start = page.Cut
			case len(page.Items) == want:
				start = page.Items[want-1]
			default:
				more = false
			}
		}
		require.Equalf(t, all, got, "seed %d", seed)
	}
}

// A merge does not continue a list that was cut after the last item of the page. The list with the
// first cut gets the first call.
func TestAMergeReadsOnWhereItNeedsItems(t *testing.T) {
	shown := func(keys ...string) (list []position) {
		for _, key := range keys {
			list = append(list, position{key: key})
		}
		return list
	}
	hidden := func(keys ...string) []position {
		list := shown(keys...)
		for i := range list {
			list[i].hidden = true
		}
		return list
	}
	lists := [][]position{
		append(hidden("05", "06", "07"), shown("08")...),
		shown("01", "04"),
		append(hidden("02", "021", "022"), shown("09")...),
		append(hidden("02", "03", "031"), shown("09")...),
	}
	for calls, want := range map[int]struct {
		cut   string
		reads []int
	}{
		0: {"022", []int{1, 1, 1, 1}}, 1: {"031", []int{1, 1, 2, 1}}, 2: {"", []int{1, 1, 2, 2}}, 3: {"", []int{1, 1, 2, 2}},
	} {
		page, reads := mergedPage(t, lists, "", 2, calls)
		items := []string{"01"}
		if want.cut == "" {
			items = append(items, "04")
		}
		assert.Equal(t, Stretch[string]{Items: items, Cut: want.cut}, page, "%d calls", calls)
		assert.Equal(t, want.reads, reads, "%d calls", calls)
	}
}

func TestAPageHasAsManyItemsAsWereAskedFor(t *testing.T) {
	for asked, want := range map[int]int{-1: DefaultLimit, 0: DefaultLimit, 1: 1, DefaultLimit + 1: DefaultLimit + 1, MaxLimit: MaxLimit, MaxLimit + 1: MaxLimit} {
		assert.Equal(t, want, Request{Limit: asked}.Size())
	}
}

package fanout

import (
	"fmt"
	"testing"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// TestADeliveryAllocatesNothingOfItsOwn builds the entries of pages of 100 and of
// 2,048 followers: what a page allocates is the string that its keys are parts of,
// and does not grow with it.
func TestADeliveryAllocatesNothingOfItsOwn(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := post{id: "01H00000000000000000000000", author: "ann", at: now, sk: "sk", attrs: schema.EntryAttrs(now, 0)}
	for _, size := range []int{100, 2048} {
		followers := make([]table.Item, size)
		for i := range followers {
			followers[i] = schema.FollowerItem(p.author, fmt.Sprint("follower-", i), now)
		}
		s := new(scratch)
		build := func() {
			writes, err := s.entries(p, followers)
			if err != nil || len(writes) != size {
				t.Fatalf("%d entries, %v", len(writes), err)
			}
		}
		build() // the scratch has grown now
		if got := testing.AllocsPerRun(100, build); got > 1 {
			t.Errorf("%v allocations for a page of %d followers, want 1", got, size)
		}
	}
}

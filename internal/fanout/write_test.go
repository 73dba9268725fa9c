package fanout

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// TestADeliveryAllocatesNothingOfItsOwn builds the entries of pages of 100 and of 2,048
// followers. Each page allocates one string, whose parts are the keys of the entries.
func TestADeliveryAllocatesNothingOfItsOwn(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := post{id: "01H00000000000000000000000", author: "ann", at: now, sk: "sk", attrs: schema.EntryAttrs(now, 0)}
	for _, size := range []int{100, 2048} {
		followers := make([]table.Item, size)
		for i := range followers {
			followers[i] = schema.FollowerItem(p.author, fmt.Sprint("follower-", i), now)
		}
		b := new(buffers)
		build := func() {
			writes, err := b.entries(p, followers)
			if err != nil || len(writes) != size {
				t.Fatalf("%d entries, %v", len(writes), err)
			}
		}
		build() // gives the buffers their size
		assert.LessOrEqualf(t, testing.AllocsPerRun(100, build), 1.0, "allocations for a page of %d followers", size)
	}
}

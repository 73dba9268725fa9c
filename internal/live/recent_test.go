package live

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/feed/access"
)

// MostRecent is mostRecent for the tests.
const MostRecent = mostRecent

func TestTheRingSaysWhatItHasForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recent{deleted: map[string]struct{}{}}
		start := time.Now()
		edited := change{ref: access.Ref{Post: "edited, then deleted"}}
		assert.True(t, r.add(edited))
		for i := range mostRecent + 8 {
			if i == 100 {
				edited.deleted = true
				assert.True(t, r.add(edited))
				assert.False(t, r.add(edited), "a second deletion")
				assert.False(t, r.add(change{ref: edited.ref}), "an edit after the deletion")
			}
			<-time.After(time.Second)
			assert.True(t, r.add(change{ref: access.Ref{Post: fmt.Sprint(i)}, deleted: i%2 == 0}))
		}
		assert.Len(t, r.ring, mostRecent)
		assert.Len(t, r.deleted, mostRecent/2)
		assert.True(t, r.isDeleted(edited.ref.Post), "the edit has left, and the deletion has not")
		assert.True(t, r.whole(start.Add(10*time.Second)))
		assert.False(t, r.whole(start.Add(9*time.Second)))
		got := r.since(start.Add(10 * time.Second))
		assert.Len(t, got, mostRecent)
		assert.Equal(t, "9", got[0].ref.Post)
		assert.Len(t, r.since(time.Now()), 1)
	})
}

package admin

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/ops/transfer"
)

// A transfer reports each of its millions of records, and its writers wait for each part.
func TestProgressIsAPartASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var done []int
		report := progressTo(func(p TransferPart) error { done = append(done, p.Progress.Done); return nil })
		for i := range 25 {
			report(transfer.Progress{Done: i})
			<-time.After(100 * time.Millisecond) // virtual
		}
		report(transfer.Progress{Done: 25, Ended: true})
		assert.Equal(t, []int{0, 10, 20, 25}, done)
	})
}

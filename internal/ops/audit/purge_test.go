package audit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/feed"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// purges records the purges that an audit requests.
type purges struct {
	*feed.Service
	asked []string
}

func (p *purges) AskToPurge(_ context.Context, author, post string) {
	p.asked = append(p.asked, author+" "+post)
}

// A process that crashes between a deletion and the send of its event leaves a tombstone without a purge.
func TestAWalkAsksForPurgesWhoseEventWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		var posts []string
		for range 5 {
			post, err := w.cfg.IDs.New()
			w.must(err)
			posts = append(posts, post)
		}
		for i, of := range []struct {
			age    time.Duration
			living bool
			purged bool
		}{{time.Hour + time.Minute, false, false}, {time.Hour - time.Minute, false, false}, {2 * time.Hour, false, true}, {2 * time.Hour, true, false}, {20 * 24 * time.Hour, false, false}} {
			ref := schema.PostRef{ID: posts[i], Author: "ann", LikeShards: 1, Deleted: !of.living, Purged: of.purged}
			if ref.Deleted {
				ref.TTL = w.now().Add(timelineTTL + schema.DeliveryKept - of.age)
			}
			_, err := w.store.Put(t.Context(), table.PutInput{Item: ref.Item()})
			w.must(err)
		}
		recorder := &purges{Service: w.Service}
		w.cfg.Feed = recorder
		walk := func(purge bool) []string {
			recorder.asked = nil
			_, err := audit.New(w.cfg).Run(t.Context(), audit.Walk{Tidy: purge, Found: func(f audit.Finding) error {
				assert.Equal(t, audit.PostMissing, f.Kind, "a late purge is no damage")
				return nil
			}})
			w.must(err)
			return recorder.asked
		}
		assert.Empty(t, walk(false), "a walk that only looks")
		for range 2 {
			assert.ElementsMatch(t, []string{"ann " + posts[0], "ann " + posts[4]}, walk(true))
		}
	})
}

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
	"fanfare/messages"
)

// purges records the purges that an audit requests.
type purges struct {
	*feed.Service
	asked []string
}

func (p *purges) AskToPurge(_ context.Context, author, post string) {
	p.asked = append(p.asked, author+" "+post)
}

func (p *purges) AskToCount(_ context.Context, repost schema.Post) {
	p.asked = append(p.asked, repost.Author+" counts "+repost.ID)
}

// A restore may lose the event of a repost, and keep the repost.
func TestAWalkAsksForTheCountOfAnUncountedRepost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		var ids []string
		for range 3 {
			made, err := w.cfg.IDs.New()
			w.must(err)
			ids = append(ids, made)
		}
		w.put(schema.Post{ID: ids[0], Author: "ann", Content: schema.Content{Text: "p"}, LikeShards: 4}.Item())
		w.put(schema.PostRef{ID: ids[0], Author: "ann", LikeShards: 4}.Item())
		for _, repost := range ids[1:] {
			p := schema.Post{ID: repost, Author: "bob", Reference: schema.Reference{RepostOf: ids[0], OfAuthor: "ann", OfShards: 4}, LikeShards: 1}
			w.put(p.Item())
			w.put(p.Ref(timelineTTL).Item())
		}
		w.put(schema.Like{Post: ids[0], User: messages.Reposter(ids[1]), Kind: messages.KindRepost, Version: ids[1], Flush: schema.Flush{Inc: "inc", Seq: 1}, LikeShards: 4}.Item())
		recorder := &purges{Service: w.Service}
		w.cfg.Feed = recorder
		for _, wait := range []time.Duration{0, 2 * time.Hour} {
			<-time.After(wait)
			recorder.asked = nil
			_, err := audit.New(w.cfg).Run(t.Context(), audit.Walk{Tidy: true})
			w.must(err)
			assert.Equal(t, wait > 0, len(recorder.asked) == 1, "%v: the event may be in flight", recorder.asked)
		}
		assert.Equal(t, []string{"bob counts " + ids[2]}, recorder.asked)
	})
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

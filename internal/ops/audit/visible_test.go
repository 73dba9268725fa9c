package audit_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// veiled is a table in which the last item of each transaction becomes visible five seconds after the first
// item. The transactions begin at times.
type veiled struct {
	table.Store
	key   table.Key
	times []time.Time
}

func (s veiled) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for page, err := range s.Store.Query(ctx, q) {
			if now := time.Now(); slices.ContainsFunc(s.times, func(at time.Time) bool { return !now.Before(at) && now.Sub(at) < 5*time.Second }) {
				page.Items = slices.DeleteFunc(page.Items, func(it table.Item) bool { return it.Key == s.key })
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

// nowhere drops the messages of calls, because no test needs their work.
type nowhere struct{}

func (nowhere) Publish(string, ...*message.Message) error { return nil }
func (nowhere) Close() error                              { return nil }

// Until DynamoDB answers a transaction, even consistent reads may see only some of its items. If a count
// is visible before its edge, this is no damage, and no repair may change the count (I4). The follow may also end
// and begin again before the audit checks the count.
func TestACountIsNotJudgedWhileItsTransactionBecomesVisible(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damaged bool
		again   []time.Duration
	}{"sound": {}, "damaged": {damaged: true}, "followed again": {again: []time.Duration{table.VisibleWithin - time.Second}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mem, ids := tabletest.NewMemory(), id.NewGenerator(time.Now)
				service := feed.New(feed.Config{Access: access.New(access.Config{
					Store: mem, Local: true, Publisher: nowhere{}, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(timelineTTL),
				})})
				for _, user := range []string{"ann", "eve"} {
					_, err := service.PutProfile(t.Context(), user, feed.ProfileInput{Name: user})
					require.NoError(t, err)
				}
				require.NoError(t, service.Follow(t.Context(), "eve", "ann"))
				edge := schema.FollowerKey("ann", "eve")
				if c.damaged {
					for _, key := range []table.Key{edge, schema.FollowingKey("eve", "ann")} {
						_, err := mem.Delete(t.Context(), table.DeleteInput{Key: key})
						require.NoError(t, err)
					}
				}
				store := veiled{mem, edge, []time.Time{time.Now()}}
				for _, later := range c.again {
					store.times = append(store.times, time.Now().Add(later))
				}
				var counts []audit.Finding
				_, err := audit.New(audit.Config{Store: store, Feed: service, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(timelineTTL)}).Run(t.Context(), audit.Walk{
					Repair: true, Found: func(f audit.Finding) error {
						if f.Kind == audit.UserCount {
							counts = append(counts, f)
						}
						return nil
					},
				})
				require.NoError(t, err)
				if c.damaged {
					require.Len(t, counts, 2, "wrong counts that stay")
					assert.True(t, counts[0].Mended && counts[1].Mended)
					return
				}
				assert.Empty(t, counts, "a count whose edge is not visible yet")
			})
		})
	}
}

// After a restore thousands of counts may differ. Each difference must stay for seconds before it is a
// finding, and the walk waits for all differences together.
func TestAWalkDoesNotWaitForEachCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem, ids := tabletest.NewMemory(), id.NewGenerator(time.Now)
		const users = 1500
		for n := range users {
			_, err := mem.Put(t.Context(), table.PutInput{Item: table.Item{
				Key: schema.CountsKey(fmt.Sprintf("u%d", n)), Attrs: []table.Attr{{Name: schema.AttrPosts, Value: table.N(3)}},
			}})
			require.NoError(t, err)
		}
		began := time.Now()
		sum, err := audit.New(audit.Config{Store: mem, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(timelineTTL)}).Run(t.Context(), audit.Walk{Repair: true})
		require.NoError(t, err)
		assert.Equal(t, users, sum.Mended[audit.UserCount])
		assert.LessOrEqual(t, time.Since(began), 4*table.VisibleWithin, "of virtual time")
	})
}

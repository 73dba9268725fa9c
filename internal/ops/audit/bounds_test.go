package audit_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// A check skips a list with more than Most items. Of the followers of a post it reads at most Most.
func TestAnAuditorLooksAtNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most   int // the bound that finds the damage; with one less it is not found
		kind   audit.Kind
		damage func(w *world, posts []string)
	}{
		"a count of a user": {8, audit.UserCount, func(w *world, _ []string) {
			w.change(schema.FollowerCountKeys("ann")[0], nil, []table.Attr{attr(schema.AttrN, table.N(8-w.followers("ann")))})
		}},
		"a count of comments": {8, audit.CommentCount, func(w *world, posts []string) {
			w.change(schema.PostKey("ann", posts[6]), nil, []table.Attr{attr(schema.AttrComments, table.N(7))})
		}},
		"an entry of the third follower": {3, audit.EntryMissing, func(w *world, posts []string) {
			w.drop(entryKey("fan2", posts[6], "ann"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, posts := town(t, tabletest.NewMemory())
				w.quiet()
				c.damage(w, posts)
				cfg := w.cfg
				cfg.Random = func() float64 { return 0 }
				for most, want := range map[int]map[audit.Kind]int{c.most: {c.kind: 1}, c.most - 1: {}} {
					cfg.Most = most
					sum, err := audit.New(cfg).Run(t.Context(), audit.Walk{})
					w.must(err)
					assert.Equal(t, want, sum.Found, most)
				}
			})
		})
	}
}

// followers returns the count of a user's followers.
func (w *world) followers(user string) (n int64) {
	for _, key := range schema.FollowerCountKeys(user) {
		if it := w.item(key); it != nil {
			n += it.Int(schema.AttrN)
		}
	}
	return n
}

// conflicting is a table in which the first attempts of each transaction conflict with other transactions.
type conflicting struct {
	table.Store
	times, left int
}

func (c *conflicting) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if c.left--; c.left >= 0 {
		return table.WriteResult{}, &table.CancelledError{Reasons: []table.CancelledOp{{Reason: table.CancelConflict}}}
	}
	c.left = c.times
	return c.Store.Transact(ctx, in)
}

// A check that conflicts with other transactions is repeated. If the last attempt also conflicts, the
// check counts as undecided.
func TestACheckThatMeetsOtherTransactionsIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, posts := town(t, tabletest.NewMemory())
		w.quiet()
		w.put(table.Item{Key: entryKey("fan1", madeUp(posts[3]), "ann"), Attrs: schema.EntryAttrs(w.now().Add(time.Hour), 1)})
		cfg := w.cfg
		cfg.Random = func() float64 { return 0 }
		for times, want := range map[int]audit.Summary{4: {Found: map[audit.Kind]int{audit.EntryOrphan: 1}}, 5: {Found: map[audit.Kind]int{}, Undecided: 1}} {
			cfg.Store = &conflicting{w.store, times, times}
			sum, err := audit.New(cfg).Run(t.Context(), audit.Walk{})
			w.must(err)
			assert.Equal(t, want, audit.Summary{Found: sum.Found, Undecided: sum.Undecided}, times)
		}
	})
}

func TestAWrongCountHidesNoLikesThatNobodyCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, posts := town(t, tabletest.NewMemory())
		w.quiet()
		w.put(uncounted(w, posts[4], "fan6", 40*24*time.Hour).Item())
		w.change(schema.LikeCountKey(posts[4]), nil, []table.Attr{attr(schema.AttrCount("like"), table.N(5))})
		sum, err := audit.New(w.cfg).Run(t.Context(), audit.Walk{})
		w.must(err)
		assert.Equal(t, map[audit.Kind]int{audit.LikeCount: 1, audit.LikeUncounted: 1}, sum.Found)
	})
}

// away is a table that fails the second query of a partition.
type away struct {
	table.Store
	pk    string
	reads int
}

func (a *away) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	if q.PK == a.pk {
		if a.reads++; a.reads == 2 {
			return func(yield func(table.Page, error) bool) { yield(table.Page{}, errors.New("away")) }
		}
	}
	return a.Store.Query(ctx, q)
}

func TestAJudgementThatCannotReadEndsTheWalk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := town(t, tabletest.NewMemory())
		w.quiet()
		w.change(schema.FollowerCountKeys("ann")[0], nil, []table.Attr{attr(schema.AttrN, table.N(1))})
		cfg := w.cfg
		cfg.Store = &away{Store: w.store, pk: schema.UserPK("ann")}
		_, err := audit.New(cfg).Run(t.Context(), audit.Walk{})
		require.ErrorContains(t, err, "away")
	})
}

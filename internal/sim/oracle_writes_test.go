package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/likeagg"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// written is a world without processes in which one call writes.
type written struct {
	*World
	post string
	made time.Time
}

func newWritten(t *testing.T) *written {
	t.Helper()
	w := quietWorld()
	post, err := id.NewSeededGenerator(time.Now, entropy(1)).New()
	require.NoError(t, err)
	made, err := id.Time(post)
	require.NoError(t, err)
	return &written{w, post, made}
}

// call lets a process write an item.
func (w *written) call(it table.Item) {
	w.acting = &call{proc: &Proc{Name: "worker", limit: 3}, op: "op", done: make(chan struct{})}
	w.write(it)
	w.acting = nil
}

// TestAWriteAgainstTheRulesOfItsItemIsFound writes items as a defective product would.
func TestAWriteAgainstTheRulesOfItsItemIsFound(t *testing.T) {
	flush := schema.Flush{Inc: "inc", Seq: 1}
	like := func(w *written, kind, base string, ttl time.Time) table.Item {
		return schema.Like{Post: w.post, User: "u0", Kind: kind, Base: base, Version: w.post, Flush: flush, TTL: ttl, LikeShards: 1}.Item()
	}
	kept := func(w *written, more time.Duration) time.Time {
		return w.made.Add(timelineTTL + schema.DeliveryKept + more)
	}
	entry := func(w *written, more time.Duration) table.Item {
		return table.Item{Key: table.Key{PK: schema.TimelinePK("u1"), SK: schema.EntrySK(w.post, "u0")}, Attrs: schema.EntryAttrs(w.made.Add(timelineTTL+more), 1)}
	}
	mode := func(w *written, state schema.ModeState, v int64, after time.Duration) table.Item {
		return schema.Mode{Author: "u0", State: state, V: v, Since: w.post, At: w.made.Add(after)}.Item()
	}
	mark := func(w *written, kind schema.MarkKind, more time.Duration) table.Item {
		m := schema.Mark{User: "u1", Author: "u0", Kind: kind, V: 1, Version: v1, From: w.post, TTL: w.made.Add(timelineTTL + time.Hour + more)}
		if kind == schema.MarkBackfill {
			m.Until = w.made.Add(time.Minute)
		}
		return m.Item()
	}
	for name, c := range map[string]struct {
		do   func(w *written)
		want string // the beginning of the only violation, "" for none
	}{
		"a like":                                {func(w *written) { w.call(like(w, "like", "", time.Time{})) }, ""},
		"an unlike that expires":                {func(w *written) { w.call(like(w, "", "", w.made.Add(unlikeKept))) }, ""},
		"an unlike that does not expire":        {func(w *written) { w.call(like(w, "", "", time.Time{})) }, "I3: the like of"},
		"an unlike that expires too early":      {func(w *written) { w.call(like(w, "", "", w.made.Add(messages.MaxAge))) }, "I3: the unlike of"},
		"an unlike that is counted and expires": {func(w *written) { w.call(like(w, "love", "like", w.made.Add(unlikeKept))) }, "I3: the like of"},
		"an entry":                              {func(w *written) { w.call(entry(w, 0)) }, ""},
		"an entry that lives too long":          {func(w *written) { w.call(entry(w, time.Hour)) }, "I1: the entry"},
		"a plan":                                {func(w *written) { w.call(schema.Plan{Post: w.post, TTL: kept(w, 0)}.Item()) }, ""},
		"a plan that expires too early":         {func(w *written) { w.call(schema.Plan{Post: w.post, TTL: kept(w, -day)}.Item()) }, "I6: the delivery record"},
		"a chunk below zero": {func(w *written) {
			w.call(schema.Chunk{Post: w.post, Done: w.made, Skipped: -1, TTL: kept(w, 0)}.Item())
		}, "I1: a chunk"},
		"a mark of a backfill":                               {func(w *written) { w.call(mark(w, schema.MarkBackfill, 0)) }, ""},
		"a mark of a backfill that ends too early":           {func(w *written) { w.call(mark(w, schema.MarkBackfill, -time.Hour)) }, "I1: the backfill mark"},
		"a pulled mark that ends while the author is pulled": {func(w *written) { w.write(mode(w, schema.ModePull, 1, 0)); w.call(mark(w, schema.MarkPulled, 0)) }, "I1: the pulled mark"},
		"a pulled mark that ends with the leaving":           {func(w *written) { w.write(mode(w, schema.ModeLeaving, 1, 0)); w.call(mark(w, schema.MarkPulled, 0)) }, ""},
		"a mode that skips the walk":                         {func(w *written) { w.call(mode(w, schema.ModePull, 1, 0)) }, "I6: the mode of"},
		"a mode that rests": {func(w *written) {
			w.write(mode(w, schema.ModePull, 1, 0))
			w.call(mode(w, schema.ModeLeaving, 2, modeRest))
		}, ""},
		"a mode that changes too early": {func(w *written) {
			w.write(mode(w, schema.ModePull, 1, 0))
			w.call(mode(w, schema.ModeLeaving, 2, modeRest-time.Second))
		}, "I6: the mode of"},
		"a mode that changes below the limit": {func(w *written) { w.steps, w.began["op"] = 2, 1; w.call(mode(w, schema.ModeSwitching, 1, 0)) }, "I6: the mode of"},
		"a fence without a reason": {func(w *written) {
			w.call(table.Item{Key: schema.LikeCountKey(w.post), Attrs: []table.Attr{{Name: schema.AttrFenced("inc"), Value: table.N(1)}}})
		}, "I3: worker fences"},
		"a prune of an incarnation that noted no end": {func(w *written) {
			key := schema.LikeCountKey(w.post)
			w.write(table.Item{Key: key, Attrs: []table.Attr{{Name: schema.AttrFlushed("inc"), Value: table.N(1)}}})
			w.countBy[key] = "another"
			w.call(table.Item{Key: key})
		}, "I3: the ledger of post"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWritten(t)
			c.do(w)
			if c.want == "" {
				assert.Empty(t, w.load.violations, name)
				return
			}
			require.NotEmpty(t, w.load.violations, name)
			assert.Contains(t, w.load.violations[0], c.want, name)
		})
	}
}

// TestAWrongOutcomeIsFound passes outcomes of windows to the oracle.
func TestAWrongOutcomeIsFound(t *testing.T) {
	right := likeagg.Outcome{Messages: 2, Applied: 1, Flushed: true, LedgerBytes: 100}
	for name, change := range map[string]func(o *likeagg.Outcome){
		"more applied than messages":   func(o *likeagg.Outcome) { o.Applied = 3 },
		"flushed, and nothing applied": func(o *likeagg.Outcome) { o.Applied = 0 },
		"flushed, and lost":            func(o *likeagg.Outcome) { o.Lost = true },
		"flushed without a size":       func(o *likeagg.Outcome) { o.LedgerBytes = 0 },
	} {
		w, wrong := quietWorld(), right
		change(&wrong)
		w.sawOutcome(&Proc{}, right)
		require.Empty(t, w.load.violations)
		w.sawOutcome(&Proc{}, wrong)
		assert.Len(t, w.load.violations, 1, name)
	}
}

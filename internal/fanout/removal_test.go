package fanout_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// entries puts n entries of an author into user's timeline, and an entry of another author after every third
// entry. It returns the keys of the other author's entries.
func (w *world) entries(user, author string, n int) (others []string) {
	w.Helper()
	put := func(author string) string {
		post := w.newID()
		at, err := id.Time(post)
		w.must(err)
		it := table.Item{Key: table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(post, author)}, Attrs: schema.EntryAttrs(at.Add(timelineTTL), 1)}
		_, err = w.mem.Put(w.Context(), table.PutInput{Item: it})
		w.must(err)
		return it.Key.SK
	}
	for i := range n {
		put(author)
		if i%3 == 0 {
			others = append(others, put("other"))
		}
	}
	return others
}

func (w *world) timeline(user string) (keys []string) {
	w.Helper()
	items, _, err := table.Collect(w.mem.Query(w.Context(), table.Query{PK: schema.TimelinePK(user), Consistent: true}), 0)
	w.must(err)
	for _, it := range items {
		keys = append(keys, it.Key.SK)
	}
	return keys
}

func TestAnUnfollowRemovesTheEntriesInBoundedSteps(t *testing.T) {
	for name, c := range map[string]struct {
		entries, most int
		options       []func(*fanout.Config)
	}{
		"small pages": {entries: 50, most: 1 + 3*2 + 1, options: []func(*fanout.Config){small}}, // the mark; a query and a transaction a page; the rest
		"large pages": {entries: 6000, most: 1 + 2*(1+11) + 1, options: []func(*fanout.Config){func(c *fanout.Config) { c.PlanChunks = 2 }}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0, c.options...)
			others := w.entries("fan", author, c.entries)
			w.enqueue(w.unfollow("fan"))
			for messages := 1; ; messages++ {
				e := w.take()
				if e == nil {
					assert.GreaterOrEqualf(t, messages, 3, "all was done by %d message", messages-1)
					break
				}
				calls := 0
				w.store.around = func(_ table.Op, _ []table.Key, do func() error) error { calls++; return do() }
				w.must(handle(t.Context(), w.worker, e))
				require.LessOrEqualf(t, calls, c.most, "a message took %d calls", calls)
			}
			if got := w.timeline("fan"); !slices.Equal(got, others) {
				t.Errorf("%d entries are left, want the %d of the other author", len(got), len(others))
			}
		})
	}
}

// TestARemovalSparesTheEntriesOfANewFollow follows the author again, and ends the new follow's backfill,
// just before each port call of a removal in turn. This also covers a call of a paused worker that reaches
// the table late.
func TestARemovalSparesTheEntriesOfANewFollow(t *testing.T) {
	for at := 0; ; at++ {
		w := newWorld(t, 0, small)
		posts := w.stored(9)
		w.must(w.worker.HandleBackfills(t.Context(), w.follow("fan", id.Min)))
		w.take()
		removal := w.unfollow("fan")
		fired := w.atCall(at, func() {
			w.must(w.worker.HandleBackfills(t.Context(), w.follow("fan", posts[2])))
			w.take()
		})
		w.enqueue(removal)
		w.drain(w.worker)
		if !fired() {
			require.GreaterOrEqualf(t, at, 6, "only %d calls", at)
			w.wantHome("fan")
			return
		}
		w.enqueue(removal) // redelivered late
		w.drain(w.worker)
		home := w.home("fan")
		if want := posts[2:]; len(home) < len(want) || !slices.Equal(home[len(home)-len(want):], want) {
			t.Errorf("a new follow at call %d: the timeline holds %v, want %v", at, home, want)
		}
	}
}

// A changed mark ends the removal. A conflict with other writes of the same entries does not end the removal.
func TestARemovalThatConflictsComesAgain(t *testing.T) {
	for reason, again := range map[table.CancelReason]bool{table.CancelCondition: false, table.CancelConflict: true} {
		w := newWorld(t, 0, small)
		w.entries("fan", author, 5)
		removal := w.unfollow("fan")
		w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
			if op == table.OpTransact {
				return &table.CancelledError{Reasons: []table.CancelledOp{{Reason: reason}}}
			}
			return do()
		}
		_, later := errors.AsType[*queue.Later](handle(t.Context(), w.worker, removal))
		assert.Equal(t, again, later, reason)
	}
}

func TestAFaultInARemovalLeavesNoEntries(t *testing.T) {
	for _, f := range faults {
		for at, fired := 0, true; fired; at++ {
			w := newWorld(t, 0, small)
			others := w.entries("fan", author, 20)
			w.enqueue(w.unfollow("fan"))
			fired = w.drainWithFault(at, f.done, f.dies)
			if got := w.timeline("fan"); !slices.Equal(got, others) {
				t.Fatalf("%s at call %d: %d entries are left, want %d", f.name, at, len(got), len(others))
			}
		}
	}
}

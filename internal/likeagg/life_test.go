package likeagg

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// A like that waited for at least lateLike belongs to a former life if its user was removed, or has
// returned, since the like was made. The last look of the removal handles a younger like.
func TestALikeOutOfABacklogBringsNothingOfAFormerLifeBack(t *testing.T) {
	removal := func(at time.Time) schema.Removal {
		return schema.Removal{User: "alice", Event: id.Floor(at), At: at}
	}
	came := func(after time.Time) table.Item {
		return schema.Profile{User: "alice", Name: "Alice", CreatedAt: after, After: id.Floor(after), Former: removal(after)}.Item()
	}
	for name, tt := range map[string]struct {
		user  func(sent time.Time) []table.Item
		age   time.Duration
		want  int64
		reads int
	}{
		"removed":                   {func(sent time.Time) []table.Item { return []table.Item{removal(sent.Add(time.Second)).Item()} }, lateLike, 0, 1},
		"removed, and a young like": {func(sent time.Time) []table.Item { return []table.Item{removal(sent.Add(time.Second)).Item()} }, lateLike - 10*time.Second, 1, 0},
		"came back after the like":  {func(sent time.Time) []table.Item { return []table.Item{came(sent.Add(time.Minute))} }, lateLike, 0, 1},
		"came back before the like": {func(sent time.Time) []table.Item { return []table.Item{came(sent.Add(-time.Second))} }, lateLike, 1, 1},
		"in the first life": {func(sent time.Time) []table.Item {
			return []table.Item{schema.Profile{User: "alice", CreatedAt: sent}.Item()}
		}, lateLike, 1, 1},
		"of a producer's own user":   {func(time.Time) []table.Item { return nil }, lateLike, 1, 1},
		"of an import, in any event": {func(sent time.Time) []table.Item { return []table.Item{removal(sent.Add(time.Second)).Item()} }, lateLike, 1, 0},
	} {
		for _, before := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				step(t, func(w *world) {
					w.tune = func(cfg *Config) { cfg.AnyAge = name == "of an import, in any event" }
					if before {
						p := w.run()
						w.send("alice", true)
						w.settle()
						w.wantCount(1)
						p.stop()
						<-p.ended
					}
					sent := time.Now()
					w.send("alice", true)
					for _, it := range tt.user(sent) {
						_, err := w.mem.Put(t.Context(), table.PutInput{Item: it})
						require.NoError(t, err)
					}
					pass(tt.age)
					w.run()
					w.settle()
					w.wantCount(tt.want)
					w.wantDead(0, "")
					assert.Equal(t, tt.reads, w.requested["user"])
				})
			})
		}
	}
}

// A removal takes likes back by Unliked, so no Unliked is left out.
func TestAnUnlikeOutOfABacklogCounts(t *testing.T) {
	step(t, func(w *world) {
		p := w.run()
		w.send("alice", true)
		w.settle()
		p.stop()
		<-p.ended
		w.send("alice", false)
		_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.Removal{User: "alice", Event: w.newID(), At: time.Now()}.Item()})
		require.NoError(t, err)
		pass(2 * time.Hour)
		w.run()
		w.settle()
		w.wantCount(0)
	})
}

// An aggregator receives a like, and sleeps for an hour before the write. By then the removal has
// had its last look.
func TestAnAggregatorThatSleptAsksOnceMoreInWhichLifeALikeWasMade(t *testing.T) {
	step(t, func(w *world) {
		slept := false
		w.fault = func(r request) fault {
			if r.op == "put" && !slept {
				slept = true
				_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.Removal{User: "alice", Event: w.newID(), At: time.Now()}.Item()})
				require.NoError(t, err)
				pass(time.Hour)
				return failed
			}
			return none
		}
		w.run()
		w.send("alice", true)
		w.settle()
		assert.True(t, slept)
		w.wantCount(0)
		w.wantDead(0, "")
	})
}

// The answer about a user's life is valid for minutes only: a like that is tried for longer is asked about
// again, because the user may have been removed, and the removal may have had its last look.
func TestALikeThatIsTriedForLongIsJudgedAgain(t *testing.T) {
	step(t, func(w *world) {
		failing := true
		w.fault = func(r request) fault {
			if r.op == "put" && failing {
				failing = false
				_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.Removal{User: "alice", Event: w.newID(), At: time.Now()}.Item()})
				require.NoError(t, err)
				pass(judged)
				return failed
			}
			return none
		}
		w.send("alice", true)
		pass(lateLike)
		w.run()
		w.settle()
		assert.False(t, failing)
		assert.Equal(t, 2, w.requested["user"])
		w.wantCount(0)
		w.wantDead(0, "")
	})
}

package likeagg

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

const day = 24 * time.Hour

// A fence may be in flight while another aggregator prunes. All likes that the dead
// aggregator counted stay counted, and its uncounted like is settled.
func TestAFenceOnItsWayWhileAnotherPrunes(t *testing.T) {
	step(t, func(w *world) {
		g := others(1)
		w.leftBy(g, 50)
		w.large(true)
		pass(33*day - 15*time.Second)
		w.tune = func(cfg *Config) { cfg.FenceAfter = 1 }
		slow, fenced := w.run(), make(chan struct{})
		w.fault = func(r request) fault {
			if r.op == "fence" && r.p == slow {
				close(fenced)
				pass(15 * day)
			}
			return none
		}
		w.send("orphan", true)
		<-fenced
		w.run()
		for i := range 24 { // the slow aggregator gets about half of these likes
			w.send(fmt.Sprint("new", i), true)
			pass(20 * time.Hour)
		}
		w.settle()
		assert.LessOrEqual(t, len(w.count().Done), 70, "entries: nothing was pruned")
		w.unlikeAll(50)
		w.wantCount(25)
	})
}

// A fence may even take effect after the entry was pruned: a fence proves nothing about an aggregator that
// has noted its end.
func TestAFenceThatLandsAfterThePrune(t *testing.T) {
	step(t, func(w *world) {
		g := others(1)
		for i := range 5 {
			w.store(schema.Like{User: fmt.Sprint("fan", i), Kind: schema.KindLike, Version: w.newID(), Flush: g})
		}
		w.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(5)}, table.Attr{Name: schema.AttrFenced(g.Inc), Value: table.N(1)})
		w.noteEnd(g.Inc)
		w.run()
		w.unlikeAll(5)
		w.wantCount(0)
	})
}

// Pruning depends on no clock, so an aggregator whose clock is ahead harms no other aggregator.
func TestAClockAheadPrunesNothingThatOthersNeed(t *testing.T) {
	for _, ahead := range []time.Duration{26 * time.Hour, 50 * time.Hour, 25 * day} {
		t.Run(ahead.String(), func(t *testing.T) {
			step(t, func(w *world) {
				w.large(true)
				g := others(1) // still alive
				w.leftBy(g, 20)
				fast := w.run()
				fast.skew.Store(int64(ahead))
				for i := range 10 {
					w.send(fmt.Sprint("new", i), true)
					pass(day)
				}
				w.settle()
				assert.LessOrEqual(t, len(w.count().Done), 70, "entries are left")
				fast.stop()
				<-fast.ended
				w.run() // with the right clock
				w.unlikeAll(20)
				w.wantCount(10)
				w.wantDead(0, "")
			})
		})
	}
}

// A flush prunes the entries of noted ends. It never prunes an entry without a note, or an entry of a post
// that the note excepts.
func TestWhatIsPruned(t *testing.T) {
	step(t, func(w *world) {
		w.large(true)
		ago := dayOf(time.Now()) - 45 // the day of the entries that are pruned first
		lost, dead := schema.Flush{Inc: newIncarnation(ago, 1)}, schema.Flush{Inc: newIncarnation(ago, 2)}
		w.setCount(table.Attr{Name: schema.AttrFlushed(lost.Inc), Value: table.N(3)}, table.Attr{Name: schema.AttrFenced(dead.Inc), Value: table.N(1)})
		w.noteEnd(lost.Inc, w.post)
		w.run()
		for i := range 12 {
			count := w.count()
			if n := len(count.Done); i > 0 && n > 70 {
				t.Errorf("%d entries on day %d", n, i)
			}
			if _, kept := count.Done[lost.Inc]; !kept || !count.Fenced[dead.Inc] {
				t.Errorf("day %d: an entry that is needed is gone: %v", i, count)
			}
			for j := range 3 {
				w.send(fmt.Sprintf("user%d-%d", i, j), true)
				w.settle()
				pass(2 * time.Hour)
			}
			pass(18 * time.Hour)
		}
		pruned := 0
		for _, o := range w.outcomes() {
			pruned += o.Pruned
		}
		w.wantCount(36)
		assert.GreaterOrEqualf(t, pruned, 90, "outcomes tell of %d pruned entries", pruned)

		// A process that has not read the notes yet does not prune at once, because requests may be in flight.
		w.procs[0].stop()
		<-w.procs[0].ended
		w.large(true)
		w.run()
		for i, most := range []int{1000, 1000, 149} {
			w.send(fmt.Sprint("late", i), true)
			w.settle()
			if n := len(w.count().Done); n > most || most > 149 && n < 150 {
				t.Errorf("%d entries after %d flushes", n, i)
			}
			pass(40 * time.Minute)
		}
	})
}

// If an aggregator died and the message of its like was never redelivered, the like is
// counted with the user's next action.
func TestALikeThatWasNeverCountedIsSettledByTheNextAction(t *testing.T) {
	for name, next := range map[string]bool{"unlike": false, "like": true} {
		t.Run(name, func(t *testing.T) {
			step(t, func(w *world) {
				w.store(schema.Like{User: "alice", Kind: schema.KindLike, Version: w.newID(), Flush: others(1)})
				pass(40 * day)
				w.run()
				w.send("alice", next)
				w.settle()
				w.wantCount(map[bool]int64{true: 1}[next])
			})
		})
	}
}

// A message in the last hour of its life does not wait for another aggregator: its like is counted or refused.
func TestALikeNearItsAgeLimitIsSettledOrRefused(t *testing.T) {
	for _, left := range []time.Duration{time.Minute, 12 * time.Second, 6 * time.Second, 2 * time.Second, time.Second, 500 * time.Millisecond} {
		t.Run(left.String(), func(t *testing.T) {
			step(t, func(w *world) {
				version, made := w.newID(), time.Now()
				w.store(schema.Like{User: "alice", Kind: schema.KindLike, Version: version, Flush: others(1)})
				pass(messages.MaxAge - left - time.Since(made))
				w.run()
				w.queue.publish(encode(version, w.post, "alice", "like")) // a redrive publishes an old message
				w.send("bob", true)                                       // one window has both likes
				w.settle()
				counted := w.count().Likes() - 1
				if dead := int64(len(w.queue.dead)); counted+dead != 1 || left >= 2*time.Second && dead > 0 {
					t.Errorf("counted %d times, dead letters %q", counted, w.queue.dead)
				}
				for _, o := range w.outcomes() {
					assert.False(t, o.Lost, "a message that is too old ends the window of others")
				}
				pass(10 * day)
				w.send("alice", false)
				w.settle()
				w.wantCount(1)
			})
		})
	}
}

// A refusal proves that the refused try wrote nothing. The refusal proves nothing about an earlier try.
func TestARefusalAfterALostAnswerDecidesNothing(t *testing.T) {
	for name, first := range map[string]fault{"lands": lost, "lands late": late} {
		t.Run(name, func(t *testing.T) {
			step(t, func(w *world) {
				w.faults = map[string]fault{"put1": first, "put2": invalid}
				w.run()
				w.send("alice", true)
				w.settle()
				w.send("bob", true)
				w.settle()
				w.wantDead(0, "")
				w.wantCount(2)
				w.send("alice", false)
				w.send("bob", false)
				w.settle()
				w.wantCount(0)
			})
		})
	}
}

// An expired item may refuse the second try of a new like, and go before the first try lands.
func TestATryMayLandAfterTheRefusalOfTheNextTry(t *testing.T) {
	step(t, func(w *world) {
		w.store(schema.Like{User: "alice", Version: w.newID(), Flush: others(1), TTL: time.Now()})
		tried, flushed := false, time.Time{}
		w.fault = func(r request) fault {
			switch {
			case r.op == "put" && strings.HasSuffix(r.key.SK, "alice") && !tried:
				tried = true
				return late
			case r.op == "flush" && flushed.IsZero():
				flushed = time.Now()
				_, err := w.mem.Delete(t.Context(), table.DeleteInput{Key: schema.LikeKey(w.post, "alice", 1)})
				assert.NoError(t, err)
			case r.op == "post" && !flushed.IsZero() && time.Since(flushed) < 3*time.Minute:
				return failed // the like is looked at again after the first try has landed
			}
			return none
		}
		w.run()
		w.send("alice", true)
		w.send("bob", true)
		w.settle()
		w.wantCount(2)
	})
}

// If a clock jumps while a window judges a like, the aggregator acks no uncounted like.
func TestAClockThatJumpsWhileALikeIsJudged(t *testing.T) {
	step(t, func(w *world) {
		version := w.newID()
		w.store(schema.Like{User: "alice", Kind: schema.KindLike, Version: version, Flush: others(1)})
		p := w.run()
		w.fault = func(r request) fault {
			if r.op == "ledger" {
				p.skew.Store(int64(40 * day))
			}
			return none
		}
		w.queue.publish(encode(version, w.post, "alice", "like"))
		w.settle()
		if w.count().Likes() != 1 && len(w.queue.dead) != 1 {
			t.Errorf("neither counted nor a dead letter: %d, %q", w.count().Likes(), w.queue.dead)
		}
	})
}

// If no entry of a ledger can be dropped, the ledger stops the count of its post at the size limit of an
// item. The likes become dead letters with that reason. Outcomes report the size long before.
func TestAFullLedgerLosesNoLike(t *testing.T) {
	step(t, func(w *world) {
		fill := func(size int) { w.setCount(table.Attr{Name: "ledger", Value: table.S(strings.Repeat(" ", size))}) }
		fill(largeLedger)
		w.run()
		w.send("alice", true)
		w.settle()
		out := w.outcomes()[0]
		assert.GreaterOrEqualf(t, out.LedgerBytes, largeLedger, "a ledger of %d bytes", out.LedgerBytes)
		got, err := w.mem.Get(t.Context(), table.GetInput{Key: schema.LikeCountKey(w.post)})
		require.NoError(t, err)
		fill(largeLedger + table.MaxItemBytes - table.Size(*got.Item)) // full to the last byte
		pass(day)                                                      // the new incarnation has no entry yet
		w.send("bob", true)
		w.settle()
		w.wantDead(1, "bytes")
		w.wantCount(1)
	})
}

// While FANFARE_LIKE_WINDOW is being changed, aggregators with the old and the new window count the same post.
func TestAggregatorsOfTwoWindowsCountExactly(t *testing.T) {
	step(t, func(w *world) {
		for _, window := range []time.Duration{time.Second, time.Minute, 10 * time.Millisecond, time.Second} {
			w.tune = func(cfg *Config) { cfg.Window = window }
			w.run()
			for i := range 100 {
				w.send(fmt.Sprintf("user%d", i), i%3 > 0 || window == time.Minute)
				pass(100 * time.Millisecond)
			}
			if len(w.procs) == 3 {
				w.procs[0].stop()
			}
		}
		w.settle()
		w.wantCount(66)
	})
}

package likeagg

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Five consecutive failures of an unknown kind end a window. A transient failure resets the count.
func TestAWindowIsLostAfterFiveUnknownFailuresInARow(t *testing.T) {
	four := []fault{denied, denied, denied, denied}
	for name, tt := range map[string]struct {
		puts []fault
		lost bool
	}{
		"four":                         {puts: four},
		"five":                         {puts: append(four[:4:4], denied), lost: true},
		"four, an outage, four others": {puts: append(append(four[:4:4], failed), four...)},
	} {
		t.Run(name, func(t *testing.T) {
			step(t, func(w *world) {
				w.faults = map[string]fault{}
				for i, f := range tt.puts {
					w.faults[fmt.Sprint("put", i+1)] = f
				}
				w.run()
				w.send("alice", true)
				w.settle()
				w.wantCount(1)
				assert.Equal(t, tt.lost, w.outcomes()[0].Lost)
			})
		})
	}
}

// A request that the table refuses for minutes is repeated with growing delays of up to 5 s.
func TestARefusedRequestIsRepeatedEverMoreSlowly(t *testing.T) {
	step(t, func(w *world) {
		began := time.Now()
		w.fault = func(r request) fault {
			if r.op == "put" && time.Since(began) < 5*time.Minute {
				return failed
			}
			return none
		}
		w.run()
		w.send("alice", true)
		w.settle()
		w.wantCount(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Less(t, w.requested["put"], 250, "puts in five minutes")
	})
}

// A window that holds half of the allowed messages closes before its time ends.
func TestAWindowOfHalfTheMessagesClosesAlone(t *testing.T) {
	for n, flushes := range map[int]int{19: 0, 20: 1, 21: 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			step(t, func(w *world) {
				w.tune = func(cfg *Config) { cfg.Window = time.Hour } // MaxMessages is 40
				w.run()
				for i := range n {
					w.send(fmt.Sprint("user", i), true)
				}
				pass(10 * time.Second)
				if assert.Len(t, w.outcomes(), flushes) && flushes > 0 {
					assert.Equal(t, 20, w.outcomes()[0].Messages)
				}
			})
		})
	}
}

func TestTheOutcomeOfAWindow(t *testing.T) {
	step(t, func(w *world) {
		w.run()
		w.send("alice", true)
		w.send("alice", false)
		w.send("bob", true)
		w.send("carol", true)
		w.settle()
		w.post = w.newPost(schema.PostRef{Deleted: true})
		w.send("alice", true)
		w.settle()
		out := w.outcomes()
		require.Len(t, out, 2)
		for i := range out {
			assert.GreaterOrEqual(t, out[i].Lag, time.Second)
			assert.Less(t, out[i].Lag, 2*time.Second)
			out[i].Lag = 0
		}
		bytes := out[0].LedgerBytes
		assert.Positive(t, bytes)
		assert.Equal(t, []Outcome{{Messages: 4, Applied: 3, Flushed: true, LedgerBytes: bytes}, {Messages: 1}}, out)
	})
}

// A like of an unknown post is left for later MaxAttempts times, and is then refused.
func TestALikeOfAnUnknownPostDiesAfterMaxAttempts(t *testing.T) {
	var dead error
	for receives := 1; dead == nil; receives++ {
		err := unknownPost("post", receives, time.Now())
		if later, ok := errors.AsType[*queue.Later](err); ok {
			assert.Equal(t, queue.Backoff(receives), later.After)
			continue
		}
		assert.Equal(t, queue.MaxAttempts+1, receives)
		dead = err
	}
	assert.ErrorContains(t, dead, "there is no post")
}

// sized pads the count item to size bytes, after a flush has written it.
func (w *world) sized(size int) {
	w.t.Helper()
	pad := func(size int) {
		w.setCount(table.Attr{Name: "ledger", Value: table.S(strings.Repeat(" ", size))})
	}
	pad(0)
	got, err := w.mem.Get(w.t.Context(), table.GetInput{Key: schema.LikeCountKey(w.post), Consistent: true})
	require.NoError(w.t, err)
	pad(size - table.Size(*got.Item))
}

// The alarm about large ledgers is logged at most once an hour for all posts.
func TestALargeLedgerIsToldOnceAnHour(t *testing.T) {
	step(t, func(w *world) {
		core, logs := observer.New(zap.ErrorLevel)
		w.tune = func(cfg *Config) { cfg.Log = zap.New(core) }
		told := func() int { return logs.FilterMessageSnippet("ledger of a post is large").Len() }
		w.run()
		w.send("alice", true)
		w.settle()
		for i, size := range []int{largeLedger - 1, largeLedger} {
			w.sized(size)
			w.send(fmt.Sprint("user", i), true)
			w.settle()
			assert.Equalf(t, i, told(), "a ledger of %d bytes", size)
		}
		c := newCollector(Config{Log: zap.New(core)})
		c.alarm(w.post, largeLedger)
		pass(settled - 1)
		c.alarm(w.post, largeLedger)
		assert.Equal(t, 2, told())
		pass(1)
		c.alarm(w.post, largeLedger)
		assert.Equal(t, 3, told())
	})
}

// A window reads the notes of a ledger's incarnations when its flush is about to cost more. Before, the
// window drops no entry of the ledger, even if a dropped entry would make the flush cheaper.
func TestASmallLedgerIsLeftAlone(t *testing.T) {
	step(t, func(w *world) {
		ended := others(1)
		w.setCount(table.Attr{Name: schema.AttrFlushed(ended.Inc), Value: table.N(ended.Seq)})
		w.noteEnd(ended.Inc)
		w.run()
		w.send("alice", true)
		w.settle()
		for i, tt := range []struct{ size, looks int }{{lookFrom - 1, 0}, {lookFrom, 1}, {1024, 1}, {1024 + 15, 1}} { // the entry has 14 bytes
			w.sized(tt.size)
			w.send(fmt.Sprint("user", i), true)
			w.settle()
			w.mu.Lock()
			assert.Equalf(t, tt.looks, w.requested["ends"], "looks at %d bytes", tt.size)
			w.mu.Unlock()
			pass(time.Hour)
		}
		assert.Contains(t, w.count().Done, ended.Inc)
		w.sized(1024 + 14)
		w.send("zoe", true)
		w.settle()
		assert.NotContains(t, w.count().Done, ended.Inc)
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Equal(t, 1, w.requested["prune"])
	})
}

// If an incarnation notes its end after another aggregator has looked for the note, that aggregator looks for
// the note again an hour later, and makes no request in between.
func TestAMissingNoteIsLookedForOnceAnHour(t *testing.T) {
	step(t, func(w *world) {
		w.large(false)
		w.run()
		for i, tt := range []struct {
			after         time.Duration
			looks, pruned int // totals after the step
			note          bool
		}{
			{looks: 1, note: true},
			{after: 30 * time.Minute, looks: 1},
			{after: 30 * time.Minute, looks: 2},
			{after: 30 * time.Minute, looks: 2},
			{after: 30 * time.Minute, looks: 2, pruned: maxPruned},
		} {
			pass(tt.after)
			w.send(fmt.Sprint("user", i), true)
			w.settle()
			if tt.note {
				w.large(true)
			}
			pruned := 0
			for _, o := range w.outcomes() {
				pruned += o.Pruned
			}
			w.mu.Lock()
			assert.Equalf(t, tt.looks, w.requested["ends"], "looks until step %d", i)
			w.mu.Unlock()
			assert.Equalf(t, tt.pruned, pruned, "pruned until step %d", i)
		}
	})
}

// Run returns only after the note of the end was written, although the table refuses the note at first.
func TestTheStopWaitsForTheNoteOfTheEnd(t *testing.T) {
	step(t, func(w *world) {
		w.faults = map[string]fault{"end1": failed, "end2": failed}
		p := w.run()
		w.send("alice", true)
		w.settle()
		p.stop()
		<-p.ended
		for inc := range w.wantCount(1).Done {
			assert.NotNil(t, w.endOf(inc))
		}
	})
}

// An incarnation that lost the windows of too many posts does not note its end.
func TestTheNoteOfAnEndIsBounded(t *testing.T) {
	for n, notes := range map[int]int{maxLost: 1, maxLost + 1: 0} {
		c := newCollector(Config{}.withDefaults())
		inc := &incarnation{lost: map[string]bool{}}
		for i := range n {
			inc.lost[fmt.Sprint(i)] = true
		}
		c.over(t.Context(), inc)
		assert.Lenf(t, c.pool.turns, notes, "notes with %d posts", n)
	}
}

// The number of remembered notes is bounded. The time of the first read of a note is kept.
func TestTheNotesThatAreRememberedAreBounded(t *testing.T) {
	var e ends
	first, later := time.Unix(1, 0), time.Unix(2, 0)
	learn := func(inc string, ended bool, at time.Time) {
		e.learn(schema.LikeEnd{Inc: inc}, ended, at)
	}
	for i := range maxEnds {
		learn(fmt.Sprint(i), i > 0, first)
	}
	assert.Len(t, e.known, maxEnds)
	e = ends{}
	learn("ended", true, first)
	learn("ended", false, later)
	learn("open", false, first)
	learn("open", false, later)
	assert.Equal(t, map[string]knownEnd{"ended": {ended: true, at: first}, "open": {at: later}}, e.known)
	most := 0
	for i := range maxEnds {
		learn(fmt.Sprint(i), true, first)
		most = max(most, len(e.known))
	}
	assert.Equal(t, maxEnds, most)
}

// An entry may be pruned an hour after the note of its incarnation was read.
func TestTheMomentFromWhichAnEntryMayGo(t *testing.T) {
	step(t, func(w *world) {
		win := &window{cfg: &Config{Now: time.Now}, collector: newCollector(Config{}), post: w.post}
		win.collector.ends.learn(schema.LikeEnd{Inc: "ended"}, true, time.Now())
		pass(settled - 1)
		assert.False(t, win.prunable("ended"))
		pass(1)
		assert.True(t, win.prunable("ended"))
	})
}

// The event of a post whose time is ahead of the clock waits until the post is due, so a like
// of the post waits as long.
func TestALikeOfAPostFromAheadWaitsUntilThePostIsDue(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var later *queue.Later
	require.ErrorAs(t, unknownPost(id.Floor(now.Add(3*time.Hour)), queue.MaxAttempts+1, now), &later)
	assert.Equal(t, 3*time.Hour-messages.MaxAhead, later.After)
}

// A zero takes the default. The smallest valid value is accepted.
func TestTheDefaults(t *testing.T) {
	type sizes struct {
		window               time.Duration
		held, puts, receives int
	}
	for _, tt := range []struct {
		cfg  Config
		want sizes
	}{
		{Config{}, sizes{time.Second, 20_000, 256, 4}},
		{Config{Window: -1, MaxMessages: -1, PutConcurrency: -1, FenceAfter: -1}, sizes{time.Second, 20_000, 256, 4}},
		{Config{Window: 1, MaxMessages: 1, PutConcurrency: 1, FenceAfter: 1}, sizes{1, 1, 1, 1}},
	} {
		got := tt.cfg.withDefaults()
		assert.Equal(t, tt.want, sizes{got.Window, got.MaxMessages, got.PutConcurrency, got.FenceAfter})
		assert.WithinDuration(t, time.Now(), got.Now(), time.Minute)
		first := got.Random()
		assert.NotEqual(t, first, got.Random(), "names of two incarnations")
		assert.NotNil(t, got.Log)
	}
	assert.Len(t, newIncarnation(1, 1), dayDigits+randDigits, "the name on the second day of 1970")
}

// An aggregator does not read the notes of its own ends.
func TestAnAggregatorKnowsItsOwnEnds(t *testing.T) {
	step(t, func(w *world) {
		w.run()
		w.send("alice", true)
		w.settle()
		pass(day)
		w.send("bob", true) // in a new incarnation
		w.settle()
		w.sized(1024 + 1)
		pass(settled)
		w.send("carol", true)
		w.settle()
		assert.Len(t, w.wantCount(3).Done, 1)
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Zero(t, w.requested["ends"])
	})
}

// The collector forgets a post that has no window (I9).
func TestAPostWithoutAWindowIsForgotten(t *testing.T) {
	c := newCollector(Config{}.withDefaults())
	ended := &window{post: "post", inc: &incarnation{running: 1}}
	c.posts[ended.post] = &postWindows{running: ended}
	c.ended(t.Context(), ended, false)
	assert.Empty(t, c.posts)
}

package likeagg

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

func TestWritesWhoseAnswerIsLostCountOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults map[string]fault
	}{
		{"put failed", map[string]fault{"put1": failed, "put2": failed}},
		{"put's answer lost", map[string]fault{"put1": lost}},
		{"put lands late", map[string]fault{"put1": late}},
		{"flush failed", map[string]fault{"flush1": failed}},
		{"flush's answer lost", map[string]fault{"flush1": lost}},
		{"flush lands late", map[string]fault{"flush1": late, "flush2": late}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step(t, func(w *world) {
				w.faults = tt.faults
				w.run()
				w.send("alice", true)
				w.settle()
				w.wantCount(1)
				out := w.outcomes()[0]
				assert.True(t, out.Flushed && !out.Lost, "its one window flushed")
			})
		})
	}
}

func TestOneFenceSettlesAllThatADeadAggregatorLeft(t *testing.T) {
	step(t, func(w *world) {
		counted, left := others(1), others(1)
		left.Seq++
		w.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(15)}, table.Attr{Name: schema.AttrFlushed(counted.Inc), Value: table.N(counted.Seq)})
		for i := range 30 {
			l := schema.Like{User: fmt.Sprintf("user%d", i), Kind: schema.KindLike, Version: w.newID(), Flush: left}
			if i%2 == 0 {
				l.Flush = counted
			}
			w.store(l)
			w.queue.publish(encode(l.Version, w.post, l.User, "like"))
		}
		w.run()
		w.settle()
		w.wantCount(30)
		fences := 0
		for _, o := range w.outcomes() {
			fences += o.Fences
		}
		assert.Equal(t, 1, fences)
	})
}

func TestAFencedLikeKeepsItsNewerStateAndItsBase(t *testing.T) {
	step(t, func(w *world) {
		g, older := others(1), w.newID()
		version := w.newID()
		w.store(schema.Like{User: "alice", Version: version, Flush: g, Base: schema.KindLike})
		w.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(1)}, table.Attr{Name: schema.AttrFenced(g.Inc), Value: table.N(1)})
		w.run()
		w.queue.publish(encode(older, w.post, "alice", "like"))
		w.settle()
		if l := w.likes(1)[0]; l.Kind != "" || l.Base != schema.KindLike || l.Version != version {
			t.Errorf("the like is %+v, want the unlike %s with the base of the like before it", l, version)
		}
		w.wantCount(0)
	})
}

// The item of an unlike may expire between the window's read and its write.
func TestALikeWhoseFormerItemExpiresMeanwhileIsCounted(t *testing.T) {
	step(t, func(w *world) {
		g := others(1)
		w.store(schema.Like{User: "alice", Version: w.newID(), Flush: g})
		w.setCount(table.Attr{Name: schema.AttrFlushed(g.Inc), Value: table.N(g.Seq)})
		w.fault = func(r request) fault {
			w.mu.Lock()
			defer w.mu.Unlock()
			if r.op == "put" && w.requested["put"] == 2 { // the first put found the item
				_, err := w.mem.Delete(w.t.Context(), table.DeleteInput{Key: r.key})
				assert.NoError(w.t, err)
			}
			return none
		}
		w.run()
		w.send("alice", true)
		w.settle()
		w.wantCount(1)
		assert.Equal(t, 1, w.outcomes()[0].Applied)
	})
}

func TestTheShardsOfThePostDecideTheItem(t *testing.T) {
	step(t, func(w *world) {
		w.post = w.newPost(schema.PostRef{LikeShards: 3})
		w.run()
		for i := range 20 {
			w.send(fmt.Sprintf("user%d", i), true)
		}
		w.settle()
		used := map[int]bool{}
		for _, l := range w.likes(3) {
			used[schema.LikeShard(l.User, 3)] = true
		}
		w.wantCount(20)
		assert.Lenf(t, used, 3, "20 likes in %d shards", len(used))
	})
}

func TestLikesOfADeletedPostHaveNoEffect(t *testing.T) {
	step(t, func(w *world) {
		w.post = w.newPost(schema.PostRef{Deleted: true})
		w.run()
		w.send("alice", true)
		w.settle()
		w.wantWrites(0, 0)
		w.wantDead(0, "")
	})
}

func TestALikeWaitsForItsPostThenBecomesADeadLetter(t *testing.T) {
	step(t, func(w *world) {
		w.run()
		early, never := w.newID(), w.newID()
		w.queue.publish(encode(w.newID(), early, "alice", "like"))
		w.queue.publish(encode(w.newID(), never, "alice", "like"))
		pass(10 * time.Second)
		ref := schema.PostRef{ID: early, Author: "author"}
		_, err := w.mem.Put(t.Context(), table.PutInput{Item: ref.Item()})
		require.NoError(t, err)
		w.post = early
		w.settle()
		w.wantCount(1)
		w.wantDead(1, messages.ReasonNoPost.Because("%s", never))
	})
}

func TestAMessageThatCanNeverBeAppliedBecomesADeadLetterAtOnce(t *testing.T) {
	followed := func(id string) []byte {
		payload, err := messages.Encode(&messages.Followed{
			Header: messages.Header{EventID: id, Time: time.Now()}, FollowerID: "a", AuthorID: "b", From: id, MarkVersion: id,
		})
		require.NoError(t, err)
		return payload
	}
	for _, tt := range []struct {
		name, reason string
		payload      func(w *world) []byte
	}{
		{"no event", "not a JSON object", func(*world) []byte { return []byte("{") }},
		{"unknown version", "version 9", func(*world) []byte { return []byte(`{"type":"Liked","version":9}`) }},
		{"another kind", string(messages.ReasonWrongTopic), func(w *world) []byte { return followed(w.newID()) }},
		{"too old", "older than", func(w *world) []byte {
			payload := encode(w.newID(), w.post, "alice", "like")
			pass(messages.MaxAge + time.Second)
			return payload
		}},
		{"too far ahead", "ahead of the clock", func(w *world) []byte {
			return encode("7"+strings.Repeat("Z", 25), w.post, "alice", "like")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step(t, func(w *world) {
				payload := tt.payload(w)
				w.queue.refuse = 2 // the dead letter is not stored at first, then the message is redelivered
				w.run()
				w.queue.publish(payload)
				w.settle()
				w.wantDead(1, tt.reason)
				w.wantWrites(0, 0)
			})
		})
	}
}

func TestLikesCountThoughTheAggregatorsClockIsBehind(t *testing.T) {
	step(t, func(w *world) {
		w.tune = func(cfg *Config) {
			cfg.Now = func() time.Time { return time.Now().Add(-messages.MaxAhead - time.Minute) }
		}
		w.run()
		for i := range 10 {
			w.send(fmt.Sprint("fan", i), true)
		}
		w.settle()
		w.wantCount(10)
		w.wantDead(0, "")
	})
}

func TestAClockThatIsSetBackLosesNoWindow(t *testing.T) {
	step(t, func(w *world) {
		var back atomic.Int64
		w.tune = func(cfg *Config) {
			cfg.Now = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		}
		w.fault = func(r request) fault {
			if r.op == "put" && back.Swap(int64(2*messages.MaxAhead)) == 0 {
				return lost
			}
			return none
		}
		w.run()
		w.send("fan", true)
		w.settle()
		w.wantCount(1)
		for _, out := range w.outcomes() {
			assert.False(t, out.Lost)
		}
	})
}

func TestAWindowWhoseMessageGrewTooOldSendsNothingMore(t *testing.T) {
	step(t, func(w *world) {
		w.fault = func(r request) fault {
			if r.op == "put" && len(w.outcomes()) == 0 {
				pass(5 * time.Second)
				return lost // this error alone would repeat the put
			}
			return none
		}
		w.send("alice", true)
		pass(messages.MaxAge - 5*time.Second)
		w.run()
		pass(6150 * time.Millisecond) // the first delivery happens at once, and the redelivery comes after this time
		w.wantWrites(1, 0)
		if out := w.outcomes(); len(out) != 1 || !out[0].Lost {
			t.Errorf("it ended as %+v, want it lost", out)
		}
	})
}

// A new day, a stop and a lost window each end an incarnation, and the incarnation notes its end.
func TestEachIncarnationNotesItsEnd(t *testing.T) {
	step(t, func(w *world) {
		p := w.run()
		for i := range 3 {
			w.send(fmt.Sprintf("user%d", i), true)
			w.settle()
			pass(24 * time.Hour)
		}
		first, second := w.post, w.newPost(schema.PostRef{})
		w.fault = func(r request) fault {
			switch {
			case r.op == "flush" && strings.Contains(r.key.PK, first) && len(w.outcomes()) == 3:
				return denied
			case r.op == "put" && strings.Contains(r.key.PK, second):
				return slow // the second post's window still runs when the first post loses its window
			}
			return none
		}
		w.send("alice", true) // this window of the first post is lost
		w.post = second
		w.send("alice", true)
		w.settle()
		for inc := range w.wantCount(1).Done {
			if end := w.endOf(inc); end == nil || !end.Lost[first] || end.Lost[second] {
				t.Errorf("the end of %s is %v, want one with a lost window of %s", inc, end, first)
			}
		}
		w.post = first
		p.stop()
		<-p.ended
		count := w.wantCount(4)
		lost := 0
		for _, inc := range slices.Concat(slices.Collect(maps.Keys(count.Done)), slices.Collect(maps.Keys(count.Fenced))) {
			end := w.endOf(inc)
			if len(inc) != 11 || end == nil {
				t.Fatalf("incarnation %q, end %v", inc, end)
			}
			if end.Lost[w.post] {
				lost++
			}
		}
		if len(count.Done) != 4 || len(count.Fenced) != 1 || lost != 1 {
			t.Errorf("%d of the incarnations %v, %v lost a window, want 1 of 4 and 1", lost, count.Done, count.Fenced)
		}
	})
}

func TestStopFlushesTheOpenWindows(t *testing.T) {
	step(t, func(w *world) {
		w.tune = func(cfg *Config) { cfg.Window = time.Hour }
		p := w.run()
		w.send("alice", true)
		pass(time.Second)
		began := time.Now()
		p.stop()
		<-p.ended
		assert.NoError(t, p.err)
		assert.LessOrEqual(t, time.Since(began), time.Second)
		w.wantCount(1)
		assert.Zero(t, w.queue.len(), "the message was not acked")
	})
}

func TestStopHandsBackMessagesThatItCannotFinish(t *testing.T) {
	step(t, func(w *world) {
		w.fault = func(request) fault { return failed }
		p := w.run()
		w.send("alice", true)
		w.send("bob", true)
		pass(3 * time.Second)
		began := time.Now()
		p.stop()
		<-p.ended
		if took := time.Since(began); p.err != nil || took < 10*time.Second || took > 20*time.Second {
			t.Errorf("stopped after %v with a grace of 10 s: %v", took, p.err)
		}
		w.queue.mu.Lock()
		for _, m := range w.queue.messages {
			assert.Falsef(t, m.visible.After(time.Now()), "message %s was not handed back", m.id)
		}
		w.queue.mu.Unlock()
		w.fault = w.planned
		w.run()
		w.settle()
		w.wantCount(2)
	})
}

func TestAnUnknownFailureEndsInADeadLetter(t *testing.T) {
	for reason, unknown := range map[string]fault{"access denied": denied, "panic: boom": panicked} {
		step(t, func(w *world) {
			w.fault = func(r request) fault {
				if r.op == "put" {
					return unknown
				}
				return none
			}
			w.run()
			w.send("alice", true)
			w.settle()
			w.wantDead(1, reason)
			w.wantCount(0)
		})
	}
}

// After a panic of the table the outcome is unknown, as after a lost answer.
func TestAPanicOfTheTableEndsNoProcessAndCountsNothingTwice(t *testing.T) {
	step(t, func(w *world) {
		w.faults = map[string]fault{"put1": panicked, "put2": panicked, "flush1": panicked, "flush2": panicked}
		w.run()
		w.send("alice", true)
		w.settle()
		w.wantCount(1)
		w.send("alice", false)
		w.send("bob", true)
		w.settle()
		w.wantCount(1)
	})
}

func TestHeldMessagesAndRequestsAreBounded(t *testing.T) {
	step(t, func(w *world) {
		w.tune = func(cfg *Config) { cfg.Window = time.Minute } // MaxMessages is 40, PutConcurrency is 4
		w.fault = func(request) fault { return slow }
		posts := []string{w.post, w.newPost(schema.PostRef{})} // a hot post and a warm post
		w.run()
		for i := range 500 {
			w.post = posts[i%4/3]
			w.send(fmt.Sprintf("user%d", i), true)
		}
		w.settle()
		assert.LessOrEqual(t, w.queue.mostHeld, 41, "messages were out at once") // one waits in the subscription
		w.mu.Lock()
		assert.LessOrEqual(t, w.mostCalling, 4, "requests were out at once")
		w.mu.Unlock()
		for _, o := range w.outcomes() {
			assert.LessOrEqualf(t, o.Messages, 40, "a window of %d messages", o.Messages)
		}
	})
}

// A partition that refuses all its requests for minutes delays no other post, even if very many requests wait
// for that partition.
func TestAPartitionThatRefusesHoldsUpNobodyElse(t *testing.T) {
	for _, op := range []string{"put", "like", "ledger", "flush"} {
		t.Run(op, func(t *testing.T) {
			step(t, func(w *world) {
				const many = 100
				w.tune = func(cfg *Config) { cfg.MaxMessages = 4 * many }
				hot, cold, began := w.post, w.newPost(schema.PostRef{}), time.Now()
				w.fault = func(r request) fault {
					if r.op == op && strings.Contains(r.key.PK, hot) && time.Since(began) < 2*time.Minute {
						return failed
					}
					return none
				}
				w.run() // with four workers
				for i := range many {
					user := fmt.Sprint("user", i)
					if op == "ledger" { // bob's likes have stamps of other aggregators
						w.store(schema.Like{User: user, Kind: schema.KindLike, Version: w.newID(), Flush: others(uint64(i))})
					}
					w.send(user, op != "like") // an unlike reads its like first
				}
				pass(20 * time.Second)
				w.post = cold
				w.send("alice", true)
				pass(2 * time.Second)
				w.wantCount(1)
				w.mu.Lock()
				assert.LessOrEqual(t, w.mostCalling, 4, "requests were out at once")
				w.mu.Unlock()
				w.settle()
				w.post = hot
				w.wantCount(map[bool]int64{true: many}[op != "like"])
			})
		})
	}
}

func TestTheEndOfTheSubscriptionIsAnError(t *testing.T) {
	step(t, func(w *world) {
		p := w.run()
		close(w.queue.cut)
		<-p.ended
		assert.Error(t, p.err)
	})
}

func TestAHotPostCostsOneWriteALikeAndOneAWindow(t *testing.T) {
	step(t, func(w *world) {
		w.tune = func(cfg *Config) { cfg.MaxMessages, cfg.IndexLikes = 10_000, false }
		for range 3 {
			w.run()
		}
		began := time.Now()
		flushes, _ := w.costs(t, 3000, 3*time.Millisecond, "user", "like", 1)
		windows := 3 * (1 + int(time.Since(began)/time.Second))
		w.wantCount(3000)
		// T8: at most one write of the count item for each window and aggregator.
		w.wantWrites(3000, flushes)
		assert.LessOrEqualf(t, flushes, windows, "%d flushes in %d windows", flushes, windows)
	})
}

// costs sends an action of each of n users and waits. It fails if a like costs more than T7 allows: each write
// of its item, its share of the flush, and 0.01. The notes of ends do not count, because each process writes
// one note a day.
func (w *world) costs(t *testing.T, n int, every time.Duration, user, kind string, item float64) (flushes, pruned int) {
	t.Helper()
	w.mu.Lock()
	w.units = 0
	ended := len(w.out)
	w.mu.Unlock()
	for i := range n {
		w.react(fmt.Sprint(user, i), kind)
		pass(every)
	}
	w.settle()
	for _, o := range w.outcomes()[ended:] {
		if o.Flushed {
			flushes++
		}
		pruned += o.Pruned
	}
	m := float64(n) / float64(flushes)
	got, most := w.units/float64(n), item+1/m+0.01
	t.Logf("%.4f write units a like at %.1f likes a window, bound %.4f", got, m, most)
	assert.LessOrEqualf(t, got, most, "write units a like at %.1f likes a window", m)
	return flushes, pruned
}

// Each kind of action has the costs that docs/ACCESS_PATTERNS.md states.
func TestWhatEachKindOfActionCosts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		indexed bool
		// The fields are the costs of the item's writes by a first like, a repeated like, an unlike, a
		// like after an unlike, a change of kind, and a like whose message hints that the item exists.
		first, repeated, unlike, again, changed, hinted float64
	}{
		{"without the index", false, 1, 2, 1, 2, 2, 1},
		{"with the index", true, 2, 3, 2, 3, 3, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step(t, func(w *world) {
				w.tune = func(cfg *Config) {
					cfg.MaxMessages, cfg.IndexLikes, cfg.Kinds = 10_000, tt.indexed, []string{"love", "wow"}
				}
				w.run()
				w.costs(t, 200, 10*time.Millisecond, "user", "like", tt.first)
				w.costs(t, 200, 10*time.Millisecond, "user", "like", tt.repeated)
				w.costs(t, 200, 10*time.Millisecond, "user", "", tt.unlike)
				w.costs(t, 200, 10*time.Millisecond, "user", "like", tt.again)
				w.wantCount(200)
				w.costs(t, 200, 10*time.Millisecond, "user", "love", tt.changed)
				w.hint = true
				reads := w.requested["like"]
				w.costs(t, 200, 10*time.Millisecond, "user", "wow", tt.hinted)
				assert.Equal(t, 200, w.requested["like"]-reads, "a hint is one read")
				w.wantKinds(map[string]int64{"wow": 200})
				w.costs(t, 200, 10*time.Millisecond, "user", "", tt.unlike)
				reads = w.requested["like"]
				w.costs(t, 200, 10*time.Millisecond, "user", "wow", tt.hinted)
				assert.Equal(t, 200, w.requested["like"]-reads, "again, with a hint, is one read")
				w.hint = false
				w.costs(t, 200, 10*time.Millisecond, "other", "love", tt.first)
				w.wantKinds(map[string]int64{"wow": 200, "love": 200})
			})
		})
	}
}

// A like costs the same units and requests whether other kinds are configured or not.
func TestALikeCostsTheSameWithOtherKinds(t *testing.T) {
	cost := func(kinds ...string) (units []float64, requested map[string]int) {
		step(t, func(w *world) {
			w.tune = func(cfg *Config) { cfg.MaxMessages, cfg.IndexLikes, cfg.Kinds = 10_000, true, kinds }
			w.run()
			for _, kind := range []string{"like", "like", "", "like"} {
				w.costs(t, 100, 10*time.Millisecond, "user", kind, 3)
				units = append(units, w.units)
			}
			requested = maps.Clone(w.requested)
		})
		return units, requested
	}
	units, requested := cost()
	with, and := cost("love", "wow")
	assert.Equal(t, units, with)
	assert.Equal(t, requested, and)
}

// T7 and T8 hold for a post that ten aggregators count for weeks. Its ledger does not
// grow with the days.
func TestALedgerOfWeeksCostsNoMoreThanANewOne(t *testing.T) {
	step(t, func(w *world) {
		w.tune = func(cfg *Config) { cfg.MaxMessages, cfg.IndexLikes = 10_000, false }
		for range 10 {
			w.run()
		}
		tomorrow := func() { pass(time.Until(time.Now().Truncate(day).Add(day + time.Hour))) }
		pruned, sent := 0, 0
		for n := range 33 {
			for i := range 40 { // each aggregator gets some flushes
				w.send(fmt.Sprintf("early%d-%d", n, i), true)
				pass(20 * time.Millisecond)
			}
			w.settle()
			sent += 40
			tomorrow()
		}
		for n := range 3 {
			began := time.Now()
			flushes, _ := w.costs(t, 1000, 20*time.Millisecond, fmt.Sprintf("user%d-", n), "like", 1)
			windows := 10 * (1 + int(time.Since(began)/time.Second))
			assert.LessOrEqualf(t, flushes, windows, "%d flushes in %d windows", flushes, windows)
			sent += 1000
			tomorrow()
		}
		for _, o := range w.outcomes() {
			pruned += o.Pruned
		}
		if count := w.wantCount(int64(sent)); len(count.Done) > 80 || pruned < 250 {
			t.Errorf("%d entries, %d pruned", len(count.Done), pruned)
		}
	})
}

package likeagg

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
)

// full makes the table refuse the puts of a user's likes for a time, as a full partition of the index of the
// user's likes does.
func (w *world) full(user string, lasts time.Duration) {
	began, hot := time.Now(), schema.LikeKey(w.post, user, 1)
	w.fault = func(r request) fault {
		if r.key == hot && r.op == "put" && time.Since(began) < lasts {
			return short
		}
		return none
	}
}

func TestOneHotUserDoesNotFreezeTheCountOfAPost(t *testing.T) {
	step(t, func(w *world) {
		w.tune = func(cfg *Config) { cfg.MaxMessages = 1000 }
		w.full("hot", 25*time.Second)
		w.run()
		w.send("hot", true)
		for i := range 100 {
			w.send(fmt.Sprint("fan", i), true)
		}
		pass(5 * time.Second)
		w.wantCount(100)
		pass(20*time.Second + leaveFor + 5*time.Second)
		w.wantCount(101)
		for _, out := range w.outcomes() {
			assert.False(t, out.Lost)
		}
	})
}

// A like is left for later only if each of its tries had no effect. After one doubtful try the outcome of the
// like's put stays unknown, whatever error a later try returns.
func TestALikeIsLeftOnlyIfNoneOfItsTriesCanHaveHappened(t *testing.T) {
	shorts := slices.Repeat([]fault{short}, 2*leaveAfter)
	for name, tt := range map[string]struct {
		puts  []fault
		leave bool
	}{
		"four refusals":                         {shorts[:leaveAfter-1], false},
		"five refusals":                         {shorts[:leaveAfter], true},
		"a failure, then refusals":              {append([]fault{failed}, shorts...), false},
		"a lost answer, then refusals":          {append([]fault{lost}, shorts...), false},
		"a write that is late, then refusals":   {append([]fault{late}, shorts...), false},
		"a panic, then refusals":                {append([]fault{panicked}, shorts...), false},
		"a failure that nobody knows, the same": {append([]fault{denied}, shorts...), false},
		"four refusals, a lost answer, more":    {append(append(shorts[:leaveAfter-1:leaveAfter-1], lost), shorts...), false},
		"four refusals, a failure, more":        {append(append(shorts[:leaveAfter-1:leaveAfter-1], failed), shorts...), false},
	} {
		t.Run(name, func(t *testing.T) {
			step(t, func(w *world) {
				w.faults = map[string]fault{}
				for i, f := range tt.puts {
					w.faults[fmt.Sprint("put", i+1)] = f
				}
				answers := w.answers()
				w.run()
				w.send("alice", true)
				w.settle()
				w.wantCount(1)
				got := answers()
				assert.Equal(t, tt.leave, isLeft(got[0]))
				assert.Equal(t, queue.ResultDone, got[len(got)-1].Result)
				assert.Len(t, got, map[bool]int{false: 1, true: 2}[tt.leave])
				assert.Len(t, w.outcomes(), len(got))
			})
		})
	}
}

// answers records the answers of processes that start later. The returned function gives these answers.
func (w *world) answers() func() []queue.Answered {
	var all []queue.Answered
	tune := w.tune
	w.tune = func(cfg *Config) {
		if tune != nil {
			tune(cfg)
		}
		cfg.Answered = func(a queue.Answered) {
			w.mu.Lock()
			defer w.mu.Unlock()
			all = append(all, a)
		}
	}
	return func() []queue.Answered {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(all)
	}
}

func isLeft(a queue.Answered) bool { return a.Result == queue.ResultLater && a.After == leaveFor }

// A refusal of the request itself is final after tries without an effect. The refusal is not final after
// doubtful tries.
func TestARefusalDecidesAfterTriesThatDidNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		first fault
		tries int
	}{"did nothing": {short, 2}, "may have happened": {failed, 3}} {
		t.Run(name, func(t *testing.T) {
			step(t, func(w *world) {
				w.faults = map[string]fault{"put1": tt.first, "put2": invalid}
				w.run()
				w.send("alice", true)
				pass(1500 * time.Millisecond)
				w.mu.Lock()
				assert.Equal(t, tt.tries, w.requested["put"])
				w.mu.Unlock()
				w.settle()
				w.wantCount(1)
			})
		})
	}
}

// The requests of a whole window, and the notes of ends, have no message of their own, so they
// are not left for later.
func TestOnlyRequestsForOneLikeAreLeft(t *testing.T) {
	for op, left := range map[string]bool{
		"post": false, "put": true, "like": true, "user": true, "ledger": false, "ends": false, "fence": false, "flush": false, "end": false,
	} {
		t.Run(op, func(t *testing.T) {
			step(t, func(w *world) {
				began := time.Now()
				w.fault = func(r request) fault {
					if r.op == op && time.Since(began) < lateLike+30*time.Second {
						return short
					}
					return none
				}
				orphan := others(1)
				w.store(schema.Like{User: "bob", Kind: schema.KindLike, Version: w.newID(), Flush: orphan})
				answers := w.answers()
				w.send("alice", true)
				if op == "user" {
					pass(lateLike)
				} else {
					began = began.Add(-lateLike)
				}
				p := w.run()
				w.send("bob", false)
				pass(20 * time.Second)
				assert.Equal(t, left, slices.ContainsFunc(answers(), isLeft), "a message was left")
				w.settle()
				w.wantCount(1)
				p.stop()
				<-p.ended
				noted := 0
				for inc := range w.count().Done {
					if w.endOf(inc) != nil {
						noted++
					}
				}
				assert.Equal(t, 1, noted, "notes of ends")
			})
		})
	}
}

// The receives of a like that was left for later do not count: the like fences no living aggregator, and an
// unknown failure does not make it a dead letter.
func TestALikeThatIsLeftForAnHourHasAllItsAttempts(t *testing.T) {
	step(t, func(w *world) {
		w.full("hot", time.Hour)
		w.run()
		w.send("hot", true)
		pass(time.Hour - time.Second)
		w.mu.Lock()
		assert.Greater(t, w.requested["put"], 100*leaveAfter)
		w.mu.Unlock()
		assert.Equal(t, 1, w.queue.len())
		full := w.fault
		w.fault = func(r request) fault {
			if f := full(r); f != none || r.op != "put" || len(w.outcomes()) > 1000 {
				return f
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.requested["denied"] < maxUnexplained {
				w.requested["denied"]++
				return denied
			}
			return none
		}
		w.settle()
		w.wantCount(1)
		w.wantDead(0, "")
		assert.Equal(t, 0, w.outcomes()[0].Fences)
	})
}

func TestSoManyMessagesAreLeftAtATime(t *testing.T) {
	step(t, func(w *world) {
		const posts, fans = 100, mostLeft/100 + 10
		w.tune = func(cfg *Config) { cfg.MaxMessages, cfg.PutConcurrency = 4*posts*fans, 64 }
		for range posts {
			w.post = w.newPost(schema.PostRef{LikeShards: 1})
			for i := range fans {
				w.send(fmt.Sprint("fan", i), true)
			}
		}
		began := time.Now()
		w.fault = func(r request) fault {
			if r.op == "put" && time.Since(began) < 30*time.Second {
				return short
			}
			return none
		}
		w.run()
		most := 0
		for time.Since(began) < 30*time.Second {
			pass(500 * time.Millisecond)
			most = max(most, w.queue.hidden())
		}
		assert.LessOrEqual(t, most, mostLeft)
		assert.Greater(t, most, mostLeft/2)
		w.settle()
		w.wantCount(fans)
	})
}

// A message counts as left from the decision to leave it until its redelivery.
func TestTheMessagesThatAreLeftAreCounted(t *testing.T) {
	step(t, func(*world) {
		var l leaves
		assert.False(t, l.take(mostLeft+1))
		assert.True(t, l.take(mostLeft-1))
		assert.False(t, l.take(2))
		assert.True(t, l.take(1))
		pass(10 * leaveFor) // the windows continue to run
		assert.False(t, l.take(1))
		l.ended(mostLeft - 1)
		pass(time.Second)
		l.ended(1)
		pass(leaveFor - time.Second - 1)
		assert.False(t, l.take(1))
		pass(1)
		assert.False(t, l.take(mostLeft))
		assert.True(t, l.take(mostLeft-1))
		pass(time.Second)
		assert.True(t, l.take(1))
		assert.False(t, l.take(1))
	})
}

// No queue holds the likes of an import, so the import waits for the table.
func TestAnImportLeavesNoLike(t *testing.T) {
	step(t, func(w *world) {
		w.full("hot", 2*time.Minute)
		p := &proc{w: w, dead: make(chan struct{})}
		counted := 0
		err := Direct(w.t.Context(), Config{Store: p, PutConcurrency: 4, Random: func() uint64 { return 1 }}, func() { counted++ }, func(_ context.Context, add func(UserAction) error) error {
			return add(UserAction{Post: w.post, User: "hot", Kind: schema.KindLike, Version: w.newID()})
		})
		require.NoError(t, err)
		assert.Equal(t, 1, counted)
		w.wantCount(1)
	})
}

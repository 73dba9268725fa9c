package likeagg

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// rig is a world with one aggregator and a test that steps through the protocol.
type rig struct {
	*world
	t    *testing.T
	post string
	// puts and updates count the writes of like and count items.
	puts, updates int
}

// step runs f with an aggregator in virtual time.
func step(t *testing.T, f func(r *rig)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		w := newWorld(1, false)
		r := &rig{world: w, t: t, post: w.posts[0]}
		w.tune = func(cfg *Config) { cfg.IndexLikes = true }
		w.script = r.fates(nil)
		defer w.end()
		f(r)
	})
}

// fates counts writes and gives the nth write of an op the fate fates[op+n].
func (r *rig) fates(fates map[string]fate) func(string, table.Key) fate {
	return func(op string, _ table.Key) fate {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch op {
		case "put":
			r.puts++
			return fates[fmt.Sprint(op, r.puts)]
		case "update":
			r.updates++
			return fates[fmt.Sprint(op, r.updates)]
		}
		return fine
	}
}

func (r *rig) run() *proc {
	p := r.start()
	r.procs = append(r.procs, p)
	return p
}

// send publishes an action and returns its version.
func (r *rig) send(user string, liked bool) string {
	version := r.newID()
	r.queue.publish(encode(version, r.post, user, liked), 0)
	return version
}

func (r *rig) done() {
	r.t.Helper()
	if v := r.settle(); v != "" {
		r.t.Fatal(v)
	}
}

// store puts a like that another aggregator stamped.
func (r *rig) store(l schema.Like) {
	r.t.Helper()
	l.Post = r.post
	if _, err := r.mem.Put(r.t.Context(), table.PutInput{Item: l.Item()}); err != nil {
		r.t.Fatal(err)
	}
}

// setCount changes the count item.
func (r *rig) setCount(attrs ...table.Attr) {
	r.t.Helper()
	if _, err := r.mem.Update(r.t.Context(), table.UpdateInput{Key: schema.LikeCountKey(r.post), Set: attrs}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) like(user string) *schema.Like {
	r.t.Helper()
	res, err := r.mem.Get(r.t.Context(), table.GetInput{Key: schema.LikeKey(r.post, user, 1), Consistent: true})
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := parseLike(res.Item)
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

func (r *rig) wantLike(user string, liked, base bool, version string) {
	r.t.Helper()
	if l := r.like(user); l == nil || l.Liked != liked || l.Base != base || l.Version != version {
		r.t.Errorf("the like of %s is %+v, want liked %t, base %t, version %s", user, l, liked, base, version)
	}
}

func (r *rig) wantCount(likes int64) schema.LikeCount {
	r.t.Helper()
	count := r.count(r.t, 0)
	if count.Likes != likes {
		r.t.Errorf("the count is %d, want %d", count.Likes, likes)
	}
	return count
}

func (r *rig) wantWrites(puts, updates int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.puts != puts || r.updates != updates {
		r.t.Errorf("%d puts and %d updates, want %d and %d", r.puts, r.updates, puts, updates)
	}
}

func (r *rig) wantDead(n int, reason string) {
	r.t.Helper()
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	if len(r.queue.dead) != n || n > 0 && !strings.Contains(r.queue.dead[n-1], reason) {
		r.t.Errorf("dead letters %q, want %d, the last with %q", r.queue.dead, n, reason)
	}
}

// others is a flush of another aggregator that began today.
func others(n uint64) schema.Flush {
	return schema.Flush{Inc: newIncarnation(dayOf(time.Now()), n), Seq: 3}
}

func TestAFirstLikeIsStampedAndCounted(t *testing.T) {
	step(t, func(r *rig) {
		r.run()
		version := r.send("alice", true)
		r.done()
		r.wantLike("alice", true, false, version)
		count := r.wantCount(1)
		flush := r.like("alice").Flush
		if count.Done[flush.Inc] != flush.Seq || len(count.Done) != 1 {
			t.Errorf("the ledger is %v, the like is stamped %v", count.Done, flush)
		}
		if count.AsOf.IsZero() || !r.like("alice").TTL.IsZero() || !r.like("alice").Indexed {
			t.Errorf("as of %v, like %+v", count.AsOf, r.like("alice"))
		}
		r.wantWrites(1, 1)
	})
}

func TestWritesWhoseAnswerIsLostCountOnce(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fates map[string]fate
		unit  int64
	}{
		{"put failed", map[string]fate{"put1": failed, "put2": failed}, 1},
		{"put's answer lost", map[string]fate{"put1": lost}, 1},
		{"put lands late", map[string]fate{"put1": late}, 1},
		{"flush failed", map[string]fate{"update1": failed}, 1},
		{"flush's answer lost", map[string]fate{"update1": lost}, 1},
		{"flush lands late", map[string]fate{"update1": late, "update2": late}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step(t, func(r *rig) {
				r.script = r.fates(tt.fates)
				r.run()
				r.send("alice", true)
				r.done()
				r.wantCount(tt.unit)
			})
		})
	}
}

func TestALikeThatAnotherFlushCountedIsTheBase(t *testing.T) {
	step(t, func(r *rig) {
		g, older := others(1), r.newID()
		version := r.newID()
		r.store(schema.Like{User: "alice", Liked: true, Version: version, Flush: g})
		r.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(1)}, table.Attr{Name: schema.AttrFlushed(g.Inc), Value: table.N(g.Seq)})
		r.run()
		r.queue.publish(encode(older, r.post, "alice", false), 0)
		r.queue.publish(encode(version, r.post, "alice", true), 0)
		r.done()
		r.wantLike("alice", true, false, version)
		r.wantCount(1)
		r.wantWrites(1, 0) // the put that met the like; a window that stamped nothing does not flush
		newer := r.send("alice", false)
		r.done()
		r.wantLike("alice", false, true, newer)
		r.wantCount(0)
	})
}

func TestAnUnflushedLikeIsWaitedForThenFencedAndCounted(t *testing.T) {
	step(t, func(r *rig) {
		g, version := others(1), r.newID()
		r.store(schema.Like{User: "alice", Liked: true, Version: version, Flush: g})
		r.run()
		r.queue.publish(encode(version, r.post, "alice", true), 0)
		pass(4 * time.Second) // received, left for one window, received, left for two
		if count := r.wantCount(0); len(count.Fenced) != 0 {
			t.Error("fenced at once")
		}
		r.done()
		r.wantLike("alice", true, false, version)
		if count := r.wantCount(1); !count.Fenced[g.Inc] {
			t.Error("not fenced")
		}
		r.wantDead(0, "")
		// The fenced aggregator wakes up: its flush must not happen.
		_, err := r.mem.Update(t.Context(), table.UpdateInput{
			Key: schema.LikeCountKey(r.post), Set: []table.Attr{{Name: schema.AttrFlushed(g.Inc), Value: table.N(g.Seq)}},
			If: table.All{notFlushed(g), table.AttrAbsent{Name: schema.AttrFenced(g.Inc)}},
		})
		if !refused(err) {
			t.Errorf("a fenced flush: %v", err)
		}
	})
}

func TestOneFenceSettlesAllThatADeadAggregatorLeft(t *testing.T) {
	step(t, func(r *rig) {
		counted, left := others(1), others(1)
		left.Seq++
		r.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(15)}, table.Attr{Name: schema.AttrFlushed(counted.Inc), Value: table.N(counted.Seq)})
		for i := range 30 {
			l := schema.Like{User: fmt.Sprintf("user%d", i), Liked: true, Version: r.newID(), Flush: left}
			if i%2 == 0 {
				l.Flush = counted
			}
			r.store(l)
			r.queue.publish(encode(l.Version, r.post, l.User, true), 0)
		}
		r.run()
		r.done()
		r.wantCount(30)
		fences := 0
		for _, o := range r.outcomes() {
			fences += o.Fences
		}
		if fences != 1 {
			t.Errorf("%d fences, want 1", fences)
		}
	})
}

func TestAnUnflushedLikeIsWaitedFor(t *testing.T) {
	step(t, func(r *rig) {
		g, version := others(1), r.newID()
		r.store(schema.Like{User: "alice", Liked: true, Version: version, Flush: g})
		r.run()
		unlike := r.send("alice", false)
		pass(3 * time.Second)
		r.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(1)}, table.Attr{Name: schema.AttrFlushed(g.Inc), Value: table.N(g.Seq)})
		r.done()
		r.wantLike("alice", false, true, unlike)
		if count := r.wantCount(0); len(count.Fenced) != 0 {
			t.Error("fenced an aggregator that flushed in time")
		}
	})
}

func TestAFencedLikeKeepsItsNewerStateAndItsBase(t *testing.T) {
	step(t, func(r *rig) {
		g, older := others(1), r.newID()
		version := r.newID()
		r.store(schema.Like{User: "alice", Liked: false, Version: version, Flush: g, Base: true})
		r.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(1)}, table.Attr{Name: schema.AttrFenced(g.Inc), Value: table.N(1)})
		r.run()
		r.queue.publish(encode(older, r.post, "alice", true), 0)
		r.done()
		r.wantLike("alice", false, true, version)
		r.wantCount(0)
	})
}

func TestAFenceComesTooLateForAFlushThatHappened(t *testing.T) {
	step(t, func(r *rig) {
		g := others(1)
		r.store(schema.Like{User: "alice", Liked: true, Version: r.newID(), Flush: g})
		r.script = func(op string, key table.Key) fate {
			if op == "update" && r.count(t, 0).Likes == 0 { // the flush overtakes the fence
				r.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(1)}, table.Attr{Name: schema.AttrFlushed(g.Inc), Value: table.N(g.Seq)})
			}
			return fine
		}
		r.run()
		r.send("alice", false)
		r.done()
		if count := r.wantCount(0); count.Fenced[g.Inc] {
			t.Error("fenced a flush that had happened")
		}
	})
}

func TestAFencedWindowIsForgottenAndItsMessagesComeAgain(t *testing.T) {
	step(t, func(r *rig) {
		var first schema.Flush
		r.script = func(op string, _ table.Key) fate {
			if l := r.like("alice"); op == "update" && first == (schema.Flush{}) && l != nil {
				first = l.Flush
				r.setCount(table.Attr{Name: schema.AttrFenced(first.Inc), Value: table.N(1)})
			}
			return fine
		}
		r.run()
		version := r.send("alice", true)
		r.done()
		r.wantLike("alice", true, false, version)
		if r.wantCount(1); r.like("alice").Flush.Inc == first.Inc {
			t.Error("a fenced incarnation went on")
		}
		if !r.outcomes()[0].Lost || r.outcomes()[0].Flushed {
			t.Errorf("the fenced window was reported as %+v", r.outcomes()[0])
		}
	})
}

func TestTheLedgerIsPrunedInAFlush(t *testing.T) {
	step(t, func(r *rig) {
		day := func(ago int, n uint64) string { return newIncarnation(dayOf(time.Now())-int64(ago), n) }
		pass(50 * 24 * time.Hour)
		ancient, fenced, kept := day(33, 1), day(33, 2), day(32, 3)
		r.setCount(
			table.Attr{Name: schema.AttrLikes, Value: table.N(2)},
			table.Attr{Name: schema.AttrFlushed(ancient), Value: table.N(5)},
			table.Attr{Name: schema.AttrFlushed(fenced), Value: table.N(5)},
			table.Attr{Name: schema.AttrFenced(fenced), Value: table.N(1)},
			table.Attr{Name: schema.AttrFlushed(kept), Value: table.N(5)},
		)
		r.run()
		r.send("alice", true)
		r.done()
		count := r.wantCount(3)
		if _, there := count.Done[ancient]; there {
			t.Error("an old entry was not pruned")
		}
		if count.Done[fenced] != 5 || !count.Fenced[fenced] || count.Done[kept] != 5 {
			t.Errorf("pruned too much: %+v", count)
		}
		r.wantWrites(1, 1)

		// A like that the pruned incarnation counted, and one that it never did
		// but for which it was fenced.
		r.store(schema.Like{User: "bob", Liked: true, Version: r.newID(), Flush: schema.Flush{Inc: ancient, Seq: 4}})
		r.store(schema.Like{User: "carol", Liked: true, Version: r.newID(), Flush: schema.Flush{Inc: fenced, Seq: 6}})
		r.send("bob", false)
		r.send("carol", false)
		r.done()
		r.wantCount(2)
	})
}

func TestOnlyAnUnlikeThatNothingCountedExpires(t *testing.T) {
	step(t, func(r *rig) {
		r.run()
		r.send("alice", false)
		r.done()
		l := r.like("alice")
		if want := time.Now().Add(messages.MaxAge); !l.TTL.After(want) || l.Indexed {
			t.Errorf("an unlike that nothing counted: %+v, want a ttl after %v and not in the index", l, want)
		}
		r.send("alice", true)
		r.done()
		if l := r.like("alice"); !l.TTL.IsZero() || !l.Indexed {
			t.Errorf("liked again: %+v, want no ttl", l)
		}
		r.send("alice", false)
		r.done()
		if l := r.like("alice"); !l.TTL.IsZero() || !l.Base || l.Indexed {
			t.Errorf("an unlike that owes the count: %+v, want no ttl", l)
		}
		r.wantCount(0)
	})
}

func TestTheNewestActionOfAUserInAWindowSettlesTheOthers(t *testing.T) {
	step(t, func(r *rig) {
		r.run()
		first := r.newID()
		second := r.newID()
		third := r.newID()
		r.queue.publish(encode(third, r.post, "alice", true), 0)
		r.queue.publish(encode(first, r.post, "alice", true), 0)
		r.queue.publish(encode(second, r.post, "alice", false), 0)
		r.done()
		r.wantLike("alice", true, false, third)
		r.wantCount(1)
		r.wantWrites(1, 1)
	})
}

func TestTheShardsOfThePostDecideTheItem(t *testing.T) {
	step(t, func(r *rig) {
		r.post = r.posts[1] // three shards
		r.run()
		for i := range 20 {
			r.send(fmt.Sprintf("user%d", i), true)
		}
		r.done()
		used := 0
		for shard := range 3 {
			items, _, err := table.Collect(r.mem.Query(t.Context(), table.Query{PK: schema.LikesPK(r.post, shard, 3)}), 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(items) > 0 {
				used++
			}
		}
		if count := r.count(t, 1); count.Likes != 20 || used != 3 {
			t.Errorf("%d likes in %d shards, want 20 in 3", count.Likes, used)
		}
	})
}

func TestLikesOfADeletedPostHaveNoEffect(t *testing.T) {
	step(t, func(r *rig) {
		r.post = r.posts[3]
		r.run()
		r.send("alice", true)
		r.done()
		r.wantWrites(0, 0)
		r.wantDead(0, "")
	})
}

func TestALikeWaitsForItsPostThenBecomesADeadLetter(t *testing.T) {
	step(t, func(r *rig) {
		r.run()
		early, never := r.newID(), r.newID()
		r.queue.publish(encode(r.newID(), early, "alice", true), 0)
		r.queue.publish(encode(r.newID(), never, "alice", true), 0)
		pass(10 * time.Second)
		ref := schema.PostRef{ID: early, Author: "author"}
		if _, err := r.mem.Put(t.Context(), table.PutInput{Item: ref.Item()}); err != nil {
			t.Fatal(err)
		}
		r.posts[0] = early
		r.done()
		r.wantCount(1)
		r.wantDead(1, "there is no post "+never)
	})
}

func TestWhatCanNeverBeAppliedBecomesADeadLetterAtOnce(t *testing.T) {
	followed := func(id string) []byte {
		payload, err := messages.Encode(&messages.Followed{
			Header: messages.Header{EventID: id, Time: time.Now()}, FollowerID: "a", AuthorID: "b", From: id, MarkVersion: id,
		})
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	for _, tt := range []struct {
		name, reason string
		payload      func(r *rig) []byte
	}{
		{"no event", "not a JSON object", func(*rig) []byte { return []byte("{") }},
		{"unknown version", "version 9", func(*rig) []byte { return []byte(`{"type":"Liked","version":9}`) }},
		{"another kind", "a Followed in the queue of likes", func(r *rig) []byte { return followed(r.newID()) }},
		{"too old", "older than", func(r *rig) []byte {
			payload := encode(r.newID(), r.post, "alice", true)
			pass(messages.MaxAge + time.Second)
			return payload
		}},
		{"too far ahead", "ahead of the clock", func(r *rig) []byte {
			return encode("7"+strings.Repeat("Z", 25), r.post, "alice", true)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step(t, func(r *rig) {
				payload := tt.payload(r)
				r.queue.refuse = 2 // the dead letter is not stored at first, then the message comes again
				r.run()
				r.queue.publish(payload, 0)
				r.done()
				r.wantDead(1, tt.reason)
				r.wantWrites(0, 0)
			})
		})
	}
}

func TestAWindowThatSleptIntoAnotherAgeSendsNothing(t *testing.T) {
	step(t, func(r *rig) {
		p := r.run()
		var awake func()
		r.script = func(op string, _ table.Key) fate {
			if op == "put" && awake == nil { // its answer comes two days later
				awake = p.pause(false)
			}
			return r.fates(nil)(op, table.Key{})
		}
		r.send("alice", true)
		pass(2 * time.Second)
		pass(48 * time.Hour)
		awake()
		pass(900 * time.Millisecond) // before the next window
		r.wantWrites(1, 0)
		if out := r.outcomes(); len(out) != 1 || !out[0].Lost {
			t.Errorf("a window that slept for two days sent its flush: %+v", r.outcomes())
		}
		r.done()
		r.wantCount(1)
	})
}

func TestEachDayHasItsIncarnation(t *testing.T) {
	step(t, func(r *rig) {
		r.run()
		for i := range 3 {
			r.send(fmt.Sprintf("user%d", i), true)
			r.done()
			pass(24 * time.Hour)
		}
		count := r.wantCount(3)
		days := map[int64]bool{}
		for inc := range count.Done {
			day, ok := dayOfIncarnation(inc)
			if !ok || len(inc) > 12 {
				t.Errorf("incarnation %q", inc)
			}
			days[day] = true
		}
		if len(days) != 3 {
			t.Errorf("incarnations of %d days, want 3: %v", len(days), count.Done)
		}
	})
}

func TestStopFlushesWhatIsInHand(t *testing.T) {
	step(t, func(r *rig) {
		r.tune = func(cfg *Config) { cfg.Window = time.Hour }
		p := r.run()
		r.send("alice", true)
		pass(time.Second)
		began := time.Now()
		p.stop()
		<-p.ended
		if p.err != nil || time.Since(began) > time.Second {
			t.Errorf("stopped after %v: %v", time.Since(began), p.err)
		}
		r.wantCount(1)
		if r.queue.len() != 0 {
			t.Error("the message was not acked")
		}
	})
}

func TestStopHandsBackWhatItCannotFinish(t *testing.T) {
	step(t, func(r *rig) {
		r.script = func(string, table.Key) fate { return failed }
		p := r.run()
		r.send("alice", true)
		r.send("bob", true)
		pass(3 * time.Second)
		began := time.Now()
		p.stop()
		<-p.ended
		if took := time.Since(began); p.err != nil || took < 10*time.Second || took > 20*time.Second {
			t.Errorf("stopped after %v with a grace of 10 s: %v", took, p.err)
		}
		r.queue.mu.Lock()
		for _, m := range r.queue.msgs {
			if m.visible.After(time.Now()) {
				t.Errorf("message %s was not handed back", m.id)
			}
		}
		r.queue.mu.Unlock()
		r.script = r.fates(nil)
		r.run()
		r.done()
		r.wantCount(2)
	})
}

func TestAnUnknownFailureEndsInADeadLetter(t *testing.T) {
	step(t, func(r *rig) {
		r.tune = func(cfg *Config) { cfg.Store = refusing{cfg.Store} }
		r.run()
		r.send("alice", true)
		r.done()
		r.wantDead(1, "access denied")
		r.wantCount(0)
	})
}

// refusing is a table that refuses to write likes for a reason nobody knows.
type refusing struct{ table.Store }

func (refusing) Put(context.Context, table.PutInput) (table.WriteResult, error) {
	return table.WriteResult{}, fmt.Errorf("access denied")
}

// A panic of the table tells as little as a lost answer: not even that nothing was
// written.
func TestAPanicOfTheTableEndsNoProcessAndCountsNothingTwice(t *testing.T) {
	step(t, func(r *rig) {
		s := &stumbling{puts: 2, updates: 2}
		r.tune = func(cfg *Config) { s.Store = cfg.Store; cfg.Store = s }
		r.run()
		r.send("alice", true)
		r.done()
		r.wantCount(1)
		r.send("alice", false)
		r.send("bob", true)
		r.done()
		r.wantCount(1)
	})
}

func TestAPanicThatLastsEndsInADeadLetter(t *testing.T) {
	step(t, func(r *rig) {
		r.tune = func(cfg *Config) { cfg.Store = &stumbling{Store: cfg.Store, puts: math.MaxInt} }
		r.run()
		r.send("alice", true)
		r.done()
		r.wantDead(1, "panic: boom")
		r.wantCount(0)
	})
}

// stumbling is a table that panics at some writes, each after it did it.
type stumbling struct {
	table.Store
	mu            sync.Mutex
	puts, updates int
}

func (s *stumbling) stumble(left *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *left > 0 {
		*left--
		panic("boom")
	}
}

func (s *stumbling) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	res, err := s.Store.Put(ctx, in)
	s.stumble(&s.puts)
	return res, err
}

func (s *stumbling) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	res, err := s.Store.Update(ctx, in)
	s.stumble(&s.updates)
	return res, err
}

func TestWhatIsInHandIsBounded(t *testing.T) {
	step(t, func(r *rig) {
		r.tune = func(cfg *Config) { cfg.Window = time.Minute } // 40 messages, 4 requests
		r.script = func(string, table.Key) fate { return slow }
		r.run()
		for i := range 500 {
			r.post = r.posts[i%2*i%3] // a hot one and a warm one
			r.send(fmt.Sprintf("user%d", i), true)
		}
		r.done()
		if most := r.queue.mostHeld(); most > 41 { // one waits in the subscription
			t.Errorf("%d messages were out at once, want at most 41", most)
		}
		r.mu.Lock()
		if r.mostCalling > 4 {
			t.Errorf("%d requests were out at once, want at most 4", r.mostCalling)
		}
		r.mu.Unlock()
		for _, o := range r.outcomes() {
			if o.Messages > 40 {
				t.Errorf("a window of %d messages", o.Messages)
			}
		}
	})
}

func TestTheEndOfTheSubscriptionIsAnError(t *testing.T) {
	step(t, func(r *rig) {
		p := r.run()
		p.connection.cut()
		<-p.ended
		if p.err == nil {
			t.Error("nil")
		}
	})
}

package likeagg

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
			l := schema.Like{User: fmt.Sprintf("user%d", i), Liked: true, Version: w.newID(), Flush: left}
			if i%2 == 0 {
				l.Flush = counted
			}
			w.store(l)
			w.queue.publish(encode(l.Version, w.post, l.User, true))
		}
		w.run()
		w.settle()
		w.wantCount(30)
		fences := 0
		for _, o := range w.outcomes() {
			fences += o.Fences
		}
		if fences != 1 {
			t.Errorf("%d fences, want 1", fences)
		}
	})
}

func TestAFencedLikeKeepsItsNewerStateAndItsBase(t *testing.T) {
	step(t, func(w *world) {
		g, older := others(1), w.newID()
		version := w.newID()
		w.store(schema.Like{User: "alice", Liked: false, Version: version, Flush: g, Base: true})
		w.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(1)}, table.Attr{Name: schema.AttrFenced(g.Inc), Value: table.N(1)})
		w.run()
		w.queue.publish(encode(older, w.post, "alice", true))
		w.settle()
		if l := w.likes(1)[0]; l.Liked || !l.Base || l.Version != version {
			t.Errorf("the like is %+v, want the unlike %s with the base of the like before it", l, version)
		}
		w.wantCount(0)
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
		if w.wantCount(20); len(used) != 3 {
			t.Errorf("20 likes in %d shards, want 3", len(used))
		}
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
		w.queue.publish(encode(w.newID(), early, "alice", true))
		w.queue.publish(encode(w.newID(), never, "alice", true))
		pass(10 * time.Second)
		ref := schema.PostRef{ID: early, Author: "author"}
		if _, err := w.mem.Put(t.Context(), table.PutInput{Item: ref.Item()}); err != nil {
			t.Fatal(err)
		}
		w.post = early
		w.settle()
		w.wantCount(1)
		w.wantDead(1, "there is no post "+never)
	})
}

func TestAMessageThatCanNeverBeAppliedBecomesADeadLetterAtOnce(t *testing.T) {
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
		payload      func(w *world) []byte
	}{
		{"no event", "not a JSON object", func(*world) []byte { return []byte("{") }},
		{"unknown version", "version 9", func(*world) []byte { return []byte(`{"type":"Liked","version":9}`) }},
		{"another kind", "a Followed in the queue of likes", func(w *world) []byte { return followed(w.newID()) }},
		{"too old", "older than", func(w *world) []byte {
			payload := encode(w.newID(), w.post, "alice", true)
			pass(messages.MaxAge + time.Second)
			return payload
		}},
		{"too far ahead", "ahead of the clock", func(w *world) []byte {
			return encode("7"+strings.Repeat("Z", 25), w.post, "alice", true)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step(t, func(w *world) {
				payload := tt.payload(w)
				w.queue.refuse = 2 // the dead letter is not stored at first, then the message comes again
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

func TestAWindowThatSleptTooLongSendsNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		waits, sleeps time.Duration // before the message is received, and in its put
	}{
		"its incarnation may be pruned":             {0, 48 * time.Hour},
		"its message may not be refused any longer": {messages.MaxAge - 5*time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			step(t, func(w *world) {
				w.fault = func(r request) fault {
					if r.op == "put" && len(w.outcomes()) == 0 {
						pass(tt.sleeps)
						return lost // so it would be repeated
					}
					return none
				}
				w.send("alice", true)
				pass(tt.waits)
				w.run()
				pass(tt.sleeps + 1900*time.Millisecond) // before the message comes again
				w.wantWrites(1, 0)
				if out := w.outcomes(); len(out) != 1 || !out[0].Lost {
					t.Errorf("it ended as %+v, want it lost", out)
				}
			})
		})
	}
}

func TestEachDayHasItsIncarnation(t *testing.T) {
	step(t, func(w *world) {
		w.run()
		for i := range 3 {
			w.send(fmt.Sprintf("user%d", i), true)
			w.settle()
			pass(24 * time.Hour)
		}
		count := w.wantCount(3)
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

func TestStopFlushesTheOpenWindows(t *testing.T) {
	step(t, func(w *world) {
		w.tune = func(cfg *Config) { cfg.Window = time.Hour }
		p := w.run()
		w.send("alice", true)
		pass(time.Second)
		began := time.Now()
		p.stop()
		<-p.ended
		if p.err != nil || time.Since(began) > time.Second {
			t.Errorf("stopped after %v: %v", time.Since(began), p.err)
		}
		w.wantCount(1)
		if w.queue.len() != 0 {
			t.Error("the message was not acked")
		}
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
			if m.visible.After(time.Now()) {
				t.Errorf("message %s was not handed back", m.id)
			}
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

// After a panic of the table the outcome is as unknown as after a lost answer.
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
		w.tune = func(cfg *Config) { cfg.Window = time.Minute } // 40 messages, 4 requests
		w.fault = func(request) fault { return slow }
		posts := []string{w.post, w.newPost(schema.PostRef{})} // a hot one and a warm one
		w.run()
		for i := range 500 {
			w.post = posts[i%4/3]
			w.send(fmt.Sprintf("user%d", i), true)
		}
		w.settle()
		if most := w.queue.mostHeld; most > 41 { // one waits in the subscription
			t.Errorf("%d messages were out at once, want at most 41", most)
		}
		w.mu.Lock()
		if w.mostCalling > 4 {
			t.Errorf("%d requests were out at once, want at most 4", w.mostCalling)
		}
		w.mu.Unlock()
		for _, o := range w.outcomes() {
			if o.Messages > 40 {
				t.Errorf("a window of %d messages", o.Messages)
			}
		}
	})
}

func TestTheEndOfTheSubscriptionIsAnError(t *testing.T) {
	step(t, func(w *world) {
		p := w.run()
		close(w.queue.cut)
		<-p.ended
		if p.err == nil {
			t.Error("nil")
		}
	})
}

func TestAHotPostCostsOneWriteALikeAndOneAWindow(t *testing.T) {
	step(t, func(w *world) {
		w.tune = func(cfg *Config) { cfg.MaxMessages, cfg.IndexLikes = 10_000, false }
		for range 3 {
			w.run()
		}
		const likes = 3000
		began := time.Now()
		for i := range likes {
			w.send(fmt.Sprintf("user%d", i), true)
			pass(3 * time.Millisecond)
		}
		windows := 3 * (1 + int(time.Since(began)/time.Second))
		w.settle()
		flushes := 0
		for _, o := range w.outcomes() {
			if o.Flushed {
				flushes++
			}
		}
		w.wantCount(likes)
		// T7: 1 + 1/m + 0.01 write units a like without the index, for m likes a window.
		m := float64(likes) / float64(flushes)
		if got, most := w.units/likes, 1+1/m+0.01; got > most {
			t.Errorf("%.4f write units a like at %.1f likes a window, want at most %.4f", got, m, most)
		}
		// T8: at most one write of the count item a window and aggregator.
		if w.wantWrites(likes, flushes); flushes > windows {
			t.Errorf("%d flushes in %d windows", flushes, windows)
		}
	})
}

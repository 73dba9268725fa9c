package likeagg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// An incarnation's name starts with its day, the days since 1970 in dayDigits
// digits of base dayBase, and goes on with 40 random bits.
const (
	dayDigits   = 4
	dayBase     = 36
	randDigits  = 8
	randBits    = 5
	randAlpha   = "0123456789abcdefghjkmnpqrstvwxyz"
	maxAgeDays  = int64(messages.MaxAge / (24 * time.Hour))
	prunedDays  = maxAgeDays + 1 // absent and older: its entry was pruned
	pruningDays = maxAgeDays + 2 // older: pruned now; a day later than believed, for clocks that differ
	maxPruned   = 100            // entries that one flush prunes
)

func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// newIncarnation returns a name that no other incarnation has.
func newIncarnation(day int64, random uint64) string {
	s := strconv.FormatInt(max(day, 0), dayBase)
	for len(s) < dayDigits {
		s = "0" + s
	}
	for range randDigits {
		s += string(randAlpha[random&(1<<randBits-1)])
		random >>= randBits
	}
	return s
}

// dayOfIncarnation is the day in a name. What is no incarnation's name is of no
// known day, so nothing is concluded from its age.
func dayOfIncarnation(inc string) (day int64, ok bool) {
	if len(inc) != dayDigits+randDigits {
		return 0, false
	}
	day, err := strconv.ParseInt(inc[:dayDigits], dayBase, 64)
	return day, err == nil
}

// older tells whether inc began more than days ago.
func older(inc string, days int64, now time.Time) bool {
	day, ok := dayOfIncarnation(inc)
	return ok && dayOf(now)-day > days
}

// stamp names the flush of a window that starts: a new incarnation each day and
// after one that ended. The caller holds mu.
func (r *run) stamp() schema.Flush {
	if today := dayOf(r.cfg.Now()); r.inc == "" || r.incDay != today {
		r.inc, r.incDay, r.seq = newIncarnation(today, r.cfg.Random()), today, 0
	}
	r.seq++
	return schema.Flush{Inc: r.inc, Seq: r.seq}
}

// retire ends an incarnation that did not flush what it stamped.
func (r *run) retire(inc string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inc == inc {
		r.inc = ""
	}
}

// fate tells whether the flush g was counted or never will be. While neither is
// known the message is left for later; after some receives g's incarnation is
// fenced.
func (w *window) fate(ctx context.Context, a *action, g schema.Flush) (counted bool, err error) {
	if g.Inc == w.my.Inc && g.Seq < w.my.Seq {
		return true, nil // windows are serial, and an incarnation ends with an unflushed one
	}
	for {
		count, err := w.ledger(ctx, a)
		if err != nil {
			return false, err
		}
		if counted, known := w.judge(count, g); known {
			return counted, nil
		}
		if a.receives < w.run.cfg.FenceAfter {
			wait := w.run.cfg.Window << min(max(a.receives, 1)-1, 5)
			return false, &queue.Later{After: wait, Reason: "another aggregator may be flushing the user's former action"}
		}
		if err := w.once(g.Inc, func() error { return w.fence(ctx, a, g) }); err != nil {
			return false, err
		}
	}
}

// judge reads a flush's fate from the ledger.
func (w *window) judge(count schema.LikeCount, g schema.Flush) (counted, known bool) {
	seq, flushed := count.Done[g.Inc]
	switch {
	case flushed && seq >= g.Seq:
		return true, true
	case count.Fenced[g.Inc]:
		return false, true
	case !flushed && older(g.Inc, prunedDays, w.run.cfg.Now()):
		return true, true // its entry was pruned
	}
	return false, false
}

// fence makes sure that g is never counted, unless it was, and learns what the ledger
// says then: many likes may wait for the same answer.
func (w *window) fence(ctx context.Context, a *action, g schema.Flush) error {
	var res table.WriteResult
	err := w.attempt(ctx, a.version, func() (err error) {
		res, err = w.run.cfg.Store.Update(ctx, table.UpdateInput{
			Key: schema.LikeCountKey(w.post.id),
			Set: []table.Attr{{Name: schema.AttrFenced(g.Inc), Value: table.N(1)}},
			If:  notFlushed(g), ReturnNew: true,
		})
		return err
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		w.learn(failed.Old)
		return nil
	}
	if err != nil {
		return fmt.Errorf("fence %s: %w", g.Inc, err)
	}
	w.learn(res.Item)
	w.mu.Lock()
	w.fences++
	w.mu.Unlock()
	w.run.cfg.Log.Info("fenced an aggregator that left a window unflushed",
		zap.String("post_id", w.post.id), zap.String("incarnation", g.Inc))
	return nil
}

func notFlushed(g schema.Flush) table.Cond {
	done := schema.AttrFlushed(g.Inc)
	return table.Any{table.AttrAbsent{Name: done}, table.Less{Name: done, Value: table.N(g.Seq)}}
}

// ledger returns the post's count item as the window knows it; it reads it once. An
// older answer does: what was decided stays so, and what was not is fenced on a
// condition.
func (w *window) ledger(ctx context.Context, a *action) (schema.LikeCount, error) {
	if seen := w.lastSeen(); seen != nil {
		return *seen, nil
	}
	err := w.once("", func() error {
		var res table.GetResult
		err := w.attempt(ctx, a.version, func() (err error) {
			res, err = w.run.cfg.Store.Get(ctx, table.GetInput{Key: schema.LikeCountKey(w.post.id), Consistent: true})
			return err
		})
		if err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
		w.learn(res.Item)
		return nil
	})
	if err != nil {
		return schema.LikeCount{}, err
	}
	return w.ledger(ctx, a)
}

func (w *window) lastSeen() *schema.LikeCount {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

func (w *window) learn(count *table.Item) {
	read := schema.ParseLikeCount(count)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = &read
}

// once does something, or waits for another worker of the window that does it.
func (w *window) once(name string, do func() error) error {
	w.mu.Lock()
	if busy := w.busy[name]; busy != nil {
		w.mu.Unlock()
		<-busy
		return nil // the caller looks again
	}
	done := make(chan struct{})
	if w.busy == nil {
		w.busy = make(map[string]chan struct{})
	}
	w.busy[name] = done
	w.mu.Unlock()
	err := do()
	w.mu.Lock()
	delete(w.busy, name)
	w.mu.Unlock()
	close(done)
	return err
}

// prunable returns the entries that the flush may drop. Those of a fenced
// incarnation stay: it ended with an unflushed window, and absent it would be
// believed to have flushed it.
func prunable(count *schema.LikeCount, now time.Time) []string {
	if count == nil {
		return nil
	}
	var names []string
	for inc := range count.Done {
		if older(inc, pruningDays, now) && !count.Fenced[inc] {
			names = append(names, schema.AttrFlushed(inc))
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxPruned)]
}

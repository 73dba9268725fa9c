package likeagg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/invariants"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// The name of an incarnation begins with its day, the days since 1970 in dayDigits
// digits of base dayBase. 40 random bits follow.
const (
	dayDigits   = 4
	dayBase     = 36
	randDigits  = 8
	randBits    = 5
	randAlpha   = "0123456789abcdefghjkmnpqrstvwxyz"
	maxAgeDays  = int64(messages.MaxAge / (24 * time.Hour))
	prunedDays  = maxAgeDays + 1 // an older incarnation without an entry was pruned
	pruningDays = maxAgeDays + 2 // an older entry is pruned now; a day more, as clocks differ
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

// dayOfIncarnation returns the day in a name. Another string has no known day, so
// nothing is concluded from its age.
func dayOfIncarnation(inc string) (day int64, ok bool) {
	if len(inc) != dayDigits+randDigits {
		return 0, false
	}
	day, err := strconv.ParseInt(inc[:dayDigits], dayBase, 64)
	return day, err == nil
}

// olderThan reports whether inc began more than this many days ago.
func olderThan(inc string, days int64, now time.Time) bool {
	day, ok := dayOfIncarnation(inc)
	return ok && dayOf(now)-day > days
}

// nextStamp names the flush of a window that starts. It begins a new incarnation each
// day and after a lost window. The caller holds mu.
func (c *collector) nextStamp() schema.Flush {
	if today := dayOf(c.cfg.Now()); c.inc == "" || c.incDay != today {
		c.inc, c.incDay, c.seq = newIncarnation(today, c.cfg.Random()), today, 0
	}
	c.seq++
	return schema.Flush{Inc: c.inc, Seq: c.seq}
}

// retire ends an incarnation that lost a window: it may have stamped likes that no
// flush of it counted.
func (c *collector) retire(inc string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inc == inc {
		c.inc = ""
	}
	if invariants.Enabled {
		c.retired[inc] = true
	}
}

// flushState is the state of a flush by the ledger.
type flushState int

const (
	flushOpen    flushState = iota // it may still happen
	flushCounted                   // it happened
	flushNever                     // a fence keeps it from happening
)

// stateOf returns the state of the flush g by a ledger.
func stateOf(g schema.Flush, ledger schema.LikeCount, now time.Time) flushState {
	seq, flushed := ledger.Done[g.Inc]
	switch {
	case flushed && seq >= g.Seq:
		return flushCounted
	case ledger.Fenced[g.Inc]:
		return flushNever
	case !flushed && olderThan(g.Inc, prunedDays, now):
		return flushCounted // its entry was pruned
	}
	return flushOpen
}

// counted reports whether the flush g happened; if not, it never will. A message that
// meets an open flush is left for later, and from FenceAfter receives on g's
// incarnation is fenced.
func (w *window) counted(ctx context.Context, a *action, g schema.Flush) (bool, error) {
	if g.Inc == w.stamp.Inc && g.Seq < w.stamp.Seq {
		// Windows of a post are serial, and an incarnation ends with a lost window.
		if ledger := w.lastLedger(); ledger != nil {
			invariants.Check(ledger.Done[g.Inc] >= g.Seq, "I3: window %s takes flush %s for done, the ledger does not have it", w.stamp, g)
		}
		return true, nil
	}
	invariants.Check(g.Inc != w.stamp.Inc, "I3: window %s meets a like of the later window %s", w.stamp, g)
	for {
		ledger, err := w.readLedger(ctx, a.version)
		if err != nil {
			return false, err
		}
		if state := stateOf(g, ledger, w.cfg.Now()); state != flushOpen {
			return state == flushCounted, nil
		}
		if a.receives < w.cfg.FenceAfter {
			wait := w.cfg.Window << min(max(a.receives, 1)-1, 5)
			return false, &queue.Later{After: wait, Reason: "another aggregator may be flushing the user's former action"}
		}
		if _, err, _ = w.shared.Do("fence "+g.Inc, func() (any, error) { return nil, w.fence(ctx, a.version, g) }); err != nil {
			return false, err
		}
	}
}

// fence makes sure that g never happens, unless it already did. The answer brings the
// ledger, which all likes that wait for the same fence are judged by.
func (w *window) fence(ctx context.Context, version string, g schema.Flush) error {
	var res table.WriteResult
	err := w.attempt(ctx, version, func() (err error) {
		res, err = w.cfg.Store.Update(ctx, table.UpdateInput{
			Key: schema.LikeCountKey(w.post),
			Set: []table.Attr{{Name: schema.AttrFenced(g.Inc), Value: table.N(1)}},
			If:  notFlushed(g), ReturnNew: true,
		})
		return err
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		w.setLedger(failed.Old)
		return nil
	}
	if err != nil {
		return fmt.Errorf("fence %s: %w", g.Inc, err)
	}
	w.setLedger(res.Item)
	w.mu.Lock()
	w.fences++
	w.mu.Unlock()
	w.cfg.Log.Info("fenced an aggregator that left a window unflushed",
		zap.String("post_id", w.post), zap.String("incarnation", g.Inc))
	return nil
}

func notFlushed(g schema.Flush) table.Cond {
	done := schema.AttrFlushed(g.Inc)
	return table.Any{table.AttrAbsent{Name: done}, table.Less{Name: done, Value: table.N(g.Seq)}}
}

// readLedger returns the post's count item as the window knows it; the window reads it
// once. An older answer is as good: a state other than open never changes, and a
// fence is written on a condition.
func (w *window) readLedger(ctx context.Context, version string) (schema.LikeCount, error) {
	for {
		if ledger := w.lastLedger(); ledger != nil {
			return *ledger, nil
		}
		_, err, _ := w.shared.Do("read", func() (any, error) { return nil, w.fetchLedger(ctx, version) })
		if err != nil {
			return schema.LikeCount{}, err
		}
	}
}

func (w *window) fetchLedger(ctx context.Context, version string) error {
	var res table.GetResult
	err := w.attempt(ctx, version, func() (err error) {
		res, err = w.cfg.Store.Get(ctx, table.GetInput{Key: schema.LikeCountKey(w.post), Consistent: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	w.setLedger(res.Item)
	return nil
}

func (w *window) lastLedger() *schema.LikeCount {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ledger
}

func (w *window) setLedger(count *table.Item) {
	ledger := schema.ParseLikeCount(count)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger = &ledger
}

// prunable returns the entries that the flush may drop. The entries of a fenced
// incarnation stay: it lost a window, and without an entry that window would be taken
// for flushed.
func prunable(ledger *schema.LikeCount, now time.Time) []string {
	if ledger == nil {
		return nil
	}
	var names []string
	for inc := range ledger.Done {
		if olderThan(inc, pruningDays, now) && !ledger.Fenced[inc] {
			names = append(names, schema.AttrFlushed(inc))
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxPruned)]
}

package likeagg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/invariants"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

const (
	maxAgeDays = int64(messages.MaxAge / (24 * time.Hour))
	maxPruned  = 100 // attributes that one prune drops
	// lastHour is the last part of a message's life. In this hour the message does not wait for
	// another aggregator, because a redelivery might be too late.
	lastHour = time.Hour
	// lookFrom is the size of a count item from which the notes of its incarnations are read.
	// When a flush begins to cost two units, the notes are then already known, and the time
	// settled has passed.
	lookFrom = 768
	// largeLedger is the size of a count item from which there is an alarm: thousands of
	// aggregators died while they counted likes of one post.
	largeLedger = 64 << 10
)

// flushState is the state of a flush, as its ledger shows it.
type flushState int

const (
	flushOpen    flushState = iota // the flush may still happen
	flushCounted                   // the flush happened
	flushNever                     // a fence keeps the flush from happening
)

// stateOf returns the state of the flush g. ended reports that a note, read after the ledger, shows that g's
// incarnation flushed everything on the post.
func stateOf(g schema.Flush, ledger schema.LikeCount, ended bool) flushState {
	seq, flushed := ledger.Done[g.Inc]
	switch {
	case flushed && seq >= g.Seq:
		return flushCounted
	case ended:
		return flushCounted // the entry was pruned, or a restored table has an older entry; a fence proves nothing
	case ledger.Fenced[g.Inc]:
		return flushNever
	}
	return flushOpen
}

// Counted reports whether the state of a like is in its post's count. ended reports that a note, read after
// the ledger, shows that the incarnation of the like's stamp flushed everything on the post. If the state is
// not in the count, the like's base is.
func Counted(stamp schema.Flush, ledger schema.LikeCount, ended bool) bool {
	return stateOf(stamp, ledger, ended) == flushCounted
}

// judge decides how the actions that found a stored like continue. Each action gets a next
// state or an error, or needs no change.
func (w *window) judge(ctx context.Context, met []*action) error {
	var rest []*action // their likes belong to other incarnations
	for _, a := range met {
		switch {
		case a.old == nil: // the like expired after the read
			a.next = &schema.Like{Kind: a.kind, Version: a.version}
		case a.old.Flush.Inc == w.stamp.Inc:
			w.checkOwn(a.old.Flush)
			a.choose(true) // windows of a post are serial, and a lost window ends its incarnation
		default:
			rest = append(rest, a)
		}
	}
	if len(rest) > 0 && w.ledger == nil {
		if err := w.readLedger(ctx); err != nil {
			return err
		}
	}
	for len(rest) > 0 {
		if err := w.readEnds(ctx, rest); err != nil {
			return err
		}
		open := map[string]schema.Flush{} // the flushes to fence, by incarnation
		rest = slices.DeleteFunc(rest, func(a *action) bool {
			g := a.old.Flush
			state := stateOf(g, *w.ledger, w.ended(g.Inc))
			switch {
			case state != flushOpen:
				a.choose(state == flushCounted)
			case a.receives < w.cfg.FenceAfter && !w.inLastHour(a):
				wait := w.cfg.Window << min(max(a.receives, 1)-1, 5)
				a.err = &queue.Later{After: wait, Counts: true, Reason: "another aggregator may be flushing the user's former action"}
			default:
				if former, ok := open[g.Inc]; !ok || g.Seq < former.Seq {
					open[g.Inc] = g
				}
				return false
			}
			return true
		})
		for _, inc := range slices.Sorted(maps.Keys(open)) {
			if err := w.fence(ctx, open[inc]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *window) checkOwn(g schema.Flush) {
	invariants.Check(g.Seq < w.stamp.Seq, "I3: window %s meets a like of the later window %s", w.stamp, g)
	if w.ledger != nil {
		invariants.Check(w.ledger.Done[g.Inc] >= g.Seq, "I3: window %s takes flush %s for done, the ledger does not have it", w.stamp, g)
	}
}

// inLastHour reports whether a's message is nearly too old.
func (w *window) inLastHour(a *action) bool {
	at, err := id.Time(a.version)
	return err == nil && w.cfg.Now().Sub(at) > messages.MaxAge-lastHour
}

// ended reports whether inc has noted that it flushed all its stamps on the post.
func (w *window) ended(inc string) bool {
	end, _ := w.collector.ends.get(inc)
	return end.ended && !end.lost[w.post]
}

// readEnds reads the notes of the incarnations that the likes of actions name, if the ledger
// lacks their flush. readEnds must follow the read of the ledger: a missing entry may have been
// pruned, and then the note was written before the prune. In a restored table, whose items come
// from several moments, an incarnation may have both a note and an entry of an earlier flush.
func (w *window) readEnds(ctx context.Context, actions []*action) error {
	incs := map[string]bool{}
	for _, a := range actions {
		g := a.old.Flush
		if end, _ := w.collector.ends.get(g.Inc); w.ledger.Done[g.Inc] < g.Seq && !end.ended {
			incs[g.Inc] = true
		}
	}
	if len(incs) == 0 {
		return nil
	}
	err := w.attempt(ctx, nil, func() error { return w.collector.readEnds(ctx, slices.Sorted(maps.Keys(incs))) })
	if err != nil {
		return fmt.Errorf("read the ends of incarnations: %w", err)
	}
	return nil
}

// fence ensures that g never happens, unless g has happened. The answer contains the ledger.
func (w *window) fence(ctx context.Context, g schema.Flush) error {
	res, err := w.updateCount(ctx, table.UpdateInput{
		Set: []table.Attr{{Name: schema.AttrFenced(g.Inc), Value: table.N(1)}}, If: notFlushed(g), ReturnNew: true,
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		w.setLedger(failed.Old)
		return nil
	}
	if err != nil {
		return fmt.Errorf("fence %s: %w", g.Inc, err)
	}
	w.setLedger(res.Item)
	w.fences++
	w.cfg.Log.Info("fenced an aggregator that left a window unflushed",
		zap.String("post_id", w.post), zap.String("incarnation", g.Inc))
	return nil
}

func notFlushed(g schema.Flush) table.Cond {
	done := schema.AttrFlushed(g.Inc)
	return table.Any{table.AttrAbsent{Name: done}, table.Less{Name: done, Value: table.N(g.Seq)}}
}

// readLedger reads the post's count item, once in a window. A stale answer does no harm: a
// state other than open never changes, and a fence is a conditional write.
func (w *window) readLedger(ctx context.Context) error {
	var res table.GetResult
	err := w.attempt(ctx, nil, func() (err error) {
		res, err = w.cfg.Store.Get(ctx, table.GetInput{Key: schema.LikeCountKey(w.post), Consistent: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	w.setLedger(res.Item)
	return nil
}

func (w *window) setLedger(count *table.Item) {
	ledger := schema.ParseLikeCount(count)
	w.ledger = &ledger
}

// prune drops the entries of ended incarnations from the count item after the flush, if the
// next flush becomes cheaper. Nothing depends on the prune, so prune tries it once.
func (w *window) prune(ctx context.Context, count table.Item) (pruned int, err error) {
	size := table.Size(count)
	if size >= largeLedger {
		w.collector.alarm(w.post, size)
	}
	if size < lookFrom {
		return 0, nil
	}
	ledger := schema.ParseLikeCount(&count)
	incs := map[string]bool{}
	for _, of := range []map[string]bool{ledger.Fenced, keys(ledger.Done)} {
		maps.Copy(incs, of)
	}
	delete(incs, w.stamp.Inc)
	var ask []string
	for inc := range incs {
		end, known := w.collector.ends.get(inc)
		if !known || !end.ended && time.Since(end.at) >= settled {
			ask = append(ask, inc)
		}
	}
	if slices.Sort(ask); len(ask) > 0 {
		if err := w.collector.readEnds(ctx, ask); err != nil {
			return 0, err
		}
	}
	var names []string
	for _, inc := range slices.Sorted(maps.Keys(incs)) {
		if !w.prunable(inc) {
			continue
		}
		for _, name := range []string{schema.AttrFlushed(inc), schema.AttrFenced(inc)} {
			if v := count.Get(name); !v.IsZero() && len(names) < maxPruned {
				names = append(names, name)
				size -= table.Size(table.Item{Attrs: []table.Attr{{Name: name, Value: v}}}) - table.Size(table.Item{})
			}
		}
	}
	if table.WriteUnits(size) >= table.WriteUnits(table.Size(count)) {
		return 0, nil
	}
	_, err = w.cfg.Store.Update(ctx, table.UpdateInput{Key: schema.LikeCountKey(w.post), Remove: names, If: table.Exists{}})
	return len(names), err
}

// prunable reports whether the entries of inc may be dropped: the end of inc is noted, and no
// request of inc is in flight. A fence on inc does not matter.
func (w *window) prunable(inc string) bool {
	end, _ := w.collector.ends.get(inc)
	return end.ended && !end.lost[w.post] && time.Since(end.at) >= settled
}

func keys(done map[string]int64) map[string]bool {
	set := make(map[string]bool, len(done))
	for inc := range done {
		set[inc] = true
	}
	return set
}

// alarm logs once an hour that a ledger has grown large.
func (c *collector) alarm(post string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.alarmed.IsZero() && time.Since(c.alarmed) < settled {
		return
	}
	c.alarmed = time.Now()
	c.cfg.Log.Error("the like ledger of a post is large: many aggregators died without noting their end. Find out why they die; at 400 KB its likes become dead letters",
		zap.String("post_id", post), zap.Int("bytes", bytes))
}

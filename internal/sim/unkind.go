package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"fanfare/internal/table"
)

// The table treats reads as unkindly as DynamoDB may (docs/decisions/0052). A read that is not
// consistent draws the age of each item that it returns, so a second read may go back in time. The
// index lags by a separate time, by minutes in some worlds. The items of a transaction become
// visible one by one until the transaction is answered, to consistent reads, too. A batch or a page
// is read at two moments. The stored items and the conditions of writes are always the newest.

// The draws of these kinds of unkindness are separate from the draws of other kinds of fault.
const (
	FaultStale     = "stale read"
	FaultIndex     = "read of an index that lags by more than a minute"
	FaultTorn      = "transaction that becomes visible item by item"
	FaultSplit     = "batch or page read at two moments"
	FaultSide      = "write refused for a full partition of the index alone"
	FaultIndexRead = "read refused for the index alone"
	FaultHalf      = "batch written at two moments"
	FaultKept      = "read of an item that expired two days ago"
)

func unkindnesses() []string {
	return []string{FaultIndex, FaultTorn, FaultSplit, FaultHalf, FaultSide, FaultIndexRead, FaultKept}
}

// unkind draws the unkindness of a world. It has a random stream of its own, so no other draw depends on it.
func (s *Shape) unkind(r *rand.Rand) {
	s.Lag = []time.Duration{time.Second, time.Second, 10 * time.Second}[r.IntN(3)]
	s.IndexLag = max(s.Lag, []time.Duration{0, 0, 20 * time.Second, 3 * time.Minute, 15 * time.Minute}[r.IntN(5)])
	if r.IntN(4) == 0 {
		return
	}
	for _, kind := range []string{FaultTorn, FaultSplit, FaultHalf} {
		if r.IntN(4) == 0 {
			s.Off = append(s.Off, kind)
		}
	}
}

const (
	// mostParts, in steps, and partsTime are the maximum span in which the items of a transaction
	// become visible, or the rest of a batch or page is read.
	mostParts, partsTime = 60, 5 * time.Second
	// keptLong is the time after its expiry from which an item that is still stored counts as kept
	// long.
	keptLong = 48 * time.Hour
)

// change has an item as it was before one of the latest writes, nil if there was no item.
type change struct {
	n      int // the number among all changes
	key    table.Key
	former *table.Item
	at     time.Time
}

// lag has the latest changes in order. A read may miss any of these changes.
type lag struct {
	most time.Duration
	log  []change
}

func (l *lag) add(c change) {
	old := 0
	for old < len(l.log) && c.at.Sub(l.log[old].at) >= l.most {
		old++
	}
	l.log = append(l.log[old:], c)
}

// shadows has the former items that reads may still see.
type shadows struct {
	changes      int
	table, index lag
	veils        []veil
	halves       []half
	// torn has the number of items, by partition, that ever became visible later than their transaction.
	torn map[string]int
}

// half is a read or a batch of writes of which a part is still outstanding.
type half struct {
	call *call
	at   time.Time
	// done and rest are the keys of a batch of writes.
	done, rest []table.Key
}

// pending reports whether a part of a transaction or batch is still outstanding.
func (p *shadows) pending() bool { return len(p.veils)+len(p.halves) > 0 }

// veil hides the new state of an item of a transaction.
type veil struct {
	key    table.Key
	former *table.Item
	until  int // step
	at     time.Time
	of     *transaction
}

// transaction counts its items that are visible.
type transaction struct{ visible int }

// unveil ends the veils of an item that a write has changed, or whose new state has failed a condition: a later read sees that state.
func (p *shadows) unveil(key table.Key) {
	p.veils = slices.DeleteFunc(p.veils, func(v veil) bool { return v.key == key })
}

// replaced records an item before a write of its key.
func (w *World) replaced(key table.Key, now *table.Item) {
	p := &w.shadows
	p.unveil(key)
	p.changes++
	c := change{p.changes, key, w.items[key], time.Now()}
	p.table.add(c)
	if table.InIndex(c.former) || table.InIndex(now) {
		p.index.add(c)
	}
}

// sight describes a read of the table by the keys that the read may return.
type sight struct {
	consistent, index bool
	has               func(key table.Key, former *table.Item) bool
}

// sightOf returns the sight of a query.
func (w *World) sightOf(q table.Query) sight {
	return sight{consistent: q.Consistent && !q.Index, index: q.Index, has: func(key table.Key, former *table.Item) bool {
		if !q.Index {
			return key.PK == q.PK && (q.After == "" || key.SK != q.After && key.SK < q.After == q.Descending)
		}
		in := func(it *table.Item) bool { return table.InIndex(it) && it.Str(table.AttrGSI1PK) == q.PK }
		return in(former) || in(w.items[key])
	}}
}

// sightOfKeys returns the sight of a read of some keys.
func sightOfKeys(consistent bool, keys ...table.Key) sight {
	return sight{consistent: consistent, has: func(key table.Key, _ *table.Item) bool { return slices.Contains(keys, key) }}
}

// sightOfScan returns the sight of a scan of the keys after a key.
func sightOfScan(after table.Key) sight {
	return sight{has: func(key table.Key, _ *table.Item) bool {
		return key.PK > after.PK || key.PK == after.PK && key.SK > after.SK
	}}
}

// readAs reads the table in the state that a process sees.
func readAs[R any](w *World, at sight, read func(table.Store) (R, error)) (res R, err error) {
	stored := map[table.Key]*table.Item{}
	for key, former := range w.view(at) {
		got, err := w.store.Get(context.Background(), table.GetInput{Key: key, Consistent: true})
		if err == nil {
			stored[key], err = got.Item, w.replace(key, former)
		}
		if err != nil {
			return res, err
		}
	}
	res, err = read(w.store)
	for key, now := range stored {
		if err := w.replace(key, now); err != nil {
			return res, err
		}
	}
	return res, err
}

// replace puts an item into the table, or removes the item if it is nil. No oracle learns of the
// write.
func (w *World) replace(key table.Key, it *table.Item) (err error) {
	if it == nil {
		_, err = w.store.Delete(context.Background(), table.DeleteInput{Key: key})
	} else {
		_, err = w.store.Put(context.Background(), table.PutInput{Item: *it})
	}
	if err != nil {
		return fmt.Errorf("simulated table: %w", err)
	}
	return nil
}

// view returns the former items that a read sees in place of the stored items.
func (w *World) view(at sight) map[table.Key]*table.Item {
	former := map[table.Key]*table.Item{}
	if !at.consistent && w.chance(w.faults.Stale) && !w.off[FaultStale] {
		w.lagBehind(at, former)
	}
	for _, h := range w.shadows.halves {
		has := func(key table.Key) bool { return at.has(key, nil) }
		if slices.ContainsFunc(h.done, has) && slices.ContainsFunc(h.rest, has) {
			w.see(event{kind: eventShown, half: true})
		}
	}
	for _, v := range w.shadows.veils {
		if _, older := former[v.key]; older || !at.has(v.key, v.former) {
			continue
		}
		former[v.key] = v.former
		w.see(event{kind: eventShown, key: v.key, index: at.index, since: v.at, torn: v.of.visible > 0})
	}
	return former
}

// lagBehind draws, for each item that changed recently, the state that an eventually consistent
// read sees.
func (w *World) lagBehind(at sight, former map[table.Key]*table.Item) {
	of := &w.shadows.table
	if at.index && !w.off[FaultIndex] {
		of = &w.shadows.index
	}
	var keys []table.Key
	states := map[table.Key][]change{}
	for _, c := range of.log {
		if time.Since(c.at) < of.most && at.has(c.key, c.former) {
			if len(states[c.key]) == 0 {
				keys = append(keys, c.key)
			}
			states[c.key] = append(states[c.key], c)
		}
	}
	for _, key := range keys {
		e := event{kind: eventShown, key: key, index: at.index}
		if i := w.rng.IntN(len(states[key]) + 1); i < len(states[key]) {
			c := states[key][i]
			former[key], e.since = c.former, c.at
			if at.index && time.Since(c.at) > time.Minute {
				w.Fired[FaultIndex]++
			}
		}
		w.see(e)
	}
	if len(former) > 0 {
		w.Fired[FaultStale]++
	}
}

// visible returns an item in the state that a consistent read sees.
func (w *World) visible(key table.Key) *table.Item {
	for _, v := range w.shadows.veils {
		if v.key == key {
			return v.former
		}
	}
	return w.items[key]
}

// tear makes the items of a transaction visible one by one after the transaction has taken effect.
// former has the items from before the transaction.
func (w *World) tear(c *call, keys []table.Key, former []*table.Item) {
	if len(keys) < 2 || !w.strikes(FaultTorn, w.faults.Torn) {
		return
	}
	of := &transaction{}
	for i, key := range keys {
		until := w.steps + w.rng.IntN(mostParts)
		if until == w.steps {
			of.visible++
			continue
		}
		c.whole = max(c.whole, until)
		w.shadows.torn[key.PK]++
		w.shadows.veils = append(w.shadows.veils, veil{key, former[i], until, time.Now(), of})
	}
	if c.whole > 0 {
		w.knownLater(c.whole)
	}
}

// knownLater corrects the oracle's records of this step: no process has to know of the write before
// the written items are visible.
func (w *World) knownLater(step int) {
	for post, of := range w.tombs {
		if of == w.steps {
			w.tombs[post] = step
		}
	}
	for author, of := range w.countAt {
		if of == w.steps {
			w.countAt[author] = step
		}
	}
	for post, of := range w.listed {
		if of.at.Equal(time.Now()) {
			w.listed[post] = listing{of.author, of.at.Add(partsTime)}
		}
	}
	for _, users := range w.followers {
		for _, times := range users {
			last := &times[len(times)-1]
			if last.since == w.steps {
				last.since = step
			}
			if last.until == w.steps {
				last.until = step
			}
		}
	}
}

// mature makes the due items of transactions visible, and reads the due rests of batches and pages.
// With all, mature treats all items and rests as due.
func (w *World) mature(all bool) {
	due := func(step int, since time.Time) bool { return all || step <= w.steps || time.Since(since) >= partsTime }
	w.shadows.veils = slices.DeleteFunc(w.shadows.veils, func(v veil) bool {
		visible := due(v.until, v.at)
		if visible {
			v.of.visible++
		}
		return visible
	})
	w.shadows.halves = slices.DeleteFunc(w.shadows.halves, func(h half) bool {
		c := h.call
		if c.hasAnswer() && !c.writes() {
			return true
		}
		read := due(c.whole, h.at)
		if read {
			w.about("rest of %s %d", c.name, w.released[c.name])
			c.answered = c.rest()
		}
		return read
	})
}

// shown is an item that was read by its key or by the index.
type shown struct {
	key   table.Key
	index bool
}

// wasShown recognises the states of items that reads see. since is the time at which the read state was
// replaced, zero if it is the newest state.
func (r *reach) wasShown(e event) {
	of := shown{e.key, e.index}
	r.when(e.half, "a read finds a half of a batch that is being written")
	r.when(e.kept, "an item is read that expired two days ago")
	r.when(e.kept && strings.HasPrefix(e.by, "fanout"), "a fan-out worker reads an item that expired two days ago")
	r.when(e.torn, "a read shows a part of a transaction")
	switch newest, met := r.shown[of]; {
	case e.kept, e.half:
	case e.since.IsZero():
		r.shown[of] = e.at
	default:
		r.when(met && !newest.Before(e.since), "a read goes back in time")
		r.when(!e.index && e.at.Sub(e.since) > 5*time.Second, "a read of the table is late by more than five seconds")
		r.when(e.index && e.at.Sub(e.since) > time.Minute, "an index is late by more than a minute")
	}
}

// shuffled returns the parts of a batch in a drawn order.
func shuffled[E any](w *World, parts []E) []E {
	all := slices.Clone(parts)
	w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// outlived counts items that a worker reads although they expired long ago.
func (w *World) outlived(p *Proc, items ...table.Item) {
	if p.role == "api" {
		return
	}
	for _, it := range items {
		if table.Expired(it, time.Now().Add(-keptLong)) {
			w.Fired[FaultKept]++
			w.see(event{kind: eventShown, by: p.Name, key: it.Key, kept: true})
		}
	}
}

package throttle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"fanfare/internal/table"
)

const (
	// The table counts as short for all once leastRefused units and refusedShare of all units were
	// refused. If a table on demand refuses a write, the cause is mostly one partition or one
	// internal failure. The first limit of all work is leastFirst or more, because every partition of
	// a table on demand takes that many units. A limit falls while stillRefused of all units are
	// refused, so rare refusals do not keep the limit low.
	leastRefused = 2 * table.MaxBatchWrite
	refusedShare = 0.1
	stillRefused = 0.01
	leastFirst   = 1000
)

// Throttle limits the writes of a process while a table is short of capacity. The zero value has no
// limit. While the table refuses few writes, units have no limit. When the table refuses many
// writes, a limit of write units a second begins. Writes wait for their units, and the most urgent
// waiting writes go first. So a Throttle needs no knowledge of the table's capacity, nor of other
// processes, which share the capacity in the same way.
//
// A partition takes fewer units than its table. So a partition key with many refusals is hot, and
// has a limit of its own. Only chunks and backfills that write only to this key wait for that
// limit. The key's refusals do not slow down the work on other keys (I8).
type Throttle struct {
	mu sync.Mutex
	// all limits all work except the API's work. keys limits large work on hot keys.
	all  valve
	keys hotKeys
	// taken counts the units that the table took for keys that are not hot, including the API's
	// units. refused has the refused units that count for the table. takenAt and shortAt are the
	// times of the last taken and refused units.
	taken, refused   tally
	takenAt, shortAt time.Time
}

// Limit returns the limit of all work in write units a second, 0 if there is none.
func (t *Throttle) Limit() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.pass(time.Now())
	return t.all.limit
}

// HotKeys returns the number of partition keys with a limit of their own.
func (t *Throttle) HotKeys() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.keys.hot(time.Now())
}

// take waits until the units of r may be written: first for the limit of its key, if the key is
// hot and the work is large, and then for the limit of all.
func (t *Throttle) take(ctx context.Context, r request) error {
	if r.u == API {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if key := t.keys.of(time.Now(), r.key); key != nil && r.u.large() {
		if err := t.waitFor(ctx, &key.valve, r); err != nil {
			return err
		}
	}
	return t.waitFor(ctx, &t.all, r)
}

// waitFor waits until v has credit, and takes the units of r from the credit. The caller holds mu.
func (t *Throttle) waitFor(ctx context.Context, v *valve, r request) error {
	v.waiting[r.u] = append(v.waiting[r.u], &r)
	defer func() { v.waiting[r.u] = slices.DeleteFunc(v.waiting[r.u], func(w *request) bool { return w == &r }) }()
	for {
		now := time.Now()
		v.pass(now)
		wait := v.wait(&r)
		if wait == 0 {
			v.spend(float64(r.units))
			return nil
		}
		left := mostWait - now.Sub(r.came)
		if left <= 0 {
			return &ShortError{r.op}
		}
		t.mu.Unlock()
		sleep(ctx, min(wait, left))
		t.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// atOnce returns the maximum number of writes to a key that a kind of work may send at once, or 0
// for no maximum. The maximum is the units of a second, so that a small table takes the writes, and
// one batch at most.
func (t *Throttle) atOnce(u Urgency, key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.all.pass(now)
	switch {
	case u != API && t.all.limit > 0:
		return max(1, min(int(t.all.limit), table.MaxBatchWrite))
	case u.large() && t.keys.of(now, key) != nil:
		return table.MaxBatchWrite
	}
	return 0
}

// again reports whether a failed write waits for its units and is retried. A retry needs a table
// that is short of capacity for all, and a write whose repetition has no other effect than the
// write. Without a retry the message would fail and later write all its entries again, and that
// would use up a small table.
func (t *Throttle) again(r request, err error) bool {
	failed, ok := errors.AsType[*table.UnavailableError](err)
	if !ok || r.u == API || !failed.Throttled() || !failed.Undone && r.op != table.OpBatchWrite || time.Since(r.came) >= mostWait {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.limit > 0
}

// done counts an ended write.
func (t *Throttle) done(r request, res table.WriteResult, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	refused, written := refusedKeys(res, err), table.Billed(res, err).Write
	if len(refused) > len(res.Refused) { // a transaction that was cancelled for lack of capacity
		written = 0
	}
	t.count(now, r, written)
	t.learn(now, r, refused, max(res.Units.Write, float64(r.units))/float64(r.writes))
}

// count counts written units. A large item costs more units than take reserved.
func (t *Throttle) count(now time.Time, r request, written float64) {
	t.all.pass(now)
	t.taken.pass(now)
	t.refused.pass(now)
	if t.keys.of(now, r.key) == nil && written > 0 {
		t.taken.now += written
		t.takenAt = now
	}
	if r.u == API {
		return
	}
	more := max(0, written-float64(r.units))
	t.all.written.now += written
	t.all.spend(more)
	if key := t.keys.keys[r.key]; key != nil && r.u.large() {
		key.written.now += written
		key.spend(more)
	}
}

// learn lowers limits after the table refused writes to keys. Each write has the same units. While
// the table takes all other writes, the refusals of hot keys do not lower the limit of all.
func (t *Throttle) learn(now time.Time, r request, keys []string, each float64) {
	if len(keys) == 0 {
		return
	}
	for _, pk := range keys {
		if t.keys.refuse(now, r.u, pk, each) {
			t.refused.now += each
			t.shortAt = now
		}
	}
	if t.short(now) {
		t.all.lower(now, leastFirst)
	}
}

// short reports whether a refusal now means that the table is short for all. A first limit needs
// the refusal of a key that is not hot. A later limit needs recent refusals of keys that are not
// hot, or a time in which the table took no write to such keys.
func (t *Throttle) short(now time.Time) bool {
	refused, taken := t.refused.recent(), t.taken.recent()
	if t.all.limit > 0 {
		return now.Sub(t.takenAt) >= hotWithin || now.Sub(t.shortAt) < hotWithin && refused >= stillRefused*(refused+taken)
	}
	return t.shortAt.Equal(now) && refused >= leastRefused && refused >= refusedShare*(refused+taken)
}

// refusedKeys returns the partition key of each write that was refused for lack of capacity, once
// for each refusal.
func refusedKeys(res table.WriteResult, err error) []string {
	keys := slices.Clip(res.Refused)
	if cancelled, ok := errors.AsType[*table.CancelledError](err); ok {
		for _, r := range cancelled.Reasons {
			if r.Reason == table.CancelThrottled {
				keys = append(keys, r.Key.PK)
			}
		}
	}
	return keys
}

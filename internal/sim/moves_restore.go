package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"fanfare/internal/feed/delivery"
	"fanfare/internal/ops/audit"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// After the moves the whole table is set back to a copy from the middle of a storm
// (docs/BACKUP.md). The processes stop, the queues stay or are purged, and an operator repairs and
// reconciles. Then homes and counts are exact. The other oracles cannot follow a restore, so the
// world ends with the restore.

// restoreStorm takes the copy, and restores the table from it.
func (m *moves) restoreStorm(ctx context.Context) {
	w := m.w
	w.begin(62)
	w.lives.on = false
	m.stormy()
	var copied map[table.Key]*table.Item
	var at time.Time
	moment := 200 + w.rng.IntN(600)
	for left := movesOperations; w.since < mostMoves && (left > 0 || copied == nil); {
		if w.since == moment {
			copied, at = maps.Clone(w.items), time.Now()
			w.note("the table is copied")
		}
		w.step(func() bool { return left > 0 && m.next(&left) })
		w.load.settled()
	}
	m.calmDown()
	w.lates, w.targets = nil, nil
	for _, p := range w.procs {
		p.skew.Store(0)
		w.end(p)
		p.bootAt = time.Now()
	}
	w.settle()
	w.load.settled()
	if w.about("purge"); w.rng.IntN(2) == 0 && w.engine == nil {
		for _, topic := range queue.Topics() {
			w.queue(topic).messages = nil
		}
	}
	w.goBack(copied)
	if w.calm() {
		m.repairRestored(ctx, at)
	}
}

// goBack replaces the items of the table, and the knowledge of the oracles about the items, by the
// items of a copy.
func (w *World) goBack(copied map[table.Key]*table.Item) {
	w.traced.restored()
	keys := maps.Clone(copied)
	maps.Copy(keys, w.items)
	for _, key := range slices.SortedFunc(maps.Keys(keys), compareKeys) {
		it := copied[key]
		if err := w.replace(key, it); err != nil {
			w.load.fail("oracle", "%v", err)
		}
		w.replaced(key, it)
	}
	w.items, w.book, w.ttls, w.modes = maps.Clone(copied), newLikeBook(), map[table.Key]int64{}, modes{}
	for key, it := range copied {
		if _, err := w.book.note(key, it); err != nil {
			w.load.fail("oracle", "%v", err)
		}
		if it.Has(table.AttrTTL) {
			w.ttls[key] = it.Int(table.AttrTTL)
		}
	}
	clear(w.counting.counted) // a post whose message the queue has kept is made again
	maps.DeleteFunc(w.tombs, func(post string, _ int) bool { ref := w.refOf(post); return ref == nil || !ref.Deleted })
	maps.DeleteFunc(w.notices.buried, func(post string, _ time.Time) bool { ref := w.refOf(post); return ref != nil && !ref.Deleted })
}

// repairRestored makes the repairs that docs/BACKUP.md asks of an operator, and checks the result.
func (m *moves) repairRestored(ctx context.Context, at time.Time) {
	w := m.w
	store, service := w.operated()
	for range mostWalks {
		found, _ := w.auditAll(ctx, store, service, audit.Walk{Repair: true, RestoredTo: at})
		if len(found) == 0 || !w.calm() {
			break
		}
	}
	w.pause(clocksMost + reconcileAfter)
	m.reconcile(ctx, service)
	if !w.calm() {
		return
	}
	if again := m.reconcile(ctx, service); again > 0 {
		w.load.fail("I6", "after a restore %d posts are not delivered, though they were reconciled", again)
	}
	found, sum := w.auditAll(ctx, w.store, nil, audit.Walk{})
	if len(found) > 0 || sum.Undecided > 0 {
		w.load.fail("audit", "after a restore and its repairs there are findings: %+v, %d are undecided", found, sum.Undecided)
	}
	users := slices.Concat(townsfolk(), w.load.users)
	m.checkTable(ctx, w.store, users, "after a restore")
	for _, author := range users {
		for _, p := range parsed(w.partition(schema.PostsPK(author)), schema.ParsePost) {
			if w.tableOf(w.store).leaves(p.ID, p.RepostOf) {
				continue
			}
			if d, err := service.Delivery(ctx, author, p.ID); err != nil || d.State != delivery.Complete && d.State != delivery.Pulled {
				w.load.fail("I6", "after a restore the delivery of %s by %s is %s: %v", p.ID, author, d.State, err)
			}
		}
	}
}

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// images has the items of a write before and after the write.
type images struct{ before, after map[table.Key]*table.Item }

func (e *engine) item(key table.Key) *table.Item {
	res, err := e.model.Get(context.Background(), table.GetInput{Key: key, Consistent: true})
	if err != nil {
		e.fail("oracle", "%v", err)
	}
	return res.Item
}

func (e *engine) items(keys []table.Key) map[table.Key]*table.Item {
	items := map[table.Key]*table.Item{}
	for _, key := range keys {
		items[key] = e.item(key)
	}
	return items
}

// write makes a write on the disk and in the model.
func (e *engine) write(lazy bool, keys []table.Key, do func(table.Store) (table.WriteResult, error)) (table.WriteResult, error) {
	if e.broken {
		return do(e.model)
	}
	begun := time.Now()
	if e.redoing {
		return e.redo(keys, do)
	}
	if e.effect == nil && e.trouble != "" { // the driver itself writes, and must not meet an outage
		e.mend()
	}
	if e.disk.cut() {
		return table.WriteResult{}, noPower("table.write")
	}
	_, got := do(e.table)
	switch {
	case e.disk.cut():
		e.unknown, e.unknownAt = e.effect, begun
		return table.WriteResult{}, noPower("table.write")
	case isOutage(got):
		e.outage(got)
		if e.unknown == nil && e.trouble != FaultUnread && !e.settled { // later writes are refused before they begin
			e.unknown, e.unknownAt = e.effect, begun
		}
		return table.WriteResult{}, got
	}
	if e.effect != nil {
		defer func() { e.effect = nil }() // the world reads the result from the model
	}
	now := images{before: e.items(keys)}
	res, want := do(e.model)
	if answerText(got) != answerText(want) {
		e.fail("I5", "a write of %v is answered %v, want %v", keys, got, want)
	}
	now.after = e.items(keys)
	if want != nil {
		return res, want
	}
	e.journal().wrote(now.after, lazy, begun)
	if e.lie != nil {
		e.lie.writes = append(e.lie.writes, now.after)
	}
	if lazy {
		e.lazies, e.lazyAt = append(e.lazies, now), begun
	} else {
		e.lazies = nil // the lazy writes are before this write in the log
	}
	return res, want
}

// redo makes a write in the model that the disk already has.
func (e *engine) redo(keys []table.Key, do func(table.Store) (table.WriteResult, error)) (table.WriteResult, error) {
	res, err := do(e.model)
	if err == nil { // the disk may not have synced the write before the process died
		e.journal().wrote(e.items(keys), true, e.unknownAt)
	}
	return res, err
}

// answerText returns the kind and the content of an answer.
func answerText(err error) string {
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		return "condition " + itemText(failed.Old)
	}
	if cancelled, ok := errors.AsType[*table.CancelledError](err); ok {
		var all strings.Builder
		for _, r := range cancelled.Reasons {
			fmt.Fprint(&all, r.Key, r.Reason, itemText(r.Old))
		}
		return "cancelled " + all.String()
	}
	return fmt.Sprint(err)
}

func itemText(it *table.Item) string {
	if it == nil {
		return "none"
	}
	return fmt.Sprint(inOrder(*it))
}

// inOrder returns the item with its attributes in the order of their names.
func inOrder(it table.Item) table.Item {
	it.Attrs = slices.SortedFunc(slices.Values(it.Attrs), func(a, b table.Attr) int { return strings.Compare(a.Name, b.Name) })
	return it
}

func equal(a, b table.Item) bool {
	return a.Key == b.Key && len(a.Attrs) == len(b.Attrs) && (slices.Equal(a.Attrs, b.Attrs) || slices.Equal(inOrder(a).Attrs, inOrder(b).Attrs))
}

// readBoth makes a read on the disk and in the model.
func readBoth[R any](e *engine, what string, itemsOf func(R) []table.Item, do func(table.Store) (R, error)) (R, error) {
	if e.broken || e.redoing || e.effect == nil {
		return do(e.model)
	}
	var none R
	if e.disk.cut() {
		return none, noPower("table.read")
	}
	got, err := do(e.table)
	switch {
	case e.disk.cut():
		return none, noPower("table.read")
	case isOutage(err):
		e.outage(err)
		return none, err
	}
	want, wantErr := do(e.model)
	differ := func() bool {
		return answerText(err) != answerText(wantErr) || !slices.EqualFunc(itemsOf(got), itemsOf(want), equal)
	}
	if e.unknown != nil && differ() { // the log may accept a write while sorted files are refused
		e.happened()
		want, wantErr = do(e.model)
	}
	if differ() {
		e.fail("I5", "%s answers %v (%v), want %v (%v)", what, itemsOf(got), err, itemsOf(want), wantErr)
	}
	return want, wantErr
}

// Get implements table.Store, as the methods below do.
func (e *engine) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	items := func(r table.GetResult) []table.Item {
		if r.Item == nil {
			return nil
		}
		return []table.Item{*r.Item}
	}
	return readBoth(e, fmt.Sprint("get ", in.Key), items, func(s table.Store) (table.GetResult, error) { return s.Get(ctx, in) })
}

func (e *engine) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	items := func(r table.BatchGetResult) []table.Item {
		return slices.SortedFunc(slices.Values(r.Items), func(a, b table.Item) int { return byKey(a.Key, b.Key) })
	}
	return readBoth(e, fmt.Sprint("batch get ", in.Keys), items, func(s table.Store) (table.BatchGetResult, error) { return s.BatchGet(ctx, in) })
}

// Query compares the first page, because a call of the world reads one page.
func (e *engine) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	first := func(s table.Store) (table.Page, error) {
		for page, err := range s.Query(ctx, q) {
			return page, err
		}
		return table.Page{}, nil
	}
	return func(yield func(table.Page, error) bool) {
		page, err := readBoth(e, fmt.Sprintf("query %+v", q), func(p table.Page) []table.Item { return p.Items }, first)
		if err != nil {
			yield(page, err)
			return
		}
		e.model.Query(ctx, q)(yield)
	}
}

// Scan scans the model, because the embedded table has an order of its own. reconcile scans the
// table.
func (e *engine) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	return e.model.Scan(ctx, in)
}

func (e *engine) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return e.write(false, []table.Key{in.Item.Key}, func(s table.Store) (table.WriteResult, error) { return s.Put(ctx, in) })
}

func (e *engine) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return e.write(false, []table.Key{in.Key}, func(s table.Store) (table.WriteResult, error) { return s.Update(ctx, in) })
}

func (e *engine) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	return e.write(false, []table.Key{in.Key}, func(s table.Store) (table.WriteResult, error) { return s.Delete(ctx, in) })
}

func (e *engine) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	var keys []table.Key
	for _, wr := range writes {
		keys = append(keys, wr.Key())
	}
	return e.write(false, keys, func(s table.Store) (table.WriteResult, error) { return s.BatchWrite(ctx, writes) })
}

func (e *engine) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	var keys []table.Key
	for _, op := range in.Ops {
		keys = append(keys, op.Key())
	}
	return e.write(in.Lazy, keys, func(s table.Store) (table.WriteResult, error) { return s.Transact(ctx, in) })
}

// under returns the table that the world may read in the middle of a call, whatever the disk does.
func (e *engine) under(s table.Store) table.Store {
	if s == table.Store(e) {
		return e.model
	}
	return s
}

// reconcile compares the whole table with the model. The table may or may not have the one write
// with an unknown outcome. A restart may have undone lazy writes, the last writes first: then the
// table has no later write.
func (e *engine) reconcile(restarted bool) {
	lazies := e.lazies
	if restarted {
		e.lazies = nil
	}
	defer func() { e.unknown, e.settled = nil, false }()
	difference := e.differs()
	for i := len(lazies) - 1; restarted && difference != "" && i >= 0; i-- {
		e.set(lazies[i].before)
		if difference = e.differs(); difference == "" {
			e.w.note("%d lazy writes are lost", len(lazies)-i)
			e.noted(lazies[i:])
			e.journal().took(len(lazies) - i)
			return
		}
	}
	if difference == "" {
		return
	}
	for _, l := range lazies {
		e.set(l.after)
	}
	if e.unknown != nil {
		e.happened()
	}
	if difference = e.differs(); difference != "" {
		e.fail("I5", "after trouble of the disk (restarted: %v) %s", restarted, difference)
		e.broken = true
	}
}

// happened makes the write with an unknown outcome in the model. The later writes in the same
// trouble were refused. The lazy writes are before the write in the log, so they are durable, too, and
// their images may be older than the write.
func (e *engine) happened() {
	unknown := e.unknown
	e.unknown, e.lazies, e.settled, e.redoing = nil, nil, true, true
	err := unknown()
	e.redoing = false
	e.w.note("the write with an unknown outcome is there: %v", err)
}

// set sets items of the model to these values.
func (e *engine) set(items map[table.Key]*table.Item) {
	for key, it := range items {
		var err error
		if it == nil {
			_, err = e.model.Delete(context.Background(), table.DeleteInput{Key: key})
		} else {
			_, err = e.model.Put(context.Background(), table.PutInput{Item: *it})
		}
		if err != nil {
			e.fail("oracle", "%v", err)
		}
	}
}

// noted shows the world the items as they are after the loss of some writes.
func (e *engine) noted(lost []images) {
	for _, l := range lost {
		e.w.counting.takeBack(l)
		for key := range l.after {
			if post, ok := schema.PostOfSK(key.SK); ok {
				delete(e.w.listed, post)
			}
		}
		for _, key := range slices.SortedFunc(maps.Keys(l.before), byKey) {
			if err := e.w.wrote(key); err != nil {
				e.fail("oracle", "%v", err)
			}
		}
	}
}

// takeBack removes the counts of a lost write, because the repeated write counts again.
func (h *hours) takeBack(lost images) {
	for key, after := range lost.after {
		if post, ok := schema.PostOfSK(key.SK); ok && strings.HasSuffix(key.PK, "#post") {
			delete(h.counted, "post "+post)
		}
		user := strings.TrimPrefix(key.PK, "u#")
		if key != schema.CountsKey(user) || after == nil {
			continue
		}
		var before table.Item
		if lost.before[key] != nil {
			before = *lost.before[key]
		}
		for _, attr := range after.Attrs {
			hour, posts, ok := hourOf(attr.Name)
			switch n := attr.Value.Int() - before.Int(attr.Name); {
			case ok && posts && h.posts[user] != nil:
				h.posts[user][hour] -= n
			case ok && !posts:
				h.spent[spent{user, hour}] -= n
			}
		}
	}
}

// differs returns the first difference between the table and the model, "" if there is none.
func (e *engine) differs() string {
	got, err := allItems(e.table)
	want, wantErr := allItems(e.model)
	if err = errors.Join(err, wantErr); err != nil {
		return err.Error()
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got) || i < len(want) && byKey(want[i].Key, got[i].Key) < 0:
			return fmt.Sprintf("%v is missing", want[i])
		case i >= len(want) || byKey(got[i].Key, want[i].Key) < 0:
			return fmt.Sprintf("%v is there and should not be", got[i])
		case !equal(got[i], want[i]):
			return fmt.Sprintf("%v is there, want %v", got[i], want[i])
		}
	}
	return ""
}

func byKey(a, b table.Key) int {
	return cmp.Or(strings.Compare(a.PK, b.PK), strings.Compare(a.SK, b.SK))
}

// allItems returns all items of a table in the order of their keys.
func allItems(s table.Store) (all []table.Item, err error) {
	for in := (table.ScanInput{}); ; {
		page, err := s.Scan(context.Background(), in)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == (table.Key{}) {
			slices.SortFunc(all, func(a, b table.Item) int { return byKey(a.Key, b.Key) })
			return all, nil
		}
		in.After = page.Next
	}
}

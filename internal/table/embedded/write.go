package embedded

import (
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"fanfare/internal/table"
)

// Put implements table.Store.
func (s *Store) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	if err := in.Validate(); err != nil {
		return table.WriteResult{}, err
	}
	res, err := s.single(ctx, table.OpPut, table.TransactOp{Put: &in})
	res.Item = nil
	return res, err
}

// Update implements table.Store.
func (s *Store) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	if err := in.Validate(); err != nil {
		return table.WriteResult{}, err
	}
	res, err := s.single(ctx, table.OpUpdate, table.TransactOp{Update: &in})
	if !in.ReturnNew {
		res.Item = nil
	}
	return res, err
}

// Delete implements table.Store.
func (s *Store) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	if err := in.Validate(); err != nil {
		return table.WriteResult{}, err
	}
	return s.single(ctx, table.OpDelete, table.TransactOp{Delete: &in})
}

// single does one write and returns the new item.
func (s *Store) single(ctx context.Context, name table.Op, op table.TransactOp) (table.WriteResult, error) {
	if err := s.enterWrite(ctx, name); err != nil {
		return table.WriteResult{}, err
	}
	defer s.leave()
	key := op.Key()
	hash, partition := s.hash.of(key)
	st := stage{store: s, batch: s.db.NewBatch()}

	unlock := s.locks.lockOne(hash)
	old, _, err := s.read(&st.buf, key)
	var after *table.Item
	var answer error
	switch {
	case err != nil:
	case !table.Holds(op.Cond(), old):
		answer = &table.ConditionError{Key: key, Old: old, Units: table.FailedCost(op, old)}
	default:
		if after, answer = op.Apply(old); answer == nil {
			st.write(key, partition, old, after) // stages nothing for a delete of nothing
		}
	}
	if err := st.finish(ctx, unlock, err, slotOf(partition)); err != nil {
		return table.WriteResult{}, s.failure(name, err)
	}
	if answer != nil {
		return table.WriteResult{}, answer
	}
	return table.WriteResult{Item: after, Units: table.WriteCost(old, after)}, nil
}

// Transact implements table.Store.
func (s *Store) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if err := in.Validate(); err != nil {
		return table.WriteResult{}, err
	}
	if err := s.enterWrite(ctx, table.OpTransact); err != nil {
		return table.WriteResult{}, err
	}
	defer s.leave()
	var set lockSet
	seen := make([]uint32, len(in.Ops))
	for i := range in.Ops {
		hash, partition := s.hash.of(in.Ops[i].Key())
		set.add(hash, true)
		seen[i] = slotOf(partition)
	}
	st := stage{store: s, batch: s.db.NewBatch()}
	s.locks.lock(&set)
	units, answer, err := st.transact(in.Ops)
	if answer != nil {
		st.batch.Reset()
	}
	if in.Lazy && err == nil && !st.batch.Empty() {
		s.commits.apply(st.batch, st.slots) // readers of these slots wait for it
		s.locks.unlock(&set)
		return table.WriteResult{Units: units}, nil
	}
	if err := st.finish(ctx, func() { s.locks.unlock(&set) }, err, seen...); err != nil {
		return table.WriteResult{}, s.failure(table.OpTransact, err)
	}
	return table.WriteResult{Units: units}, answer
}

// transact stages all operations. If the transaction fails, it returns the answer that
// says why.
func (st *stage) transact(ops []table.TransactOp) (units table.Units, answer, err error) {
	reasons := make([]table.CancelledOp, len(ops))
	var failed table.Units
	cancelled := false
	for i, op := range ops {
		key := op.Key()
		old, _, err := st.store.read(&st.buf, key)
		if err != nil {
			return units, nil, err
		}
		reasons[i].Key = key
		failed.Write += 2 * table.FailedCost(op, old).Write
		if !table.Holds(op.Cond(), old) {
			cancelled = true
			reasons[i].Reason, reasons[i].Old = table.CancelCondition, old
			continue
		}
		if cancelled {
			continue
		}
		after, err := op.Apply(old)
		if err != nil {
			return table.Units{}, err, nil
		}
		if op.Check == nil {
			st.write(key, st.store.hash.partition(key.PK), old, after)
		}
		units = units.Plus(table.TransactCost(old, after)) // a check is a write that changes nothing
	}
	if cancelled {
		return table.Units{}, &table.CancelledError{Reasons: reasons, Units: failed}, nil
	}
	return units, nil, nil
}

// Bounds of one batch of Pebble: larger ones leave its fast path.
const (
	maxBatchItems = 4096
	maxBatchBytes = 4 << 20
)

// BatchWrite implements table.Store. It writes thousands of items in one batch of
// Pebble. It reads the old item only for a delete and for an item of the index.
func (s *Store) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	var res table.WriteResult
	space, ok := s.workspaces.Get().(*workspace)
	if !ok {
		space = new(workspace)
	}
	defer s.workspaces.Put(space)
	if err := space.prepare(s.hash, writes); err != nil {
		return res, err
	}
	if err := s.enterWrite(ctx, table.OpBatchWrite); err != nil {
		return res, err
	}
	defer s.leave()
	var commits []*commit
	for done := 0; done < len(writes); {
		n := batchLen(writes[done:])
		c, units, err := s.writeBatch(space, writes, done, done+n)
		if err != nil {
			return res, s.failure(table.OpBatchWrite, err)
		}
		if c != nil {
			commits = append(commits, c)
		}
		res.Units = res.Units.Plus(units)
		done += n
		if err := ctx.Err(); err != nil {
			return table.WriteResult{}, s.failure(table.OpBatchWrite, err)
		}
	}
	for _, c := range commits {
		if err := s.await(ctx, c); err != nil {
			return table.WriteResult{}, s.failure(table.OpBatchWrite, err)
		}
	}
	// A delete that found nothing was not written: it waits for the writes that it saw.
	if err := s.settle(ctx, space.seen...); err != nil {
		return table.WriteResult{}, s.failure(table.OpBatchWrite, err)
	}
	return res, nil
}

// batchLen returns how many of the writes fit into one batch of Pebble.
func batchLen(writes []table.BatchWrite) int {
	size := 0
	for i := range writes {
		if writes[i].Put != nil {
			size += table.Size(*writes[i].Put)
		}
		if i == maxBatchItems || size > maxBatchBytes {
			return max(i, 1)
		}
	}
	return len(writes)
}

// blind reports whether a write needs no read of the item that it replaces.
func blind(w table.BatchWrite) bool { return w.Put != nil && !table.InIndex(w.Put) }

func (s *Store) writeBatch(space *workspace, writes []table.BatchWrite, from, to int) (*commit, table.Units, error) {
	var units table.Units
	var set lockSet
	st := stage{store: s, batch: s.db.NewBatch(), slots: space.slots[:0]}
	for i := from; i < to; i++ {
		set.add(space.keys[i], !blind(writes[i]))
		if w := writes[i]; blind(w) {
			st.put(w.Put)
			st.slots = append(st.slots, slotOf(space.partitions[i]))
			units.Write += table.WriteUnits(table.Size(*w.Put))
		}
	}
	s.locks.lock(&set)
	for i := from; i < to; i++ {
		w := writes[i]
		if blind(w) {
			continue
		}
		old, _, err := s.read(&st.buf, w.Key())
		if err != nil {
			s.locks.unlock(&set)
			return nil, units, st.drop(err)
		}
		if old == nil && w.Put == nil {
			space.seen = append(space.seen, slotOf(space.partitions[i]))
		}
		st.write(w.Key(), space.partitions[i], old, w.Put)
		units = units.Plus(table.WriteCost(old, w.Put))
	}
	space.slots = st.slots
	if st.batch.Empty() {
		s.locks.unlock(&set)
		return nil, units, st.drop(nil)
	}
	c := s.commits.apply(st.batch, st.slots)
	s.locks.unlock(&set)
	return c, units, nil
}

// workspace is the memory that a BatchWrite needs beside its batch. Calls reuse it; it
// holds no data between them.
type workspace struct {
	keys, partitions []uint64 // hashes
	slots, seen      []uint32
	places           []int32 // hash table of the batch's keys: 1 + index, 0 for a free place
}

// prepare hashes all keys. It refuses invalid writes and two writes of one key.
func (b *workspace) prepare(h hashes, writes []table.BatchWrite) error {
	size := 16
	for size < 2*len(writes) {
		size *= 2
	}
	b.keys, b.partitions, b.seen = b.keys[:0], b.partitions[:0], b.seen[:0]
	b.places = slices.Grow(b.places[:0], size)[:size]
	clear(b.places)
	for i := range writes {
		if err := writes[i].Validate(); err != nil {
			return err
		}
		key := writes[i].Key()
		hash, partition := h.of(key)
		b.keys, b.partitions = append(b.keys, hash), append(b.partitions, partition)
		at := hash >> 20 % uint64(size)
		for ; b.places[at] != 0; at = (at + 1) % uint64(size) {
			if writes[b.places[at]-1].Key() == key {
				return &table.InvalidError{Problem: "a batch writes a key twice"}
			}
		}
		b.places[at] = int32(i + 1)
	}
	return nil
}

// stage is a batch of Pebble that a call fills.
type stage struct {
	store *Store
	batch *pebble.Batch
	slots []uint32
	buf   keyBuffer
}

// finish commits the batch, releases the caller's locks and waits until the batch is
// durable. If err is set or nothing is staged, it drops the batch and waits only for
// the writes that the caller has seen.
func (st *stage) finish(ctx context.Context, unlock func(), err error, seen ...uint32) error {
	if err == nil && !st.batch.Empty() {
		c := st.store.commits.apply(st.batch, st.slots)
		unlock()
		return st.store.await(ctx, c)
	}
	unlock()
	if err == nil {
		err = st.store.settle(ctx, seen...)
	}
	return st.drop(err)
}

// drop closes a batch that was not applied.
func (st *stage) drop(err error) error {
	if cerr := st.batch.Close(); err == nil {
		err = cerr
	}
	return err
}

// put stages an item without a hint.
func (st *stage) put(it *table.Item) {
	op := st.batch.SetDeferred(keyLen(it.Key), valueLen(it.Attrs))
	appendKey(op.Key[:0], it.Key)
	appendValue(op.Value[:0], it.Attrs)
	_ = op.Finish() // fails only in a batch with an index of its own
}

// write stages the change of an item from old to after, nil for absent, and of its
// hint.
func (st *stage) write(key table.Key, partition uint64, old, after *table.Item) {
	if old == nil && after == nil {
		return
	}
	st.slots = append(st.slots, slotOf(partition))
	if after != nil {
		st.put(after)
	} else {
		_ = st.batch.Delete(st.buf.key(key), nil) // as above
	}
	was, is := table.InIndex(old), table.InIndex(after)
	stays := was && is && hinted(after, old.Str(table.AttrGSI1PK), old.Str(table.AttrGSI1SK))
	if was {
		st.addSlot(old.Str(table.AttrGSI1PK))
	}
	if was && !stays {
		_ = st.batch.Delete(indexKey(old.Str(table.AttrGSI1PK), old.Str(table.AttrGSI1SK), key), nil)
	}
	if is && !stays {
		st.addSlot(after.Str(table.AttrGSI1PK))
		_ = st.batch.Set(indexKey(after.Str(table.AttrGSI1PK), after.Str(table.AttrGSI1SK), key), nil, nil)
	}
}

// addSlot makes readers of an index partition wait for the commit as well.
func (st *stage) addSlot(pk string) {
	st.slots = append(st.slots, slotOf(st.store.hash.partition(pk)))
}

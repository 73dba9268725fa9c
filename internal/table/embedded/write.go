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

// single does one write and returns the item afterwards.
func (s *Store) single(ctx context.Context, name table.Op, op table.TransactOp) (table.WriteResult, error) {
	var res table.WriteResult
	if err := s.enter(ctx, name); err != nil {
		return res, err
	}
	defer s.leave()
	key := op.Key()
	hash, partition := s.hash.of(key)
	st := stage{store: s, batch: s.db.NewBatch()}

	unlock := s.locks.lockOne(hash)
	old, size, err := s.read(&st.buf, key, nil)
	if err != nil {
		unlock()
		return res, unavailable(name, st.drop(err))
	}
	if !table.Holds(op.Cond(), old) {
		unlock()
		if err := st.drop(s.settle(ctx, slotOf(partition))); err != nil {
			return res, unavailable(name, err)
		}
		return res, &table.ConditionError{Key: key, Old: old, Units: table.Units{Write: table.WriteUnits(size)}}
	}
	after, err := op.Apply(old)
	if err != nil {
		unlock()
		if err := st.drop(s.settle(ctx, slotOf(partition))); err != nil {
			return res, unavailable(name, err)
		}
		return res, err
	}
	st.write(key, partition, old, after)
	if st.batch.Empty() { // a delete of nothing
		unlock()
		err = st.drop(s.settle(ctx, slotOf(partition)))
	} else {
		c := s.commits.apply(st.batch, st.slots)
		unlock()
		err = s.await(ctx, c)
	}
	if err != nil {
		return res, unavailable(name, err)
	}
	return table.WriteResult{Item: after, Units: table.WriteCost(old, after)}, nil
}

// Transact implements table.Store.
func (s *Store) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	var res table.WriteResult
	if err := in.Validate(); err != nil {
		return res, err
	}
	if err := s.enter(ctx, table.OpTransact); err != nil {
		return res, err
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
	if err != nil || answer != nil || st.batch.Empty() {
		s.locks.unlock(&set)
		if err == nil {
			err = s.settle(ctx, seen...)
		}
		if err := st.drop(err); err != nil {
			return res, unavailable(table.OpTransact, err)
		}
		return table.WriteResult{Units: units}, answer
	}
	c := s.commits.apply(st.batch, st.slots)
	s.locks.unlock(&set)
	if err := s.await(ctx, c); err != nil {
		return res, unavailable(table.OpTransact, err)
	}
	return table.WriteResult{Units: units}, nil
}

// transact stages all operations, or returns the answer why not.
func (st *stage) transact(ops []table.TransactOp) (units table.Units, answer, err error) {
	reasons := make([]table.CancelledOp, len(ops))
	var failed table.Units
	cancelled := false
	for i, op := range ops {
		key := op.Key()
		old, size, err := st.store.read(&st.buf, key, nil)
		if err != nil {
			return units, nil, err
		}
		reasons[i].Key = key
		failed.Write += 2 * table.WriteUnits(size)
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

// Batches of Pebble are cut here: large ones leave its fast path.
const (
	maxBatchItems = 4096
	maxBatchBytes = 4 << 20
)

// BatchWrite implements table.Store. It writes thousands of items in one batch of
// Pebble, and reads what it replaces only where an item goes into the index or is
// deleted.
func (s *Store) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	var res table.WriteResult
	scratch, ok := s.scratch.Get().(*batchScratch)
	if !ok {
		scratch = new(batchScratch)
	}
	defer s.scratch.Put(scratch)
	if err := scratch.prepare(s.hash, writes); err != nil {
		return res, err
	}
	if err := s.enter(ctx, table.OpBatchWrite); err != nil {
		return res, err
	}
	defer s.leave()
	var last *commit
	for done := 0; done < len(writes); {
		n := batchLen(writes[done:])
		c, units, err := s.writeBatch(scratch, writes, done, done+n)
		if err != nil {
			return res, unavailable(table.OpBatchWrite, err)
		}
		if c != nil {
			last = c
		}
		res.Units = res.Units.Plus(units)
		done += n
		if err := ctx.Err(); err != nil {
			return table.WriteResult{}, unavailable(table.OpBatchWrite, err)
		}
	}
	// Commits become durable in their order. A batch that only found nothing to
	// delete waits for what it saw.
	err := s.await(ctx, last)
	for _, slot := range scratch.seen {
		if err == nil {
			err = s.settle(ctx, slot)
		}
	}
	if err != nil {
		return table.WriteResult{}, unavailable(table.OpBatchWrite, err)
	}
	return res, nil
}

// batchLen is how many of the writes go into one batch of Pebble.
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

// blind tells whether a write needs no look at what it replaces.
func blind(w table.BatchWrite) bool { return w.Put != nil && !table.InIndex(w.Put) }

func (s *Store) writeBatch(scratch *batchScratch, writes []table.BatchWrite, from, to int) (*commit, table.Units, error) {
	var units table.Units
	var set lockSet
	st := stage{store: s, batch: s.db.NewBatch(), slots: scratch.slots[:0]}
	for i := from; i < to; i++ {
		set.add(scratch.keys[i], !blind(writes[i]))
		if w := writes[i]; blind(w) {
			st.put(w.Put)
			st.slots = append(st.slots, slotOf(scratch.partitions[i]))
			units.Write += table.WriteUnits(table.Size(*w.Put))
		}
	}
	s.locks.lock(&set)
	for i := from; i < to; i++ {
		w := writes[i]
		if blind(w) {
			continue
		}
		old, _, err := s.read(&st.buf, w.Key(), nil)
		if err != nil {
			s.locks.unlock(&set)
			return nil, units, st.drop(err)
		}
		if old == nil && w.Put == nil {
			scratch.seen = append(scratch.seen, slotOf(scratch.partitions[i]))
		}
		st.write(w.Key(), scratch.partitions[i], old, w.Put)
		units = units.Plus(table.WriteCost(old, w.Put))
	}
	scratch.slots = st.slots
	if st.batch.Empty() {
		s.locks.unlock(&set)
		return nil, units, st.drop(nil)
	}
	c := s.commits.apply(st.batch, st.slots)
	s.locks.unlock(&set)
	return c, units, nil
}

// batchScratch is the memory that a BatchWrite needs beside its batch. It is kept
// between calls and holds no data.
type batchScratch struct {
	keys, partitions []uint64 // hashes
	slots, seen      []uint32
	places           []int32 // hash table of the batch's keys: 1 + index, 0 is free
}

// prepare hashes all keys and refuses what no batch may hold.
func (b *batchScratch) prepare(h hashes, writes []table.BatchWrite) error {
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

// stage is a batch of Pebble in the making.
type stage struct {
	store *Store
	batch *pebble.Batch
	slots []uint32
	buf   keyBuffer
}

// drop gives up a batch that was not applied.
func (st *stage) drop(err error) error {
	if cerr := st.batch.Close(); err == nil {
		err = cerr
	}
	return err
}

// put writes an item, and nothing of the index.
func (st *stage) put(it *table.Item) {
	op := st.batch.SetDeferred(keyLen(it.Key), valueLen(it.Attrs))
	appendKey(op.Key[:0], it.Key)
	appendValue(op.Value[:0], it.Attrs)
	_ = op.Finish() // fails only in a batch with an index of its own
}

// write turns an item from old into after, nil for absent, with its hint.
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
		st.mark(old.Str(table.AttrGSI1PK))
	}
	if was && !stays {
		_ = st.batch.Delete(indexKey(old.Str(table.AttrGSI1PK), old.Str(table.AttrGSI1SK), key), nil)
	}
	if is && !stays {
		st.mark(after.Str(table.AttrGSI1PK))
		_ = st.batch.Set(indexKey(after.Str(table.AttrGSI1PK), after.Str(table.AttrGSI1SK), key), nil, nil)
	}
}

// mark makes readers of an index partition wait for the commit, too.
func (st *stage) mark(pk string) {
	st.slots = append(st.slots, slotOf(st.store.hash.partition(pk)))
}

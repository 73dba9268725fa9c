package embedded

import (
	"context"

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

// single makes one write and returns the new item.
func (s *Store) single(ctx context.Context, name table.Op, op table.TransactOp) (table.WriteResult, error) {
	if err := s.enterWrite(ctx, name); err != nil {
		return table.WriteResult{}, err
	}
	defer s.leave()
	key := op.Key()
	hash, partition := s.hash.of(key)
	st := stage{store: s, batch: s.db.NewBatch()}

	unlock := s.locks.lockOne(hash)
	old, _, err := s.read(key)
	var after *table.Item
	var answer error
	switch {
	case err != nil:
	case !table.Holds(op.Cond(), old):
		answer = &table.ConditionError{Key: key, Old: old, Units: table.FailedCost(op, old)}
	default:
		if after, answer = op.Apply(old); answer == nil {
			st.write(key, partition, old, after) // stages nothing if an absent item is deleted
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
		s.commits.apply(st.batch, st.slots) // readers of these slots wait for the commit
		s.locks.unlock(&set)
		return table.WriteResult{Units: units}, nil
	}
	if err := st.finish(ctx, func() { s.locks.unlock(&set) }, err, seen...); err != nil {
		return table.WriteResult{}, s.failure(table.OpTransact, err)
	}
	return table.WriteResult{Units: units}, answer
}

// transact stages all operations. If the transaction fails, answer is the error that has the reasons.
func (st *stage) transact(ops []table.TransactOp) (units table.Units, answer, err error) {
	reasons := make([]table.CancelledOp, len(ops))
	var failed table.Units
	cancelled := false
	for i, op := range ops {
		key := op.Key()
		old, _, err := st.store.read(key)
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
		units = units.Plus(table.TransactCost(old, after)) // a check costs as much as a write that changes nothing
	}
	if cancelled {
		return table.Units{}, &table.CancelledError{Reasons: reasons, Units: failed}, nil
	}
	return units, nil, nil
}

// These limits bound one batch of Pebble: a larger batch would not use Pebble's fast path.
const (
	maxBatchItems = 4096
	maxBatchBytes = 4 << 20
)

// BatchWrite implements table.Store. It writes thousands of items in one batch of Pebble. It
// reads the old item only for a delete and for an item with index keys.
func (s *Store) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	var res table.WriteResult
	space, ok := s.workspaces.Get().(*workspace)
	if !ok {
		space = new(workspace)
	}
	defer func() {
		space.forget()
		s.workspaces.Put(space)
	}()
	if err := space.prepare(s.hash, writes); err != nil {
		return res, err
	}
	if err := s.enterWrite(ctx, table.OpBatchWrite); err != nil {
		return res, err
	}
	defer s.leave()
	var commits []*commit
	for done := 0; done < len(writes); {
		n := space.batchLen(writes[done:])
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
	// A delete that found no item has written nothing, so it waits for the writes that it saw.
	if err := s.settle(ctx, space.seen...); err != nil {
		return table.WriteResult{}, s.failure(table.OpBatchWrite, err)
	}
	return res, nil
}

// batchLen returns the number of writes that fit into one batch of Pebble.
func (b *workspace) batchLen(writes []table.BatchWrite) int {
	size := 0
	for i := range writes {
		if put := writes[i].Put; put != nil {
			size += b.encoded(put.Attrs).sizeWith(put.Key)
		}
		if i == maxBatchItems || size > maxBatchBytes {
			return max(i, 1)
		}
	}
	return len(writes)
}

func (s *Store) writeBatch(space *workspace, writes []table.BatchWrite, from, to int) (*commit, table.Units, error) {
	var units table.Units
	var set lockSet
	st := stage{store: s, batch: s.db.NewBatch(), slots: space.slots[:0]}
	var reading []int // the writes that need the item that they replace
	for i := from; i < to; i++ {
		put := writes[i].Put
		blind := put != nil && space.encoded(put.Attrs).blind
		set.add(space.keys[i], !blind)
		if !blind {
			reading = append(reading, i)
			continue
		}
		st.set(put.Key, space.last.value)
		st.slots = append(st.slots, slotOf(space.partitions[i]))
		units.Write += table.WriteUnits(space.last.sizeWith(put.Key))
	}
	s.locks.lock(&set)
	for _, i := range reading {
		w := writes[i]
		old, _, err := s.read(w.Key())
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

// workspace is the memory that a BatchWrite needs in addition to its batch. Calls reuse a
// workspace, and between calls a workspace has no data.
type workspace struct {
	keys, partitions []uint64 // hashes of keys and of partitions
	slots, seen      []uint32
	last             encodedAttrs
}

// encodedAttrs has attributes in their stored form. All entries of one post have the same
// attributes, so the attributes are encoded once.
type encodedAttrs struct {
	attrs []table.Attr
	value []byte
	size  int // the billed size of an item with these attributes and an empty key
	// blind reports whether a put of the attributes need not read the item that it replaces.
	blind bool
}

// sizeWith returns the billed size of an item with these attributes and the key k.
func (e *encodedAttrs) sizeWith(k table.Key) int { return e.size + len(k.PK) + len(k.SK) }

// encoded returns attrs in their stored form. The result is valid until the next call of encoded.
func (b *workspace) encoded(attrs []table.Attr) *encodedAttrs {
	e := &b.last
	if same := len(attrs) > 0 && len(attrs) == len(e.attrs) && &attrs[0] == &e.attrs[0]; !same {
		it := table.Item{Attrs: attrs}
		*e = encodedAttrs{attrs, appendValue(e.value[:0], attrs), table.Size(it), !table.InIndex(&it)}
	}
	return e
}

// forget drops the attributes, because their owner may change them after the call.
func (b *workspace) forget() { b.last = encodedAttrs{value: b.last.value[:0]} }

// prepare computes the hashes of all keys. It returns an error for invalid writes, and for two writes of one key.
func (b *workspace) prepare(h hashes, writes []table.BatchWrite) error {
	if err := table.ValidateBatch(writes); err != nil {
		return err
	}
	b.keys, b.partitions, b.seen = b.keys[:0], b.partitions[:0], b.seen[:0]
	for i := range writes {
		hash, partition := h.of(writes[i].Key())
		b.keys, b.partitions = append(b.keys, hash), append(b.partitions, partition)
	}
	return nil
}

// stage is a batch of Pebble that a call fills.
type stage struct {
	store *Store
	batch *pebble.Batch
	slots []uint32
}

// finish commits the batch, releases the caller's locks and waits until the batch is durable.
// If err is set or nothing is staged, finish drops the batch, and waits only for the writes
// that the caller has seen.
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

// set stages an item with a key and with attributes in their stored form.
func (st *stage) set(key table.Key, value []byte) {
	op := st.batch.SetDeferred(keyLen(key), len(value))
	appendKey(op.Key[:0], key)
	copy(op.Value, value)
	_ = op.Finish() // cannot fail, as in put
}

// put stages an item without a hint.
func (st *stage) put(it *table.Item) {
	op := st.batch.SetDeferred(keyLen(it.Key), valueLen(it.Attrs))
	appendKey(op.Key[:0], it.Key)
	appendValue(op.Value[:0], it.Attrs)
	_ = op.Finish() // fails only for an indexed batch
}

// write stages the change of an item from old to after, nil for an absent item. It also stages
// the change of the item's hint.
func (st *stage) write(key table.Key, partition uint64, old, after *table.Item) {
	if old == nil && after == nil {
		return
	}
	st.slots = append(st.slots, slotOf(partition))
	if after != nil {
		st.put(after)
	} else {
		_ = st.batch.Delete(appendKey(nil, key), nil) // cannot fail, as in put
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

// addSlot makes readers of an index partition wait for the commit, too.
func (st *stage) addSlot(pk string) {
	st.slots = append(st.slots, slotOf(st.store.hash.partition(pk)))
}

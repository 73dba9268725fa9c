package throttle

import (
	"context"
	"time"

	"fanfare/internal/table"
)

// Shares shares a table between the kinds of work of a process. Each kind has a Store. The zero
// value is ready.
type Shares struct {
	Throttle Throttle
	Yield    Yield
}

// Store returns s for the work of one kind.
func (p *Shares) Store(s table.Store, u Urgency) table.Store {
	return &shared{s, p, u, make(chan struct{}, p.Yield.AtOnce)}
}

// shared is a Store whose writes wait for their units, and yield to posts.
type shared struct {
	table.Store
	*Shares
	u Urgency
	// places has a value for each running batch of this Store. Its capacity is AtOnce.
	places chan struct{}
}

// write runs the write do, which r describes. While the table is short for all, write retries a
// refused write.
func (s *shared) write(ctx context.Context, r request, do func() (table.WriteResult, error)) (table.WriteResult, error) {
	r.u, r.came = s.u, time.Now()
	pause := shortestWait // the pause keeps one full partition from using up the units of all work
	for before := (table.WriteResult{}); ; pause = min(2*pause, time.Second) {
		res, err := s.attempt(ctx, r, do)
		res.Units, res.Refused = before.Units.Plus(res.Units), append(before.Refused, res.Refused...)
		if !s.Throttle.again(r, err) {
			return res, err
		}
		before = res
		sleep(ctx, pause)
	}
}

// attempt runs the write do once, after the waits that r needs.
func (s *shared) attempt(ctx context.Context, r request, do func() (table.WriteResult, error)) (table.WriteResult, error) {
	if r.op == table.OpBatchWrite && s.Yield.AtOnce > 0 && s.Yield.yields(s.u) {
		waiting, cancel := context.WithDeadlineCause(ctx, r.came.Add(mostWait), &ShortError{r.op})
		defer cancel()
		select {
		case s.places <- struct{}{}:
			defer func() { <-s.places }()
		case <-waiting.Done():
			return table.WriteResult{}, context.Cause(waiting)
		}
	}
	if err := s.Throttle.take(ctx, r); err != nil {
		return table.WriteResult{}, err
	}
	began := time.Now()
	res, err := do()
	rest := s.Yield.done(r, time.Since(began))
	s.Throttle.done(r, res, err)
	if rest > 0 {
		sleep(ctx, rest)
	}
	return res, err
}

// single is the request of a write of one item.
func single(op table.Op, key table.Key) request {
	return request{op: op, key: key.PK, writes: 1, units: 1}
}

func (s *shared) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return s.write(ctx, single(table.OpPut, in.Item.Key), func() (table.WriteResult, error) { return s.Store.Put(ctx, in) })
}

func (s *shared) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return s.write(ctx, single(table.OpUpdate, in.Key), func() (table.WriteResult, error) { return s.Store.Update(ctx, in) })
}

func (s *shared) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	return s.write(ctx, single(table.OpDelete, in.Key), func() (table.WriteResult, error) { return s.Store.Delete(ctx, in) })
}

// Transact uses the key of its last operation: the first operations of large work check
// conditions on other keys, and all later operations have one key.
func (s *shared) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	r := request{op: table.OpTransact, writes: max(1, len(in.Ops)), units: 2 * len(in.Ops)}
	if n := len(in.Ops); n > 0 {
		r.key = in.Ops[n-1].Key().PK
	}
	return s.write(ctx, r, func() (table.WriteResult, error) { return s.Store.Transact(ctx, in) })
}

// BatchWrite writes all entries at once, or in parts with more urgent writes in between. While a
// limit holds, Throttle.atOnce sets the size of a part. Otherwise Yield.batch sets it.
func (s *shared) BatchWrite(ctx context.Context, writes []table.BatchWrite) (all table.WriteResult, err error) {
	key, came, whole := oneKey(writes), time.Now(), true
	for len(writes) > 0 {
		size := s.Throttle.atOnce(s.u, key)
		if size == 0 {
			size = s.Yield.batch(s.u, len(writes))
		}
		if whole && size < len(writes) { // a part does not show that a key is in two parts
			if err := table.ValidateBatch(writes); err != nil {
				return all, err
			}
		}
		whole = false
		part := writes[:min(size, len(writes))]
		r := request{op: table.OpBatchWrite, u: s.u, key: key, writes: len(part), units: len(part), came: came}
		res, err := s.attempt(ctx, r, func() (table.WriteResult, error) { return s.Store.BatchWrite(ctx, part) })
		all = all.Plus(res)
		if s.Throttle.again(r, err) {
			continue // with smaller parts if the limit is lower now
		}
		if err != nil {
			return all, err
		}
		writes, came = writes[len(part):], time.Now()
	}
	return all, nil
}

// oneKey returns the partition key of writes if all writes have the same key, or "".
func oneKey(writes []table.BatchWrite) string {
	if len(writes) == 0 {
		return ""
	}
	pk := writes[0].Key().PK
	for _, w := range writes[1:] {
		if w.Key().PK != pk {
			return ""
		}
	}
	return pk
}

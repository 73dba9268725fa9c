package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// wrote records the items after a write.
func (w *World) wrote(keys ...table.Key) error {
	for _, key := range keys {
		res, err := w.store.Get(context.Background(), table.GetInput{Key: key, Consistent: true})
		if err != nil {
			return fmt.Errorf("simulated table: read back: %w", err)
		}
		w.replaced(key, res.Item)
		w.buried(res.Item)
		w.sawPost(key, res.Item)
		w.traced.saw(w, key, res.Item)
		w.checkWrite(key, res.Item)
		w.sawEdge(key, res.Item)
		w.sawLife(key, res.Item)
		w.sawNotice(key, res.Item)
		w.sawComment(key, res.Item)
		w.sawFollow(key, res.Item)
		w.sawKept(key, res.Item)
		w.sawMarker(key, res.Item)
		w.sawWrite(key, res.Item)
		w.checkLedger(key, res.Item)
		w.copied.saw(w, key)
		if err := w.modes.wrote(key, res.Item, w.steps, w.actor()); err != nil {
			return fmt.Errorf("simulated table: %w", err)
		}
		w.sawDays(key, res.Item)
		delete(w.ttls, key)
		if res.Item != nil && res.Item.Has(table.AttrTTL) {
			w.ttls[key] = res.Item.Int(table.AttrTTL)
		}
	}
	return nil
}

// buried records the step in which a post became a tombstone.
func (w *World) buried(it *table.Item) {
	if it == nil || it.Int(schema.AttrDeleted) == 0 {
		return
	}
	ref, err := schema.ParsePostRef(*it)
	if err != nil || w.tombs[ref.ID] != 0 {
		return
	}
	w.tombs[ref.ID], w.notices.buried[ref.ID] = w.steps, time.Now()
	w.keepPurge(ref.ID)
}

// delivers checks I2 beyond the homes: a worker that begins to handle a message after the deletion
// of the post must find the deletion before it writes a page.
func (w *World) delivers(op string, writes []table.BatchWrite) {
	began, handled := w.began[op]
	for _, wr := range writes {
		if wr.Put == nil {
			continue
		}
		post, author, ok := schema.ParseEntrySK(wr.Put.Key.SK)
		if tomb := w.tombs[post]; ok && handled && tomb > 0 && tomb < began {
			w.load.fail("I2", "post %s of %s is delivered by %s, which began after its delete", post, author, op)
			return
		}
	}
}

// expire deletes some of the items whose TTL has passed, as lazily as DynamoDB.
func (w *World) expire() error {
	for _, key := range w.expired() {
		if w.rng.IntN(2) == 0 || w.off[FaultTTL] {
			continue
		}
		w.Fired[FaultTTL]++
		if err := w.sweep(key); err != nil {
			return err
		}
	}
	return nil
}

// expired returns the items whose TTL has passed by the clock of the sweep.
func (w *World) expired() []table.Key {
	now := time.Now().Add(w.early()).Unix()
	var all []table.Key
	for key, ttl := range w.ttls {
		if ttl < now {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, compareKeys)
	return all
}

func compareKeys(a, b table.Key) int { return cmp.Or(cmp.Compare(a.PK, b.PK), cmp.Compare(a.SK, b.SK)) }

// sweep deletes an expired item, unless a write whose outcome was unknown has replaced the item.
func (w *World) sweep(key table.Key) error {
	if w.ttls[key] >= time.Now().Unix() {
		w.Fired[FaultEarly]++
	}
	w.note("expire %v", key)
	if strings.HasSuffix(key.PK, "#delivery") {
		w.told.faded[key.PK] = true
	}
	same := table.Equal{Name: table.AttrTTL, Value: table.N(w.ttls[key])}
	_, err := w.store.Delete(context.Background(), table.DeleteInput{Key: key, If: same})
	if _, replaced := errors.AsType[*table.ConditionError](err); err != nil && !replaced {
		return fmt.Errorf("simulated table: expire: %w", err)
	}
	return w.wrote(key)
}

// store is the table for one process: each call passes through the ports.
type store struct {
	p *Proc
	l *life
}

// Store returns the process's table.
func (p *Proc) Store() table.Store { return store{p, p.life} }

func call1[R any](ctx context.Context, s store, c *call, effect func(part float64) (R, error)) (R, error) {
	var res R
	c.effect = func(part float64) (err error) {
		s.p.w.acting = c
		s.p.w.engine.begin(func() error { return c.effect(part) })
		res, err = effect(part)
		s.p.w.engine.end()
		s.p.w.sawRead(c)
		s.p.w.sawRefusal(c, err)
		if err == nil {
			s.p.w.sawUse(c)
		}
		s.p.w.acting = nil
		return err
	}
	err := s.p.do(ctx, s.l, c)
	if err != nil {
		var none R
		return none, err
	}
	return res, nil
}

func (s store) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	c := &call{kind: "table.get", class: class("get", in.Key.PK), about: in.Key.PK + in.Key.SK, pks: []string{in.Key.PK}, label: label("get", in)}
	return call1(ctx, s, c, func(float64) (table.GetResult, error) {
		res, err := readAs(s.p.w, sightOfKeys(in.Consistent, in.Key), func(m table.Store) (table.GetResult, error) { return m.Get(context.Background(), in) })
		if res.Item != nil {
			s.p.w.outlived(s.p, *res.Item)
		}
		return res, err
	})
}

// BatchGet is no snapshot: some calls read a part of the keys later than the other keys.
func (s store) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	if len(in.Keys) == 0 {
		return table.BatchGetResult{}, nil
	}
	c := &call{kind: "table.batch_get", in: in, class: class("batch_get", in.Keys[0].PK), about: in.Keys[0].PK + in.Keys[0].SK, label: label("batch_get", in)}
	for _, key := range in.Keys {
		c.pks = append(c.pks, key.PK)
	}
	read := func(keys []table.Key) (table.BatchGetResult, error) {
		part := in
		part.Keys = keys
		res, err := readAs(s.p.w, sightOfKeys(in.Consistent, keys...), func(m table.Store) (table.BatchGetResult, error) { return m.BatchGet(context.Background(), part) })
		s.p.w.outlived(s.p, res.Items...)
		return res, err
	}
	var got table.BatchGetResult // a late effect writes got after the caller has given up
	_, err := call1(ctx, s, c, func(float64) (done struct{}, err error) {
		keys := in.Keys
		if n := s.p.w.cut(c, len(keys)); n > 0 {
			keys = shuffled(s.p.w, keys)
			rest := keys[n:]
			keys = keys[:n]
			s.p.w.restOf(c, sightOfKeys(in.Consistent, rest...), func() error {
				s.p.w.sawNoticeRead(c, rest)
				more, err := read(rest)
				got = table.BatchGetResult{Items: append(got.Items, more.Items...), Units: got.Units.Plus(more.Units)}
				return err
			})
		}
		s.p.w.sawNoticeRead(c, in.Keys)
		got, err = read(keys)
		return done, err
	})
	if err != nil {
		return table.BatchGetResult{}, err
	}
	return got, nil
}

// Query makes a separate call for each page, so that the world changes between the pages.
func (s store) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for {
			page, err := s.page(ctx, q)
			if !yield(page, err) || err != nil || !page.More || len(page.Items) == 0 {
				return
			}
			q.After = sortKey(q, page.Items[len(page.Items)-1])
		}
	}
}

func (s store) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return s.write(ctx, "put", in.Item.Key, in, func() (table.WriteResult, error) { return s.p.w.store.Put(context.Background(), in) })
}

func (s store) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return s.write(ctx, "update", in.Key, in, func() (table.WriteResult, error) { return s.p.w.store.Update(context.Background(), in) })
}

func (s store) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	return s.write(ctx, "delete", in.Key, in, func() (table.WriteResult, error) { return s.p.w.store.Delete(context.Background(), in) })
}

func (s store) write(ctx context.Context, op string, key table.Key, in any, do func() (table.WriteResult, error)) (table.WriteResult, error) {
	c := &call{kind: "table." + op, in: in, class: class(op, key.PK), about: key.PK + key.SK, pks: []string{key.PK}, label: label(op, in)}
	return call1(ctx, s, c, func(float64) (table.WriteResult, error) {
		res, err := do()
		if err == nil {
			err = s.p.w.wrote(key)
		}
		return res, err
	})
}

func (s store) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	if len(writes) == 0 {
		return table.WriteResult{}, nil
	}
	// A late effect happens after the answer, when the caller may have reused the memory of writes.
	own := make([]table.BatchWrite, len(writes))
	var text []any
	for i, wr := range writes {
		own[i] = wr
		if wr.Put != nil {
			it := *wr.Put
			own[i].Put = &it
			text = append(text, it)
		} else {
			text = append(text, wr.Delete)
		}
	}
	c := &call{kind: "table.batch_write", class: class("batch_write", own[0].Key().PK), about: own[0].Key().PK + own[0].Key().SK, label: label("batch_write", text), batch: true, in: own}
	write := func(some []table.BatchWrite) (table.WriteResult, error) {
		s.p.w.delivers(c.op, some)
		if len(some) == 0 {
			return table.WriteResult{}, nil
		}
		res, err := s.p.w.store.BatchWrite(context.Background(), some)
		for _, wr := range some {
			if err == nil {
				err = s.p.w.wrote(wr.Key())
			}
		}
		return res, err
	}
	c.spare = func(short func(pk string) bool) error {
		_, err := write(slices.DeleteFunc(slices.Clone(own), func(wr table.BatchWrite) bool {
			return slices.ContainsFunc(s.p.w.sidesOf(opOfWrite(wr)), short)
		}))
		return err
	}
	return call1(ctx, s, c, func(part float64) (table.WriteResult, error) {
		some := own[:int(math.Ceil(part*float64(len(own))))]
		return write(s.p.w.halve(c, some, func(rest []table.BatchWrite) error { _, err := write(rest); return err }))
	})
}

func (s store) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	var keys []table.Key
	var text []any
	for _, op := range in.Ops {
		switch {
		case op.Put != nil:
			keys, text = append(keys, op.Put.Item.Key), append(text, *op.Put)
		case op.Update != nil:
			keys, text = append(keys, op.Update.Key), append(text, *op.Update)
		case op.Delete != nil:
			keys, text = append(keys, op.Delete.Key), append(text, *op.Delete)
		case op.Check != nil:
			text = append(text, *op.Check)
		}
	}
	pk := ""
	if len(keys) > 0 {
		pk = keys[0].PK
	}
	c := &call{kind: "table.transact", class: class("transact", pk), about: pk, label: label("transact", text)}
	c.ops = in.Ops
	return call1(ctx, s, c, func(float64) (table.WriteResult, error) {
		former := make([]*table.Item, len(keys))
		for i, key := range keys {
			former[i] = s.p.w.items[key]
		}
		res, err := s.p.w.store.Transact(context.Background(), in)
		if err == nil {
			err = s.p.w.wrote(keys...)
		}
		if err == nil {
			s.p.w.tear(c, keys, former)
		}
		return res, err
	})
}

// class returns the name of a crash point: the operation and the kind of partition.
func class(op, pk string) string {
	parts := strings.Split(pk, "#")
	kind := map[string]string{"u": "user", "p": "post by id", "idem": "idempotency", "inc": "like end", "lifetimes": "lifetimes", "made": "posts made", "changed": "changes"}[parts[0]]
	if len(parts) > 2 && len(parts[0]) == 1 { // a list of a user or of a post
		kind = parts[2]
	}
	return op + " " + kind
}

// label returns a name that differs between different calls: the operation and a hash of the input.
func label(op string, in any) string {
	h := fnv.New64a()
	text := fmt.Sprintf("%+v", in)
	_, _ = h.Write([]byte(text)) // a hash's Write never fails
	if len(text) > 90 {
		text = text[:90]
	}
	return fmt.Sprintf("%s %016x %s", op, h.Sum64(), text)
}

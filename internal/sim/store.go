package sim

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// replica is the table as an eventually consistent read sees it: it has the changes of
// the table in order, a second late at most.
type replica struct {
	store *tabletest.Memory
	log   []change
}

// change is an item after a write, nil for deleted.
type change struct {
	key  table.Key
	item *table.Item
	at   time.Time
}

const mostLag = time.Second

// wrote records the items after a write.
func (w *World) wrote(keys ...table.Key) error {
	for _, key := range keys {
		res, err := w.store.Get(context.Background(), table.GetInput{Key: key, Consistent: true})
		if err != nil {
			return fmt.Errorf("simulated table: read back: %w", err)
		}
		w.stale.log = append(w.stale.log, change{key, res.Item, time.Now()})
		w.buried(res.Item)
		w.sawPost(key, res.Item)
		w.checkWrite(key, res.Item)
		w.sawEdge(key, res.Item)
		w.sawLife(key, res.Item)
		w.sawNotice(key, res.Item)
		w.sawComment(key, res.Item)
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

// buried remembers when a post became a tombstone.
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

// delivers checks I2 where no home shows it: a worker that begins to handle a message
// after the post was deleted must find that out before it writes a page.
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

// follow applies the first n changes, and all that are older than mostLag.
func (r *replica) follow(n int) error {
	for i, c := range r.log {
		if i >= n && time.Since(c.at) < mostLag {
			r.log = r.log[i:]
			return nil
		}
		var err error
		if c.item == nil {
			_, err = r.store.Delete(context.Background(), table.DeleteInput{Key: c.key})
		} else {
			_, err = r.store.Put(context.Background(), table.PutInput{Item: *c.item})
		}
		if err != nil {
			return fmt.Errorf("simulated table: replica: %w", err)
		}
	}
	r.log = nil
	return nil
}

// expire deletes some of the items whose ttl has passed, as lazily as DynamoDB.
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

// expired returns the items whose ttl has passed by the clock of the sweep.
func (w *World) expired() []table.Key {
	now := time.Now().Add(w.early()).Unix()
	var all []table.Key
	for key, ttl := range w.ttls {
		if ttl < now {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b table.Key) int { return cmp.Or(cmp.Compare(a.PK, b.PK), cmp.Compare(a.SK, b.SK)) })
	return all
}

func (w *World) sweep(key table.Key) error {
	if w.ttls[key] >= time.Now().Unix() {
		w.Fired[FaultEarly]++
	}
	w.note("expire %v", key)
	if _, err := w.store.Delete(context.Background(), table.DeleteInput{Key: key}); err != nil {
		return fmt.Errorf("simulated table: expire: %w", err)
	}
	return w.wrote(key)
}

// source returns the store of a read: the table, or its replica, some changes late.
func (w *World) source(consistent bool) (*tabletest.Memory, error) {
	if consistent || !w.chance(w.faults.Stale) || w.off[FaultStale] {
		return w.store, nil
	}
	if err := w.stale.follow(w.rng.IntN(len(w.stale.log) + 1)); err != nil {
		return nil, err
	}
	if len(w.stale.log) > 0 {
		w.Fired[FaultStale]++
	}
	return w.stale.store, nil
}

// store is the table as one process reaches it.
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
		res, err = effect(part)
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
		from, err := s.p.w.source(in.Consistent)
		if err != nil {
			return table.GetResult{}, err
		}
		return from.Get(context.Background(), in)
	})
}

func (s store) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	if len(in.Keys) == 0 {
		return table.BatchGetResult{}, nil
	}
	c := &call{kind: "table.batch_get", in: in, class: class("batch_get", in.Keys[0].PK), about: in.Keys[0].PK + in.Keys[0].SK, label: label("batch_get", in)}
	for _, key := range in.Keys {
		c.pks = append(c.pks, key.PK)
	}
	return call1(ctx, s, c, func(float64) (table.BatchGetResult, error) {
		from, err := s.p.w.source(in.Consistent)
		if err != nil {
			return table.BatchGetResult{}, err
		}
		s.p.w.sawNoticeRead(c, in.Keys)
		return from.BatchGet(context.Background(), in)
	})
}

// Query makes each page a call of its own, so that the world changes between them.
func (s store) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for {
			c := &call{kind: "table.query", class: class("query", q.PK), about: q.PK + q.After, pks: []string{q.PK}, label: label("query", q)}
			if q.Index {
				c.pks[0] = indexPartition(q.PK)
			}
			page, err := call1(ctx, s, c, func(float64) (table.Page, error) {
				from, err := s.p.w.source(q.Consistent && !q.Index)
				if err != nil {
					return table.Page{}, err
				}
				s.p.w.sawNoticeQuery(c, q, from)
				for page, err := range from.Query(context.Background(), q) {
					if strings.HasPrefix(q.PK, "made#") {
						page.Items = slices.DeleteFunc(slices.Clone(page.Items), s.p.w.liveStorm.hides)
					}
					return page, err
				}
				return table.Page{}, nil
			})
			if !yield(page, err) || err != nil || !page.More || len(page.Items) == 0 {
				return
			}
			last := page.Items[len(page.Items)-1]
			q.After = last.Key.SK
			if q.Index {
				q.After = last.Str(table.AttrGSI1SK)
			}
		}
	}
}

func (s store) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	c := &call{kind: "table.scan", class: class("scan", in.After.PK), about: in.After.PK + in.After.SK, pks: []string{in.After.PK}, label: label("scan", in)}
	return call1(ctx, s, c, func(float64) (table.ScanPage, error) {
		from, err := s.p.w.source(false)
		if err != nil {
			return table.ScanPage{}, err
		}
		return from.Scan(context.Background(), in)
	})
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
	if put, ok := in.(table.PutInput); ok {
		c.pks = partitionsOf(put.Item)
	}
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
	// A late effect comes when the caller already was answered and may have reused its
	// memory.
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
	c := &call{kind: "table.batch_write", class: class("batch_write", own[0].Key().PK), about: own[0].Key().PK + own[0].Key().SK, label: label("batch_write", text), batch: true}
	for _, wr := range own {
		c.pks = append(c.pks, partitionsOfWrite(wr)...)
	}
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
			return slices.ContainsFunc(partitionsOfWrite(wr), short)
		}))
		return err
	}
	return call1(ctx, s, c, func(part float64) (table.WriteResult, error) {
		return write(own[:int(math.Ceil(part*float64(len(own))))])
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
	for _, op := range in.Ops {
		c.pks = append(c.pks, partitionsOfOp(op)...)
	}
	return call1(ctx, s, c, func(float64) (table.WriteResult, error) {
		res, err := s.p.w.store.Transact(context.Background(), in)
		if err == nil {
			err = s.p.w.wrote(keys...)
		}
		return res, err
	})
}

// class returns the name of a crash point: the operation and the kind of partition.
func class(op, pk string) string {
	parts := strings.Split(pk, "#")
	kind := map[string]string{"u": "user", "p": "post by id", "idem": "idempotency", "inc": "like end", "lifetimes": "lifetimes", "made": "posts made"}[parts[0]]
	if len(parts) > 2 && len(parts[0]) == 1 { // a list of a user or of a post
		kind = parts[2]
	}
	return op + " " + kind
}

// label returns a name that differs for different calls: the operation and a hash of
// its input.
func label(op string, in any) string {
	h := fnv.New64a()
	text := fmt.Sprintf("%+v", in)
	_, _ = h.Write([]byte(text)) // a hash's Write never fails
	if len(text) > 90 {
		text = text[:90]
	}
	return fmt.Sprintf("%s %016x %s", op, h.Sum64(), text)
}

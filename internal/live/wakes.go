package live

import (
	"context"
	"sync/atomic"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Wakes makes the writes of a process wake the streams of the homes that they change. The
// streams of other processes wait for their next look.
type Wakes struct{ hub atomic.Pointer[Hub] }

// Wake sends the wakes to h.
func (w *Wakes) Wake(h *Hub) { w.hub.Store(h) }

// Store wraps s.
func (w *Wakes) Store(s table.Store) table.Store { return &waking{s, w} }

// waking is a table whose writes wake streams. Homes change by Put, Update, BatchWrite and
// Transact.
type waking struct {
	table.Store
	wakes *Wakes
}

// wake wakes the streams of n keys.
func (w *waking) wake(n int, key func(i int) table.Key) {
	hub := w.wakes.hub.Load()
	if hub == nil || hub.open.Load() == 0 {
		return
	}
	for i := range n {
		if user, ok := schema.UserOfHome(key(i).PK); ok {
			hub.Wake(user)
		}
	}
}

func (w *waking) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	defer w.wake(1, func(int) table.Key { return in.Item.Key })
	return w.Store.Put(ctx, in)
}

func (w *waking) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	defer w.wake(1, func(int) table.Key { return in.Key })
	return w.Store.Update(ctx, in)
}

func (w *waking) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	defer w.wake(len(writes), func(i int) table.Key { return writes[i].Key() })
	return w.Store.BatchWrite(ctx, writes)
}

func (w *waking) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	defer w.wake(len(in.Ops), func(i int) table.Key { return in.Ops[i].Key() })
	return w.Store.Transact(ctx, in)
}

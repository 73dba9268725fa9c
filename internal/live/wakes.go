package live

import (
	"context"
	"slices"
	"sync/atomic"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Wakes makes the writes of a process wake the streams of the homes that the writes change. Wakes also
// sends hints to the homes that the writes may change. The streams of other processes find the changes
// by their own looks.
type Wakes struct{ hub atomic.Pointer[Hub] }

// Wake makes h the hub that the writes wake.
func (w *Wakes) Wake(h *Hub) { w.hub.Store(h) }

// Store wraps s, so that writes to s wake streams.
func (w *Wakes) Store(s table.Store) table.Store { return &waking{s, w} }

// waking is a table whose writes wake streams. Homes change by Put, Update, BatchWrite and
// Transact.
type waking struct {
	table.Store
	wakes *Wakes
}

// written is a write of one item. put is nil if the write is not a put. edited is set if the write is an
// update that edits a post.
type written struct {
	key             table.Key
	put             *table.Item
	deleted, edited bool
}

// wake wakes the streams of the homes that n writes change, and sends hints to these homes. A failed
// write wakes a stream, too, because the write may have happened.
func (w *waking) wake(err error, n int, write func(i int) written) {
	hub := w.wakes.hub.Load()
	if hub == nil || hub.open.Load() == 0 {
		return
	}
	for i := range n {
		wr := write(i)
		if user, ok := schema.UserOfHome(wr.key.PK); ok {
			hub.Wake(user)
		} else if user, ok := schema.UserOfNotices(wr.key.PK); ok {
			hub.Noticed(user)
		}
		if author, post, ok := schema.PostOfKey(wr.key); ok && wr.edited {
			hub.Edited(author, post, false) // the note of the edit follows, if other posts refer to the post
		}
		if err == nil && (wr.put != nil || wr.deleted) {
			hub.wrote(wr)
		}
	}
}

// wrote handles a put or a delete of a post by id, an edge, a mute or a profile.
func (h *Hub) wrote(wr written) {
	if user, ok := schema.UserOfFollowing(wr.key.PK); ok {
		if other, ok := schema.UserOfSK(wr.key.SK); ok {
			h.Heard(user, other, !wr.deleted)
		}
		return
	}
	if other, ok := schema.MutedOfSK(wr.key.SK); ok {
		if user, ok := schema.UserOfHome(wr.key.PK); ok {
			h.Heard(user, other, wr.deleted)
		}
		return
	}
	if wr.put != nil && h.noted(*wr.put) || wr.key.SK != schema.SortInfo {
		return
	}
	if user, ok := schema.UserOfProfile(wr.key); ok && wr.deleted {
		h.Removed(user)
		return
	}
	if wr.put == nil {
		return
	}
	switch post, err := schema.ParsePostRef(*wr.put); { //nolint:forbidigo // a hint without a text
	case err != nil, post.Unmade: // another item, or the tombstone of a post that no home has shown
	case post.Deleted:
		h.Deleted(post.Author, post.ID, post.Referred)
	default:
		h.Posted(post.Author, post.ID)
	}
}

// noted handles a put of a change into the log of changes, and reports whether the put is one. The tombstone of a deletion
// tells of the deletion.
func (h *Hub) noted(it table.Item) bool {
	c, err := schema.ParseChange(it)
	if err == nil && c.Referred && !c.Deleted {
		h.Edited(c.Author, c.Post, true)
	}
	return err == nil
}

// edits reports whether an update with these attributes edits a post. A change of a byline edits no post.
func edits(set []table.Attr) bool {
	return slices.ContainsFunc(set, func(a table.Attr) bool { return a.Name == schema.AttrEditedAt })
}

func (w *waking) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	res, err := w.Store.Put(ctx, in)
	w.wake(err, 1, func(int) written { return written{key: in.Item.Key, put: &in.Item} })
	return res, err
}

func (w *waking) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	res, err := w.Store.Update(ctx, in)
	w.wake(err, 1, func(int) written { return written{key: in.Key, edited: edits(in.Set)} })
	return res, err
}

func (w *waking) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	res, err := w.Store.Delete(ctx, in)
	w.wake(err, 1, func(int) written { return written{key: in.Key, deleted: true} })
	return res, err
}

func (w *waking) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	res, err := w.Store.BatchWrite(ctx, writes)
	w.wake(err, len(writes), func(i int) written {
		return written{key: writes[i].Key(), put: writes[i].Put, deleted: writes[i].Put == nil}
	})
	return res, err
}

func (w *waking) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	res, err := w.Store.Transact(ctx, in)
	w.wake(err, len(in.Ops), func(i int) written {
		op := in.Ops[i]
		wr := written{key: op.Key(), deleted: op.Delete != nil}
		if op.Put != nil {
			wr.put = &op.Put.Item
		}
		return wr
	})
	return res, err
}

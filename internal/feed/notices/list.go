package notices

import (
	"cmp"
	"context"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// List returns a page of the user's notifications.
//
// The cursor is the place of the page's last notification (I7). A notification without a new action
// keeps its place, so it is on one page. A notification that moves up is above the cursor, so it is on
// the first page.
func (n *Notices) List(ctx context.Context, user string, in page.Request) (Page[Notice], error) {
	if err := n.requireOn(); err != nil {
		return Page[Notice]{}, err
	}
	scope := page.ListByID("notifications", user, "")
	after, err := scope.Position(in.Cursor)
	if err != nil {
		return Page[Notice]{}, err
	}
	r := reader{n: n, user: user, size: in.Size(), seen: map[string]bool{}}
	if err := r.prepare(ctx); err != nil {
		return Page[Notice]{}, err
	}
	q := table.Query{Index: true, PK: schema.NoticesPK(user), Descending: true, After: after}
	fill := page.Refill{Budget: page.BudgetAfter(page.TableCalls / 2), Calls: 3, Most: table.MaxBatchGet, Small: true}
	read, err := page.Collect(ctx, n.access.Store, q, r.size+1, fill, func(items []table.Item) ([]Notice, error) { return r.page(ctx, items) })
	if err != nil {
		return Page[Notice]{}, err
	}
	list := page.Of(read, r.size, scope, func(of Notice) string { return of.place })
	if list.Items, err = r.numbered(ctx, list.Items); err != nil {
		return Page[Notice]{}, err
	}
	out := Page[Notice]{List: list, ReadTo: markScope(user).Cursor(cmp.Or(r.top, r.mark, id.Min))}
	if in.Cursor == "" {
		cut := len(read.Items) > r.size && read.Items[r.size].Unread // further notifications were not judged
		unread, err := r.unread(ctx, list.Items, cut || read.More && !r.low)
		if err != nil {
			return Page[Notice]{}, err
		}
		out.Unread = &unread
	}
	return out, nil
}

// prepare reads the mark, the mutes, and the note of blocks. All reads are consistent, because a mark,
// a mute and a block take effect at the next read.
func (r *reader) prepare(ctx context.Context) error {
	r.posts, r.refs = access.Readables{}, map[string]access.Ref{}
	return r.n.access.All(ctx,
		func(ctx context.Context) error {
			mark, note := schema.NoticeMarkKey(r.user), schema.HasBlocksKey(r.user)
			found, err := r.n.access.BatchGet(ctx, []table.Key{mark, note}, true)
			if it, ok := found[mark]; ok {
				r.mark = schema.NoticeMark(&it)
			}
			_, r.blocks = found[note]
			return err
		},
		func(ctx context.Context) (err error) { r.muted, err = r.n.feed.MutesOf(ctx, r.user); return err },
	)
}

// page returns the shown notifications of a page of the index. page first examines as many keys as the
// page needs, and all keys if some of these notifications were hidden. If no notification was hidden,
// page also returns the next notification without an examination, because that notification only shows
// that the list continues.
func (r *reader) page(ctx context.Context, items []table.Item) ([]Notice, error) {
	all := make([]Notice, 0, len(items))
	for _, it := range items {
		stored, err := schema.ParseNotice(it)
		if err != nil {
			return nil, fault.Wrap("table", err)
		}
		all = append(all, r.notice(stored, it.Str(table.AttrGSI1SK)))
	}
	var shown []Notice
	for len(all) > 0 {
		part := all
		switch {
		case r.shown >= r.size:
			return append(shown, all[0]), nil
		case r.top == "":
			part, r.top = all[:min(r.size, len(all))], all[0].place
		}
		all = all[len(part):]
		part = slices.DeleteFunc(part, func(of Notice) bool { again := r.seen[of.ID]; r.seen[of.ID] = true; return again })
		part, err := r.visible(ctx, part)
		if err != nil {
			return nil, err
		}
		r.shown += len(part)
		shown = append(shown, part...)
	}
	return shown, nil
}

// notice returns a stored notification with its place in the index. notice also counts the
// notification if it is unread.
func (r *reader) notice(stored schema.Notice, place string) Notice {
	unread := place > r.mark
	if unread {
		r.above++
	} else {
		r.low = true
	}
	return Notice{
		ID: string(stored.Kind) + ":" + stored.Target, Kind: stored.Kind, Target: stored.Target, At: access.TimeOf(place), Unread: unread,
		place: place, acts: stored.Acts,
	}
}

// unread returns the number of unread notifications. more reports that further unread notifications may follow. If the
// page has all of them, the number is the number in the page, so that a reader finds as many as the number promises.
func (r *reader) unread(ctx context.Context, items []Notice, more bool) (int, error) {
	if !more {
		shown := 0
		for _, of := range items {
			if of.Unread {
				shown++
			}
		}
		return min(shown, DefaultUnread), nil
	}
	if r.above >= DefaultUnread {
		return DefaultUnread, nil
	}
	return r.n.above(ctx, r.user, r.mark, DefaultUnread)
}

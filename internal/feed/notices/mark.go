package notices

import (
	"context"
	"errors"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// MaxUnread is the maximum number of notifications that Unread counts. DefaultUnread is the maximum
// number that a first page and a stream count.
const (
	MaxUnread     = 100
	DefaultUnread = 10
)

// Unread returns the number of notifications above the user's mark. The value most stands for most
// notifications or more. Unread reads no posts, edges or blocks, so Unread may count a notification
// that a page hides.
func (n *Notices) Unread(ctx context.Context, user string, most int) (int, error) {
	unread, _, err := n.UnreadAbove(ctx, user, most)
	return unread, err
}

// UnreadAbove returns the number of Unread, and the mark.
func (n *Notices) UnreadAbove(ctx context.Context, user string, most int) (unread int, mark string, err error) {
	if err := n.requireOn(); err != nil {
		return 0, "", err
	}
	n.unreadRead()
	it, err := n.access.Get(ctx, schema.NoticeMarkKey(user), true)
	if err != nil {
		return 0, "", err
	}
	mark = schema.NoticeMark(it)
	unread, err = n.above(ctx, user, mark, most)
	return unread, mark, err
}

// above counts the notifications above a place, up to most. The query reads further keys only if it
// finds expired notifications.
func (n *Notices) above(ctx context.Context, user, place string, most int) (int, error) {
	q := table.Query{Index: true, PK: schema.NoticesPK(user), Project: []string{}}
	if place != "" {
		q.Low = place + "!" // above place itself, and below every higher place
	}
	fill := page.Refill{Budget: page.BudgetAfter(2), Calls: 1, Most: page.MostRefill}
	found, err := page.Collect(ctx, n.access.Store, q, most, fill, page.Each(func(table.Item) (struct{}, bool, error) {
		return struct{}{}, true, nil
	}))
	return len(found.Items), err
}

// mostAhead is the maximum time by which a place may be ahead of this process's clock without a read
// of the index. Workers give places that are minutes ahead at most.
const mostAhead = time.Hour

// markScope is the scope of the tokens of a mark.
func markScope(user string) page.Scope { return page.ListByID("notifications-read", user, "") }

// MarkRead moves the user's mark up to the place of a page's ReadTo, and returns the number of unread
// notifications. The mark only grows (I14), because calls of several devices may arrive in any order.
func (n *Notices) MarkRead(ctx context.Context, user, readTo string) (unread int, err error) {
	if err := n.requireOn(); err != nil {
		return 0, err
	}
	place, err := markScope(user).Position(readTo)
	if err != nil || place == "" {
		return 0, notGiven()
	}
	after, err := n.access.WriterLife(ctx, user)
	if err != nil {
		return 0, err
	}
	if access.TimeOf(place).Sub(n.access.Now()) > mostAhead {
		// Anybody can make the token of a place, and workers give new notifications places above the mark. So
		// the list must contain a place that is far ahead.
		reached, err := n.above(ctx, user, place[:len(place)-1], 1)
		if err != nil {
			return 0, err
		}
		if reached == 0 {
			return 0, notGiven()
		}
	}
	if err := n.raise(ctx, user, place, after); err != nil {
		return 0, err
	}
	return n.Unread(ctx, user, DefaultUnread)
}

func notGiven() error {
	return &fault.Error{Kind: fault.Malformed, Detail: "read_to is not of a page of your notifications: list them again"}
}

// raise stores a place as the user's mark, unless the mark is at least as high. A user without a
// stored mark has the lowest place as the mark. A stored mark is above after, like all places of the
// user's present life: a removal deletes the mark of a former life (I12).
func (n *Notices) raise(ctx context.Context, user, place, after string) error {
	if place == id.Min {
		return nil
	}
	if place <= after {
		var err error
		if place, err = id.Successor(after); err != nil {
			return fault.Wrap("table", err)
		}
	}
	mark := schema.NoticeMarkItem(user, place)
	_, err := n.access.Store.Put(ctx, table.PutInput{Item: mark, If: table.Any{
		table.Absent{}, table.Less{Name: schema.AttrReadTo, Value: mark.Get(schema.AttrReadTo)},
	}})
	if _, higher := errors.AsType[*table.ConditionError](err); higher {
		return nil
	}
	return fault.Wrap("table", err)
}

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"fanfare/internal/feed/notices"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file has the operations that read notifications: walks over the pages while notifications
// move, and reads by two devices of a user, which list a page and mark the page later.

// noticeOps is added to the numbers of these operations. Each such operation belongs to an
// operation of the workload, and shrinking leaves out both together.
const noticeOps = 300_000

// besideNotices adds a read of notifications to some of the planned operations.
func (w *World) besideNotices(of []planned) []planned {
	if !w.shape.Notices {
		return of
	}
	kinds := []string{"notices", "notices", "notice page", "notice page", "notice page", "notice mark", "notice mark", "notice mark", "notice mark", "notice mark", "notice mark", "mute", "block"}
	var all []planned
	for _, p := range of {
		all = append(all, p)
		if r := draws(w.seed, p.number, 9); p.number < noticeOps && r.IntN(2) == 0 {
			all = append(all, planned{noticeOps + p.number, w.load.users[r.IntN(min(4, len(w.load.users)))], kinds[r.IntN(len(kinds))], p.skip})
		}
	}
	return all
}

// indexView is the index of a user's notifications at one query, with the place and the actions of each
// notification.
type indexView struct {
	places map[string]string
	acts   map[string][]schema.Act
	top    string
}

// sawNoticeQuery records the index that a page of notifications sees.
func (w *World) sawNoticeQuery(c *call, q table.Query, from table.Store) {
	if _, ok := recipientOf(table.Key{PK: q.PK}); !ok || !q.Index || !q.Descending {
		return
	}
	view := indexView{map[string]string{}, map[string][]schema.Act{}, ""}
	for page, err := range from.Query(context.Background(), table.Query{PK: q.PK, Index: true}) {
		if err != nil {
			w.load.fail("oracle", "%v", err)
			return
		}
		for _, it := range page.Items {
			n, err := schema.ParseNotice(it)
			if err != nil || expires(it) {
				continue // the write of this notification was reported
			}
			of := string(n.Kind) + ":" + n.Target
			view.places[of], view.acts[of] = it.Str(table.AttrGSI1SK), n.Acts
			view.top = max(view.top, it.Str(table.AttrGSI1SK))
		}
	}
	w.notices.views[c.op] = append(w.notices.views[c.op], view)
}

// device is a device of a user with a page that the device has not marked yet.
type device struct{ token, top string }

// readNotices makes an operation that reads notifications.
func (l *workload) readNotices(r *rand.Rand, p planned) *operation {
	switch p.kind {
	case "notice page":
		return l.noticePage(r, p.user)
	case "notice mark":
		return l.noticeMark(r, p.user)
	}
	return l.noticeWalk(r, p.user)
}

func (l *workload) noticeWalk(r *rand.Rand, user string) *operation {
	limit, hidden := 1+r.IntN(3), l.hiddenFrom(user)
	var items []notices.Notice
	var op *operation
	op = &operation{
		name: fmt.Sprintf("notices limit %d", limit), user: user,
		do: func(ctx context.Context, s *domain) (err error) {
			items, err = allNotices(ctx, s, user, limit)
			return err
		},
		settle: func(err error) {
			views := l.w.notices.views[op.id()]
			delete(l.w.notices.views, op.id())
			if err == nil {
				hidden(items)
				l.checkWalk(user, items, views)
			}
			l.checkSilence(op, err)
		},
	}
	return op
}

func (l *workload) noticePage(r *rand.Rand, user string) *operation {
	of, hidden := fmt.Sprintf("%s %d", user, r.IntN(2)), l.hiddenFrom(user)
	var list notices.Page[notices.Notice]
	var op *operation
	op = &operation{
		name: "notices of device " + of, user: user,
		do: func(ctx context.Context, s *domain) (err error) {
			list, err = s.notices.List(ctx, user, page.Request{Limit: 5})
			return err
		},
		settle: func(err error) {
			views := l.w.notices.views[op.id()]
			delete(l.w.notices.views, op.id())
			if err == nil && len(views) > 0 {
				hidden(list.Items)
				l.w.notices.devices[of] = &device{list.ReadTo, views[0].top}
			}
			l.checkSilence(op, err)
		},
	}
	return op
}

// noticeMark marks the page of a device. Another device may have marked a newer page meanwhile.
func (l *workload) noticeMark(r *rand.Rand, user string) *operation {
	of := fmt.Sprintf("%s %d", user, r.IntN(2))
	d := l.w.notices.devices[of]
	if d == nil {
		return l.noticePage(r, user)
	}
	delete(l.w.notices.devices, of)
	var op *operation
	op = &operation{
		name: "mark by device " + of, user: user,
		do: func(ctx context.Context, s *domain) error {
			_, err := s.notices.MarkRead(ctx, user, d.token)
			return err
		},
		settle: func(err error) {
			if mark := schema.NoticeMark(l.w.items[schema.NoticeMarkKey(user)]); err == nil && mark < d.top {
				l.fail("I14", "%s has marked a page that looked at %s, the mark is %s", user, d.top, mark)
			}
			l.checkSilence(op, err)
		},
	}
	return op
}

// markNow marks the leaver's notifications as read up to now, as a device does that has just listed a page. In the first
// minute of a life such a place is below the life's after.
func markNow(ctx context.Context, s *domain) ([]table.Key, error) {
	token := page.ListByID("notifications-read", leaver, "").Cursor(id.Floor(time.Now()))
	_, err := s.notices.MarkRead(ctx, leaver, token)
	return []table.Key{schema.NoticeMarkKey(leaver)}, err
}

// sawMarkOfLife checks that a mark is above the after of the life that its call has read, if that life has not ended since.
// A removal would delete any other mark as a mark of a former life (I12), and the notifications would be unread again.
func (w *World) sawMarkOfLife(life string, key table.Key, now *table.Item) {
	if key != schema.NoticeMarkKey(leaver) || life == "" || life != w.life() {
		return
	}
	if mark, after := schema.NoticeMark(now), w.items[schema.ProfileKey(leaver)].Str(schema.AttrAfter); mark <= after {
		w.load.fail("I14", "the mark %s of %s is not above %s, the beginning of the life", mark, leaver, after)
	}
}

func allNotices(ctx context.Context, s *domain, user string, limit int) ([]notices.Notice, error) {
	var items []notices.Notice
	in := page.Request{Limit: limit}
	for {
		list, err := s.notices.List(ctx, user, in)
		if err != nil {
			return nil, err
		}
		items = append(items, list.Items...)
		if list.NextCursor == "" {
			return items, nil
		}
		if list.NextCursor == in.Cursor {
			return nil, fmt.Errorf("notifications of %s: a page does not move on", user)
		}
		in.Cursor = list.NextCursor
	}
}

// hiddenFrom returns a check for notifications that are read from now on: no notification is about
// a post whose delete was already answered, and no notification names a user whom the reader
// already muted, blocked or unfollowed.
func (l *workload) hiddenFrom(user string) func(items []notices.Notice) {
	deleted, begun, calls := clone2(l.deleted), l.w.steps, map[*hidden]int{}
	for _, other := range l.users {
		for _, h := range []*hidden{l.mutes[pair{user, other}], l.blocks[pair{user, other}], l.blocks[pair{other, user}]} {
			if h.certain() {
				calls[h] = h.calls
			}
		}
	}
	certain := func(h *hidden) bool { return h != nil && calls[h] == h.calls && h.calls > 0 }
	return func(items []notices.Notice) {
		for _, of := range items {
			if deleted[of.Target] {
				l.fail("I13", "%s is shown %s, whose delete was answered", user, of.ID)
			}
			for _, actor := range of.Actors {
				other := actor.UserID
				if certain(l.mutes[pair{user, other}]) || certain(l.blocks[pair{user, other}]) || certain(l.blocks[pair{other, user}]) {
					l.fail("I13", "%s is shown %s of %s, a muted or blocked user", user, of.ID, other)
				}
				times := l.w.followers[user][other]
				if of.Kind == schema.NoticeFollow && (len(times) == 0 || times[len(times)-1].until != 0 && times[len(times)-1].until < begun) {
					l.fail("I13", "%s is shown %s, who follows no more", user, other)
				}
			}
		}
	}
}

// checkWalk checks I7 by the views that the pages of a walk saw. The walk shows a notification with
// the same place in all views once. It shows any other notification at most once, and once more for
// each view in which the notification moved down.
func (l *workload) checkWalk(user string, items []notices.Notice, views []indexView) {
	shown := map[string]int{}
	for _, of := range items {
		shown[of.ID]++
	}
	all := map[string]bool{}
	for _, view := range views {
		for of := range view.places {
			all[of] = true
		}
	}
	for _, of := range sorted(all) {
		falls, stays := 0, views[0].places[of] != ""
		for i := 1; i < len(views); i++ {
			falls += map[bool]int{true: 1}[views[i].places[of] < views[i-1].places[of]]
			stays = stays && views[i].places[of] == views[0].places[of]
		}
		switch {
		case shown[of] > 1+falls:
			l.fail("I7", "the notifications of %s show %s %d times, it fell %d times", user, of, shown[of], falls)
		case stays && shown[of] != 1 && l.surelyShows(user, of, views[0]):
			l.fail("I7", "the notifications of %s show %s %d times, each page saw it at %s", user, of, shown[of], views[0].places[of])
		}
	}
}

// surelyShows reports whether nothing can hide a notification: the newest valid action is by a user
// whom nobody has ever muted or blocked, and the notification's post was never deleted.
func (l *workload) surelyShows(user, of string, view indexView) bool {
	kind, target, _ := strings.Cut(of, ":")
	if kind == string(schema.NoticeFollow) || l.doubtful[target] || l.owner[target] == "" {
		return false
	}
	return slices.ContainsFunc(view.acts[of], func(act schema.Act) bool {
		return act.Holds() && act.Place == view.places[of] && !l.actorHidden(user, act.User)
	})
}

// checkNoticeReads checks the reads of notifications once the world is quiet: the list, the counts, and the
// number of unread notifications.
func (w *World) checkNoticeReads(ctx context.Context, service *domain) {
	l := w.load
	for _, user := range l.users {
		hidden := l.hiddenFrom(user)
		view, above := indexView{map[string]string{}, map[string][]schema.Act{}, ""}, 0
		mark := schema.NoticeMark(w.items[schema.NoticeMarkKey(user)])
		for _, it := range w.partition(schema.NoticesPK(user)) {
			n, err := schema.ParseNotice(it)
			if place := it.Str(table.AttrGSI1SK); err == nil && place != "" && !expires(it) {
				view.places[string(n.Kind)+":"+n.Target], view.acts[string(n.Kind)+":"+n.Target] = place, n.Acts
				if place > mark {
					above++
				}
			}
		}
		items, err := allNotices(ctx, service, user, 2)
		if err != nil {
			l.fail("I7", "notifications of %s: %v", user, err)
			continue
		}
		hidden(items)
		if !w.aged {
			l.checkWalk(user, items, []indexView{view})
			if unread, err := service.notices.Unread(ctx, user, notices.DefaultUnread); err != nil || unread != min(above, notices.DefaultUnread) {
				l.fail("I14", "%s has %d unread notifications, %d are above the mark %s: %v", user, unread, above, mark, err)
			}
		}
		for _, of := range items {
			w.checkNumber(user, of)
		}
	}
}

// checkNumber checks that a notification shows the stored count.
func (w *World) checkNumber(user string, of notices.Notice) {
	var want int64
	switch of.Kind {
	case schema.NoticeFollow:
		want = int64(len(w.shownIn(schema.FollowersPK(user))))
		for _, actor := range of.Actors {
			if !w.shows(user, actor.UserID, user) {
				w.load.fail("I13", "%s is shown that %s follows", user, actor.UserID)
			}
		}
	case schema.NoticeLike:
		e := w.likeNotice(user, of.Target)
		if e.unsure {
			return
		}
		for _, act := range e.acts {
			if act.Holds() {
				want++
			}
		}
	default:
		return
	}
	shown := int64(-1)
	if of.Count != nil {
		shown = *of.Count
	}
	if shown != want {
		w.load.fail("I13", "%s is shown %s with the number %d, want %d", user, of.ID, shown, want)
	}
}

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/notify"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// In half of the worlds users have notifications (docs/decisions/0049): the aggregators, the fan-out
// workers and the APIs send their events to the topic of notices, and two processes of the role notify
// write notifications.

// noticeBook is the oracle's knowledge of notifications.
type noticeBook struct {
	// sent has the ids of the events that became durable on the topic. asked has the comments, and the ends of follows and reposts,
	// for which a process tried to send an event. follows has the latest follow, or its end, of one user by another.
	sent, asked map[string]bool
	follows     map[pair]schema.Act
	// reads has, by process and key, the marks that workers have read together with a notification.
	reads map[string][]markRead
	// places has, by place, the action that got the place.
	places map[string]string
	// acts has the actions of the sent events, by notification.
	acts map[string][]*noticeSent
	// views has, by operation, the index as each query of a walk saw it.
	views map[string][]indexView
	// devices has the devices that have listed a page and not marked the page yet.
	devices map[string]*device
	// buried has the times when posts became tombstones.
	buried map[string]time.Time
}

// markRead is a user's mark as a worker has read it. If the call read at two moments, markRead has
// the older mark.
type markRead struct {
	call     *call
	step     int
	place    string
	revision int64
}

func newNotices() noticeBook {
	return noticeBook{
		sent: map[string]bool{}, asked: map[string]bool{}, follows: map[pair]schema.Act{}, reads: map[string][]markRead{}, places: map[string]string{}, acts: map[string][]*noticeSent{},
		views: map[string][]indexView{}, devices: map[string]*device{}, buried: map[string]time.Time{},
	}
}

// notifiers is the number of processes that write notifications.
const notifiers = 2

// notify starts the product's notifier in a process. The table's replies set the clock of the
// notifier, so a clock that is wrong by hours is in doubt.
func (w *World) notify(p *Proc) {
	if p.silent {
		w.empties(p, queue.TopicNotices)
		return
	}
	watch := p.clock
	if watch == nil {
		watch = clock.New(p.Now)
		watch.Observe(time.Now(), 0)
	}
	notifier := notify.New(notify.Config{
		Store: p.Store(), Broker: p.Broker(), IDs: id.NewSeededGenerator(p.Now, entropy(w.rng.Uint64())), Now: p.Now,
		Clock: watch, Window: likeWindow, MaxMessages: w.shape.Held, Workers: mostWindows, Grace: grace, Log: zap.NewNop(), Events: w.tell(p),
	})
	p.Go(func(ctx context.Context) { w.ended(ctx, p, "notices", notifier.Run(ctx)) })
}

// notifies returns the function by which a process sends to the topic of notices, nil in a world
// without notifications.
func (w *World) notifies(p *Proc) func(context.Context, ...messages.Event) error {
	if !w.shape.Notices || p.silent {
		return nil
	}
	broker := p.Broker()
	return notify.Sender(func(ctx context.Context, events ...messages.Event) error {
		for _, e := range events {
			msg, err := queue.Message(ctx, e)
			if err == nil {
				err = broker.Publish(queue.TopicNotices, msg)
			}
			if err != nil {
				return &queue.UnsentError{Queue: queue.TopicNotices, Err: err}
			}
		}
		return nil
	})
}

// applied returns the function that sends the events of counted likes to other programs and to the
// topic of notices.
func (w *World) applied(p *Proc) func(context.Context, ...messages.Event) error {
	tell, notifies := w.tell(p), w.notifies(p)
	switch {
	case tell == nil:
		return notifies
	case notifies == nil:
		return tell
	}
	return func(ctx context.Context, events ...messages.Event) error {
		if err := tell(ctx, events...); err != nil {
			return err
		}
		return notifies(ctx, events...)
	}
}

// mentions draws the users whom a comment mentions, in a world with notifications.
func (l *workload) mentions(r *rand.Rand) []string {
	if !l.w.shape.Notices || r.IntN(2) == 0 {
		return nil
	}
	return []string{l.users[r.IntN(len(l.users))]}
}

// sawNoticeSent records an event that became durable on the topic of notices.
func (w *World) sawNoticeSent(topic string, e messages.Event) {
	if topic == queue.TopicNotices {
		w.notices.sent[noticeOf(e)] = true
		w.notices.sends(e)
	}
}

// noticeOf returns the name of an event's action.
func noticeOf(e messages.Event) string {
	switch e := e.(type) {
	case *messages.Commented:
		return fmt.Sprintf("comment %s %v", e.CommentID, e.Deleted)
	case *messages.Mentioned:
		return fmt.Sprintf("mention of %s in %s %v", e.UserID, e.CommentID, e.Deleted)
	case *messages.Reposted:
		return fmt.Sprintf("repost %s %v", e.RepostID, e.Deleted)
	case *messages.Followed:
		return "follow " + e.MarkVersion
	case *messages.Unfollowed:
		return "unfollow " + e.MarkVersion
	}
	return string(messages.KindOf(e)) + " " + e.Head().EventID
}

// sawNoticeRead records the mark that a worker reads together with a notification.
func (w *World) sawNoticeRead(c *call, keys []table.Key) {
	if c.proc.role != "notify" {
		return
	}
	for _, key := range keys {
		user, ok := recipientOf(key)
		if ok && strings.HasPrefix(key.SK, schema.SortNotice) {
			of := c.proc.Name + " " + key.PK + key.SK
			w.see(event{kind: eventRead, by: c.proc.Name, key: key})
			reads, read := w.notices.reads[of], markRead{c, w.steps, schema.NoticeMark(w.items[schema.NoticeMarkKey(user)]), w.revision(key)}
			if n := len(reads); n > 0 && reads[n-1].call == c { // the notification is in the rest of the batch
				read.place, reads = reads[n-1].place, reads[:n-1]
			}
			w.notices.reads[of] = append(reads, read)
		}
	}
}

// expires reports whether a process may treat an item as expired.
func expires(it table.Item) bool {
	return it.Has(table.AttrTTL) && it.Int(table.AttrTTL) < time.Now().Add(clocksMost).Unix()
}

// revision returns the revision of a notification, 0 if there is none.
func (w *World) revision(key table.Key) int64 {
	if it := w.items[key]; it != nil && !expires(*it) {
		return it.Int(schema.AttrRevision)
	}
	return 0
}

// recipientOf returns the user of an item of notifications.
func recipientOf(key table.Key) (user string, ok bool) {
	user, ok = strings.CutSuffix(strings.TrimPrefix(key.PK, "u#"), "#notif")
	return user, ok
}

// sawNotice checks a write of a notification or of a mark.
func (w *World) sawNotice(key table.Key, now *table.Item) {
	user, ok := recipientOf(key)
	if !ok || now == nil {
		return
	}
	old := w.items[key]
	if key == schema.NoticeMarkKey(user) {
		if was, is := schema.NoticeMark(old), schema.NoticeMark(now); is < was {
			w.load.fail("I14", "the mark of %s falls from %s to %s", user, was, is)
		}
		return
	}
	next, err := schema.ParseNotice(*now)
	if err != nil {
		w.load.fail("I13", "%v", err)
		return
	}
	w.inTime(next)
	was := schema.Notice{Kind: next.Kind, Target: next.Target}
	if old != nil {
		if was, err = schema.ParseNotice(*old); err != nil {
			return // the write of the notification was reported
		}
		was.Revision = w.revision(key)
	}
	forgotten := old != nil && expires(*old)
	if len(next.Acts) == schema.NoticeActs && !now.Has(table.AttrGSI1SK) {
		w.load.fail("I13", "%v is not listed, and an older action than its %d may hold", key, schema.NoticeActs)
	}
	for _, act := range next.Acts {
		kept, there := was.Find(act)
		switch {
		case act.Holds() && act.Place == "":
			w.load.fail("I13", "%s holds in %v, and has no place", act.Version, key)
		case there && kept.Place != "" && kept.Place != act.Place && !forgotten:
			w.load.fail("I14", "the action of %s in %v moves from %s to %s", act.User, key, kept.Place, act.Place)
		case act.Place != "" && (!there || kept.Place != act.Place):
			w.placed(key, was, act)
		}
	}
}

// inTime checks that no worker begins to write a notification long after the deletion of the post,
// because the purge would miss the notification. A worker whose clock was set back has more time.
func (w *World) inTime(n schema.Notice) {
	const longest = time.Minute + 2*noticeSkew
	gone, c := w.notices.buried[n.Target], w.acting
	if !gone.IsZero() && c != nil && c.at.Sub(gone) > longest && !w.hours {
		w.load.fail("I13", "%v is written %s after the deletion of its post", n.Key(), c.at.Sub(gone))
	}
}

// sawComment checks that an API sends the event of a comment before it makes the comment, so that
// no crash between the two steps loses the event.
func (w *World) sawComment(key table.Key, now *table.Item) {
	c := w.acting
	if !w.shape.Notices || now == nil || w.items[key] != nil || c == nil || c.proc.role != "api" || c.silent || class("", key.PK) != " comment" {
		return
	}
	comment, err := schema.ParseComment(*now)
	if ref := w.refOf(comment.Post); err == nil && ref != nil && ref.Author != comment.Author && !w.notices.asked[comment.ID] {
		w.load.fail("I13", "the comment %s of %s is made, and its event was not sent before", comment.ID, comment.Author)
	}
}

// sawFollow records the latest follow, or its end, of one user by another, and checks that an API sends the event of an end
// before the end, so that no crash between the two steps loses the event. A follow that a repair or an import makes has
// no event, and so has no version here.
func (w *World) sawFollow(key table.Key, now *table.Item) {
	if now == nil || !strings.HasSuffix(key.PK, "#home") || !schema.KnownMark(*now) {
		return
	}
	mark, err := schema.ParseMark(*now)
	if old := w.items[key]; err != nil || old != nil && old.Str(schema.AttrVersion) == mark.Version {
		return
	}
	of, c := pair{mark.User, mark.Author}, w.acting
	edge := w.items[schema.FollowingKey(mark.User, mark.Author)]
	switch {
	case mark.FollowID != "" && edge != nil && edge.Has(schema.AttrSilent):
		w.load.fail("I13", "the silent follow of %s by %s has the event %s", mark.Author, mark.User, mark.FollowID)
	case mark.Kind == schema.MarkBackfill && mark.FollowID == mark.Version:
		w.notices.follows[of] = schema.Act{Version: mark.Version, State: schema.ActHolds, User: mark.User}
	case mark.Kind == schema.MarkBackfill && mark.FollowID == "":
		w.notices.follows[of] = schema.Act{User: mark.User}
	case mark.Kind == schema.MarkUnfollowed && c != nil && slices.ContainsFunc(c.ops, func(op table.TransactOp) bool {
		return op.Delete != nil && op.Delete.Key == schema.FollowingKey(mark.User, mark.Author)
	}):
		w.notices.follows[of] = schema.Act{Version: mark.Version, User: mark.User}
		if w.shape.Notices && c.proc.role == "api" && !c.silent && !w.notices.asked[mark.Version] {
			w.load.fail("I13", "the follow of %s by %s ends, and its event was not sent before", mark.Author, mark.User)
		}
	}
}

// placed checks a new place: the place is above the mark that the worker has read (I14), no other
// notification has the same place (I7), and no wrong clock has made the place.
func (w *World) placed(key table.Key, was schema.Notice, act schema.Act) {
	n := &w.notices
	name := fmt.Sprintf("%v %s", key, act.Key(was.Kind))
	if other := n.places[act.Place]; other != "" && other != name {
		w.load.fail("I7", "%s has the place %s of %s", name, act.Place, other)
	}
	n.places[act.Place] = name
	c := w.acting
	if c == nil {
		return
	}
	mark := n.markOf(c, key, was.Revision)
	if act.Place <= mark {
		w.load.fail("I14", "%s gets the place %s, its worker has read the mark %s", name, act.Place, mark)
	}
	at, err := id.Time(act.Place)
	latest := time.Now().Add(clocksDiffer)
	after := ""
	if user, _ := recipientOf(key); w.items[schema.ProfileKey(user)] != nil {
		after = w.items[schema.ProfileKey(user)].Str(schema.AttrAfter)
	}
	for _, above := range []string{mark, was.Highest(), was.Target, after} {
		if t, err := id.Time(above); err == nil && t.Add(time.Second).After(latest) {
			latest = t.Add(time.Second)
		}
	}
	if err != nil || at.After(latest) {
		w.load.fail("I14", "%s gets the place %s of %v, now is %v", name, act.Place, at, time.Now())
	}
}

// markOf returns the mark that a worker has read before a put. If several windows of one worker have read the
// same revision, the put may belong to each of these windows.
func (n *noticeBook) markOf(c *call, key table.Key, revision int64) string {
	var marks []string
	for _, read := range n.reads[c.proc.Name+" "+key.PK+key.SK] {
		if read.step <= c.made && read.revision == revision {
			marks = append(marks, read.place)
		}
	}
	if len(marks) == 0 {
		return ""
	}
	return slices.Min(marks[max(0, len(marks)-mostWindows):])
}

// mostWindows is the maximum number of windows that a worker writes at once.
const mostWindows = 4

// clocksDiffer is the maximum time by which a clock that is not in doubt may be ahead.
const clocksDiffer = messages.MaxAhead + mostSkew

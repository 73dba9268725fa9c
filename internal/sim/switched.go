package sim

import (
	"cmp"
	"context"
	"slices"

	"fanfare/internal/schema"
	"fanfare/messages"
)

// In some worlds with notifications one process of each role has notifications off in some of its
// lives, as while an operator switches FANFARE_NOTIFICATIONS on and off. Such a process sends no
// event to the topic of notices, its API serves no notification, and a consumer that empties the
// topic runs in place of a notifier. Then a notification may lack the actions whose event was not
// sent, or was dropped. It must lack no other action, and must have no action without an event.

// FaultSilent is a life of a process in which notifications are off.
const FaultSilent = "notifications off in a life"

// lifeFaults returns the faults that last for a life of a process. Their draws are separate from
// other faults.
func lifeFaults() []string { return []string{FaultSilent, FaultDoubt} }

// silences draws whether notifications are off in the life of a process that begins.
func (w *World) silences(p *Proc) bool {
	one := slices.Contains([]string{"api-1", "fanout-1", "likeagg-1", "notify-1"}, p.Name)
	if !w.shape.Switched || w.right || !one || w.off[FaultSilent] || w.rng.IntN(2) == 0 {
		return false
	}
	w.Fired[FaultSilent]++
	return true
}

// setRight ends the lives in which notifications are off or the clock is wrong.
func (w *World) setRight() {
	w.right = true
	for _, p := range w.procs {
		if (p.silent || p.wrong) && !p.dead {
			w.note("%s is set right", p.Name)
			w.end(p)
		}
	}
}

// checkSilence checks that an API serves no notification while notifications are off.
func (l *workload) checkSilence(op *operation, err error) {
	if op.silent && err == nil {
		l.fail("I13", "%s of %s is served, and notifications are off", op.name, op.user)
	}
}

// noticeNamed returns the name of a notification.
func noticeNamed(user string, kind schema.NoticeKind, target string) string {
	return user + " " + string(kind) + " " + target
}

// noticedBy returns the notification and the action of an event.
func noticedBy(e messages.Event) (about string, kind schema.NoticeKind, act schema.Act) {
	state := map[bool]string{false: schema.ActHolds}
	switch e := e.(type) {
	case *messages.LikeCounted:
		return noticeNamed(e.AuthorID, schema.NoticeLike, e.PostID), schema.NoticeLike, schema.Act{Version: e.EventID, State: e.Reaction, User: e.UserID}
	case *messages.Commented:
		return noticeNamed(e.AuthorID, schema.NoticeComment, e.PostID), schema.NoticeComment, schema.Act{Version: e.CommentID, State: state[e.Deleted], User: e.UserID}
	case *messages.Followed:
		return noticeNamed(e.AuthorID, schema.NoticeFollow, ""), schema.NoticeFollow, schema.Act{Version: e.MarkVersion, State: schema.ActHolds, User: e.FollowerID}
	case *messages.Unfollowed:
		return noticeNamed(e.AuthorID, schema.NoticeFollow, ""), schema.NoticeFollow, schema.Act{Version: e.MarkVersion, User: e.FollowerID}
	case *messages.Reposted:
		return noticeNamed(e.AuthorID, schema.NoticeRepost, e.PostID), schema.NoticeRepost, schema.Act{Version: e.RepostID, State: state[e.Deleted], User: e.UserID}
	case *messages.Mentioned:
		version := cmp.Or(e.CommentID, e.PostID)
		return noticeNamed(e.UserID, schema.NoticeMention, e.PostID), schema.NoticeMention, schema.Act{Version: version, State: state[e.Deleted], User: e.ActorID}
	}
	return "", "", schema.Act{}
}

// noticeSent is an action whose event became durable on the topic. A silent process may have dropped the event.
type noticeSent struct {
	act     schema.Act
	key     string
	dropped bool
}

// sends records the action of an event.
func (n *noticeBook) sends(e messages.Event) {
	if about, kind, act := noticedBy(e); about != "" && n.find(about, act) == nil {
		n.acts[about] = append(n.acts[about], &noticeSent{act: act, key: act.Key(kind)})
	}
}

func (n *noticeBook) find(about string, act schema.Act) *noticeSent {
	for _, s := range n.acts[about] {
		if s.act.Version == act.Version && s.act.State == act.State && s.act.User == act.User {
			return s
		}
	}
	return nil
}

// drops records that a silent process has received and dropped an event.
func (n *noticeBook) drops(e messages.Event) {
	if about, _, act := noticedBy(e); about != "" {
		if s := n.find(about, act); s != nil {
			s.dropped = true
		}
	}
}

// empties starts the consumer that empties the topic of notices, as package daemon does.
func (w *World) empties(p *Proc, topic string) {
	w.consume(p, topic, func(context.Context, messages.Event) error { return nil })
}

// checkSwitched is checkNotice for a world in which notifications are switched on and off.
func (w *World) checkSwitched(e *expected) {
	l, n := w.load, schema.Notice{User: e.user, Kind: e.kind, Target: e.target}
	if it := w.items[n.Key()]; it != nil {
		parsed, err := schema.ParseNotice(*it)
		if err != nil {
			l.fail("I13", "%v", err)
			return
		}
		n = parsed
	}
	about := noticeNamed(e.user, e.kind, e.target)
	certain, newest := map[string]schema.Act{}, map[string]schema.Act{}
	for _, s := range w.notices.acts[about] {
		if s.act.Replaces(newest[s.key]) {
			newest[s.key] = s.act
		}
		if !s.dropped && w.confirms(e, s.act) && s.act.Replaces(certain[s.key]) {
			certain[s.key] = s.act
		}
	}
	for _, act := range n.Acts {
		if !act.Holds() || l.actorHidden(e.user, act.User) {
			continue
		}
		if w.notices.find(about, schema.Act{Version: act.Version, State: act.State, User: act.User}) == nil {
			l.fail("I13", "%v has %+v, and no event has that action", n.Key(), act)
		}
		if later := certain[act.Key(e.kind)]; later.Replaces(act) {
			l.fail("I13", "%v has %+v, and the event of %+v reached a worker", n.Key(), act, later)
		}
	}
	for _, key := range sorted(certain) {
		act, newer := certain[key], 0
		for other := range newest {
			if other != key && newest[other].Version > act.Version {
				newer++
			}
		}
		kept, there := n.Find(act)
		if !act.Holds() || newer >= schema.NoticeActs || l.actorHidden(e.user, act.User) {
			continue
		}
		if !there || act.Replaces(kept) || kept.Version == act.Version && n.Place() == "" {
			l.fail("I13", "%v lacks %+v, whose event reached a worker: %+v", n.Key(), act, n.Acts)
		}
	}
}

// confirms reports whether the table confirms an action: a worker drops the event of a comment or a repost that
// was never made, or of a follow that did not end or was made again.
func (w *World) confirms(e *expected, act schema.Act) bool {
	if e.kind == schema.NoticeFollow && !act.Holds() {
		return w.notices.follows[pair{act.User, e.user}] == act
	}
	if e.kind == schema.NoticeRepost {
		ref := w.refOf(act.Version)
		return !w.hours && (ref != nil && !ref.Deleted) == act.Holds()
	}
	if e.kind != schema.NoticeComment && e.kind != schema.NoticeMention {
		return true
	}
	there := w.items[schema.CommentKey(e.target, act.Version)] != nil
	return !w.hours && there == act.Holds()
}

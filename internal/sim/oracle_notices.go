package sim

import (
	"context"
	"slices"
	"strings"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Once the world is quiet, each notification matches the actions themselves (I13): the actions that
// became durable, and the records in the table.

// actorHidden reports whether user has ever muted other, or blocked other or been blocked by other. A
// notification may then leave out or hide the actions of other.
func (l *workload) actorHidden(user, other string) bool {
	return l.mutes[pair{user, other}] != nil || l.blocks[pair{user, other}] != nil || l.blocks[pair{other, user}] != nil
}

// expected is a notification that follows from the actions.
type expected struct {
	user   string
	kind   schema.NoticeKind
	target string
	// acts has, by key, the latest actions of all users whose event was sent.
	acts map[string]schema.Act
	// unsure means that further actions may have happened.
	unsure bool
}

// add adds an action, unless a later action is known.
func (e *expected) add(act schema.Act) {
	key := act.Key(e.kind)
	if old, there := e.acts[key]; !there || act.Replaces(old) {
		e.acts[key] = act
	}
}

// checkNotices checks I13 once the world is quiet. A notification is in the index exactly if one of its
// actions holds, its entries are the latest actions, and the newest action is among the entries.
func (w *World) checkNotices(ctx context.Context, service *domain, living map[string]map[string]bool) {
	if !w.shape.Notices {
		return
	}
	w.checkNoticeIndex()
	w.checkNoticeReads(ctx, service)
	lost := slices.ContainsFunc(w.queue(queue.TopicNotices).dead, func(d queue.DeadLetter) bool { return decoded(d.Payload) != nil })
	if w.aged || lost {
		return // some messages are too old
	}
	for _, user := range w.load.users {
		all := []*expected{w.followNotice(user)}
		for _, post := range sorted(living[user]) {
			all = append(all, w.likeNotice(user, post), w.commentNotice(user, schema.NoticeComment, post), w.repostNotice(user, post, living))
		}
		for _, author := range w.load.users[:min(len(w.load.users), liveCrowd)] {
			for _, post := range sorted(living[author]) {
				all = append(all, w.commentNotice(user, schema.NoticeMention, post))
			}
		}
		for _, e := range all {
			if w.shape.Switched {
				w.checkSwitched(e)
			} else {
				w.checkNotice(e)
			}
		}
	}
}

func (w *World) checkNotice(e *expected) {
	l := w.load
	n := schema.Notice{User: e.user, Kind: e.kind, Target: e.target}
	if it := w.items[n.Key()]; it != nil {
		parsed, err := schema.ParseNotice(*it)
		if err != nil {
			l.fail("I13", "%v", err)
			return
		}
		n = parsed
	}
	for _, act := range n.Acts {
		// A mute may have suppressed an action, and the redelivery of an older action may follow.
		if want, there := e.acts[act.Key(e.kind)]; act.Holds() && !e.unsure && !l.actorHidden(e.user, act.User) && (!there || want.Version != act.Version || want.State != act.State) {
			l.fail("I13", "%v has %+v, the latest action is %+v", n.Key(), act, want)
		}
	}
	var newest schema.Act
	holds, some := false, 0
	for _, key := range sorted(e.acts) {
		act := e.acts[key]
		some++
		if l.actorHidden(e.user, act.User) {
			e.unsure = true
			continue
		}
		holds = holds || act.Holds()
		if act.Version > newest.Version {
			newest = act
		}
	}
	listed := n.Place() != ""
	switch {
	case holds && !listed:
		l.fail("I13", "%v is not listed, and of its actions %v one holds: %+v", n.Key(), e.acts, n.Acts)
	case !holds && !e.unsure && listed && max(some, len(n.Acts)) < schema.NoticeActs: // e has no ends of former follows
		l.fail("I13", "%v is listed, and none of its actions %v holds: %+v", n.Key(), e.acts, n.Acts)
	}
	if kept, there := n.Find(newest); newest.Holds() && (!there || kept.Version != newest.Version) && !e.pushedOut(newest, l) && !full(n, newest) {
		l.fail("I13", "%v lacks %+v, the newest action: %+v", n.Key(), newest, n.Acts)
	}
}

// full reports whether a notification has only newer actions than act: ends of former follows, which expected does not have,
// push an action out, too.
func full(n schema.Notice, act schema.Act) bool {
	return len(n.Acts) == schema.NoticeActs && !slices.ContainsFunc(n.Acts, func(of schema.Act) bool { return of.Version <= act.Version })
}

// pushedOut reports whether five newer actions may push act out. The newer actions are by users
// with a mute or a block.
func (e *expected) pushedOut(act schema.Act, l *workload) bool {
	newer := 0
	for _, other := range e.acts {
		if other.Version > act.Version && l.actorHidden(e.user, other.User) {
			newer++
		}
	}
	return newer >= schema.NoticeActs
}

// likeNotice returns the notification of a post's likes, according to the actions that became
// durable.
func (w *World) likeNotice(author, post string) *expected {
	e := &expected{author, schema.NoticeLike, post, map[string]schema.Act{}, false}
	for _, d := range w.queue(queue.TopicLikes).dead {
		if like := likeOf(decoded(d.Payload)); like != nil && like.PostID == post {
			e.unsure = true
		}
	}
	for _, user := range w.load.likersOf(post) {
		p := w.load.likes[likeKey{post, user}]
		if user == author || w.past[p.version] {
			e.unsure = e.unsure || w.past[p.version]
			continue
		}
		e.add(schema.Act{Version: p.version, State: p.kind, User: user})
	}
	if e.unsure { // the effect of an action in a dead letter is unknown
		e.acts = map[string]schema.Act{}
	}
	return e
}

// commentNotice returns the notification of a post's comments, or of comments that mention a user,
// according to the table and the sent events. If clocks are hours apart, a worker may drop an event
// before the comment is made.
func (w *World) commentNotice(user string, kind schema.NoticeKind, post string) *expected {
	e := &expected{user, kind, post, map[string]schema.Act{}, w.hours}
	notifies := func(author string, mentions []string) bool {
		return author != user && (kind == schema.NoticeComment || slices.Contains(mentions, user))
	}
	for _, it := range w.partition(schema.CommentsPK(post)) {
		c, err := schema.ParseComment(it)
		var told messages.Event = &messages.Commented{CommentID: c.ID}
		if kind == schema.NoticeMention {
			told = &messages.Mentioned{UserID: user, CommentID: c.ID}
		}
		if err == nil && notifies(c.Author, c.Mentions) && w.notices.sent[noticeOf(told)] && !w.hours {
			e.add(schema.Act{Version: c.ID, State: schema.ActHolds, User: c.Author})
		}
	}
	for _, id := range sorted(w.load.comments) {
		if c := w.load.comments[id]; c.post == post && notifies(c.author, c.mentions) && w.items[schema.CommentKey(post, id)] == nil {
			e.add(schema.Act{Version: id, User: c.author})
		}
	}
	return e
}

// followNotice returns the notification of a user's followers, according to the latest follow, or its end, of each follower. If the
// event of that was not sent, the notification may show an earlier follow. So it may if clocks are hours apart: a worker
// may drop the event of an end before the end is in the table.
func (w *World) followNotice(user string) *expected {
	e := &expected{user, schema.NoticeFollow, "", map[string]schema.Act{}, false}
	for of, act := range w.notices.follows {
		name := "unfollow "
		if act.Holds() {
			name = "follow "
		}
		switch {
		case of.author != user:
		case w.notices.sent[name+act.Version]:
			e.add(act)
			e.unsure = e.unsure || w.hours && !act.Holds()
		default:
			e.unsure = true
		}
	}
	return e
}

// repostNotice returns the notification of a post's reposts: the reposts that live, and the reposts whose end was sent. If
// the event of an end was not sent, the notification may still show the repost. So it may if clocks are hours apart: a
// worker may drop the event before the repost has ended.
func (w *World) repostNotice(author, post string, living map[string]map[string]bool) *expected {
	e := &expected{author, schema.NoticeRepost, post, map[string]schema.Act{}, false}
	dead := w.deadPosts()
	for _, repost := range sorted(w.load.reposts.of) {
		by := w.load.created[repost]
		if w.load.reposts.of[repost] != post || by == author {
			continue
		}
		told, ended := w.notices.sent[noticeOf(&messages.Reposted{RepostID: repost})], w.notices.sent[noticeOf(&messages.Reposted{RepostID: repost, Deleted: true})]
		switch {
		case living[by][repost] && !dead[repost]:
			e.add(schema.Act{Version: repost, State: schema.ActHolds, User: by})
		case ended:
			e.add(schema.Act{Version: repost, User: by})
			e.unsure = e.unsure || w.hours
		default:
			e.unsure = e.unsure || told || dead[repost]
		}
	}
	return e
}

// sawEndOfRepost checks that an API sends the event of the end of a repost before the end, so that no crash between the two
// steps loses the event.
func (w *World) sawEndOfRepost(c *call, repost string) {
	of := w.load.reposts.of[repost]
	author := w.load.created[of]
	if ref := w.refOf(of); ref != nil { // an import may have made the original
		author = ref.Author
	}
	if of == "" || author == w.load.created[repost] || !w.shape.Notices || c.proc.role != "api" || c.proc.silent {
		return
	}
	if !w.notices.asked[repost] {
		w.load.fail("I13", "the repost %s of %s by %s ends, and its event was not sent before", repost, of, w.load.created[repost])
	}
}

// checkNoticeIndex checks all stored notifications: no notification is about a post whose purge has ended, and
// the index has the place of each notification.
func (w *World) checkNoticeIndex() {
	for _, key := range sortedKeys(w.items) {
		it := w.items[key]
		if _, ok := recipientOf(key); !ok || !strings.HasPrefix(key.SK, schema.SortNotice) {
			continue
		}
		n, err := schema.ParseNotice(*it)
		if err != nil {
			w.load.fail("I13", "%v", err)
			continue
		}
		if n.Place() != it.Str(table.AttrGSI1SK) {
			w.load.fail("I13", "%v is in the index at %q, its place is %q", key, it.Str(table.AttrGSI1SK), n.Place())
		}
		if n.Kind == schema.NoticeMention && !slices.ContainsFunc(n.Acts, schema.Act.Holds) {
			continue // the comments are gone, so no purge finds the mentioned users; the notification expires
		}
		if ref := w.refOf(n.Target); n.Target != "" && !w.aged && !w.hours && !w.shape.Switched && w.purges[n.Target] != "" && ref != nil && ref.Deleted {
			w.load.fail("I13", "%v is left of a deleted post", key)
		}
	}
}

func sortedKeys(items map[table.Key]*table.Item) []table.Key {
	all := make([]table.Key, 0, len(items))
	for key := range items {
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b table.Key) int { return strings.Compare(a.PK+" "+a.SK, b.PK+" "+b.SK) })
	return all
}

// heardNotified checks the event of a notification: an action of the notification has the event's
// place, so the table has had the action.
func (w *World) heardNotified(e *messages.Notified) {
	if w.notices.places[e.EventID] == "" {
		w.load.fail("I13", "the event says that %s has a notification at %s, and no action got that place", e.UserID, e.EventID)
	}
}

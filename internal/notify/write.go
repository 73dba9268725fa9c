package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

const (
	// mostReads bounds the reads of a window whose notification other processes write at the same time. Each
	// process writes a notification once for each window, so there are hardly more conflicts than processes.
	mostReads = 20
	// settled is the age of an event from which the transaction of its comment, or of the
	// comment's deletion, is complete or will never happen.
	settled = messages.MaxAhead + 2*time.Minute
)

// writer writes one window.
type writer struct {
	cfg   *Config
	w     *window
	pairs *pairs
}

// stored is the part of the table that a window depends on, at the time of the read.
type stored struct {
	at time.Time
	// expired is the time by which records have expired.
	expired time.Time
	notice  schema.Notice
	mark    string
	// unknown means that the recipient of a follow or a mention has no profile. after is an id above
	// all ids of the recipient's former lives, and removal is the event that ended the latest of these
	// lives. For the author of a living post, no profile is read.
	unknown        bool
	after, removal string
	// post is the target, nil if the target is absent or deleted. ended means that the post has ended.
	post  *schema.PostRef
	ended bool
	// records has the stored records of the window's actions.
	records map[table.Key]table.Item
}

// write merges the actions of a window into their notification, and sends the notification's
// events. The messages are answered afterwards, with the error of their action, or else with
// err.
func (wr *writer) write(ctx context.Context) (result Result, err error) {
	for range mostReads {
		now, err := wr.read(ctx)
		if err != nil {
			return "", err
		}
		if now.ended { // the notification has expired with its post, unless the clock is in doubt
			return ResultHidden, wr.cfg.Clock.Doubt()
		}
		if wr.w.about.target != "" && now.post == nil {
			if err = wr.remove(ctx, now.notice); err == nil {
				return ResultHidden, nil
			}
		} else if result, err = wr.merge(ctx, now); err == nil {
			return result, nil
		}
		if _, changed := errors.AsType[*table.ConditionError](err); !changed && !errors.Is(err, errSlept) {
			return "", err
		}
	}
	return "", &queue.Later{After: -1, Reason: "other processes write the same notification"}
}

// errSlept means that the reads of a window are too old for a write that depends on them.
var errSlept = errors.New("the worker stood still")

// read reads everything consistently. The mark is in the partition of the notification, so the
// mark and the notification are from the same time (I14).
func (wr *writer) read(ctx context.Context) (stored, error) {
	about := wr.w.about
	at := wr.cfg.Now()
	now := stored{at: at, expired: wr.cfg.Clock.Expired(at), notice: schema.Notice{User: about.user, Kind: about.kind, Target: about.target}, records: map[table.Key]table.Item{}}
	keys := []table.Key{now.notice.Key(), schema.NoticeMarkKey(about.user)}
	if about.target != "" {
		keys = append(keys, schema.PostByIDKey(about.target))
	}
	profile := schema.ProfileKey(about.user)
	if now.unknown = about.kind == schema.NoticeFollow || about.kind == schema.NoticeMention; now.unknown {
		keys = append(keys, profile)
	}
	asked := map[table.Key]bool{}
	for _, a := range wr.w.actions {
		if key, early := a.record(about); early && !asked[key] {
			asked[key] = true
			keys = append(keys, key)
		}
	}
	res, err := wr.cfg.Store.BatchGet(ctx, table.BatchGetInput{Keys: keys, Consistent: true})
	if err != nil {
		return now, fmt.Errorf("read a notification of %s: %w", about.user, err)
	}
	for _, it := range res.Items {
		switch it.Key {
		case keys[0]:
			now.notice, err = schema.ParseNotice(it)
		case keys[1]:
			now.mark = schema.NoticeMark(&it)
		case profile:
			now.unknown, now.after, now.removal = false, it.Str(schema.AttrAfter), it.Str(schema.AttrEvent)
		case schema.PostByIDKey(about.target):
			var ref schema.PostRef
			if ref, err = schema.ParsePostRef(it); !ref.Deleted {
				now.post, now.ended = &ref, ref.Gone(now.at)
			}
		default:
			now.records[it.Key] = it
		}
		if err != nil {
			return now, err
		}
	}
	now.after = now.life()
	return now, nil
}

// life returns an id that is above all ids of the recipient's former lives. The post of a like or a comment
// is the recipient's own, so its id is such an id. But the id of a post from a clock that is far ahead must
// not lead all later places of the recipient ahead.
func (now stored) life() string {
	if at, err := id.Time(now.notice.Target); err == nil && at.Sub(now.at) <= messages.MaxAhead {
		return max(now.after, now.notice.Target)
	}
	return now.after
}

// merge merges the actions into the notification, and writes the notification if it changes.
func (wr *writer) merge(ctx context.Context, now stored) (Result, error) {
	acts := wr.confirmed(now)
	leftOut, err := wr.unwanted(ctx, now, acts)
	if err != nil {
		return "", err
	}
	merged := Merge(now.notice, acts, Rules{
		LeftOut: leftOut,
		Place: func(above string) (place string) {
			// The place is the time of the clock, but above the mark (I14), above the item's places, and
			// above all ids of the recipient's former lives (I12). The random bits of the generator give two
			// notifications different places (I7).
			var made string
			if made, err = wr.cfg.IDs.After(max(above, now.mark, now.after)); err != nil {
				return above
			}
			return made
		},
	})
	if err != nil {
		return "", fmt.Errorf("place an action of a notification: %w", err)
	}
	result := ResultUnchanged
	if !slices.Equal(merged.Acts, now.notice.Acts) {
		if err := wr.put(ctx, now, merged); err != nil {
			return "", err
		}
		for _, act := range merged.Acts {
			if _, known := now.notice.Find(act); !known && act.Holds() {
				wr.pairs.note(merged, act.User, now.at)
			}
		}
		result = ResultWritten
	}
	return result, wr.tell(ctx, now.notice, merged)
}

// confirmed returns the actions that the table confirms. Only the table shows whether a comment
// or a repost exists, or a follow has ended: an event that arrives before the transaction waits, and is dropped if the
// transaction never commits.
func (wr *writer) confirmed(now stored) (acts []schema.Act) {
	for _, a := range wr.w.actions {
		a.err, a.done = nil, false
		happened, never := now.shows(a, wr.w.about)
		if happened {
			acts = append(acts, a.act)
			continue
		}
		if a.done = never; never {
			continue
		}
		age := now.at.Sub(a.at)
		if a.err = wr.cfg.Clock.Doubt(); a.err == nil && age < settled {
			a.err = &queue.Later{After: max(time.Second, min(age, settled-age)), Reason: "the comment or repost is not there yet, or not gone, or the follow has not ended"}
		}
		a.done = a.err == nil
	}
	return acts
}

// shows reports whether an action happened, according to its record. never means that the action will never happen, because the
// repost has ended, or that the user follows again: the versions of home marks grow, so a mark with a higher version is newer than the end of a follow.
func (now stored) shows(a *action, about subject) (happened, never bool) {
	key, early := a.record(about)
	it, there := now.records[key]
	switch {
	case !early || a.comment != "":
		return !early || there == a.act.Holds(), false
	case about.kind == schema.NoticeRepost:
		ended := it.Int(schema.AttrDeleted) != 0
		return (there && !ended) == a.act.Holds(), ended
	}
	version, ended := it.Str(schema.AttrVersion), it.Str(schema.AttrKind) == string(schema.MarkUnfollowed)
	return ended && version >= a.act.Version, !ended && version > a.act.Version
}

// unwanted returns the rule that leaves out some actions that begin to hold: the actions of muted
// users, mentions over a block, mentions by a user with too many mentions of the recipient in this hour, actions from
// before the recipient's latest removal (I12), and all actions for a recipient without a profile. While the clock is in
// doubt, each action that begins to hold waits, since its place would be wrong.
func (wr *writer) unwanted(ctx context.Context, now stored, acts []schema.Act) (leftOut func(schema.Act) bool, err error) {
	n := now.notice
	begin := map[string]bool{} // the users of the actions that begin to hold
	unwanted := map[string]bool{}
	var keys []table.Key
	for _, act := range acts {
		if old, ok := n.Find(act); !act.Holds() || ok && (old.Holds() || !act.Replaces(old)) || begin[act.User] {
			continue
		}
		begin[act.User] = true
		if wr.pairs.full(n, act.User, now.at) {
			unwanted[act.User] = true
			continue
		}
		keys = append(keys, schema.MuteKey(n.User, act.User))
		if n.Kind == schema.NoticeMention {
			keys = append(keys, schema.BlockKey(n.User, act.User))
		}
	}
	if doubt := wr.cfg.Clock.Doubt(); doubt != nil {
		for _, a := range wr.w.actions {
			if begin[a.act.User] && a.act.Holds() {
				a.err = doubt
			}
		}
		now.unknown = true
	}
	if now.unknown {
		return func(act schema.Act) bool { return begin[act.User] }, nil
	}
	leftOut = func(act schema.Act) bool { return unwanted[act.User] || act.Version <= now.removal }
	if len(keys) == 0 {
		return leftOut, nil
	}
	res, err := wr.cfg.Store.BatchGet(ctx, table.BatchGetInput{Keys: keys})
	if err != nil {
		return nil, fmt.Errorf("read the mutes of %s: %w", n.User, err)
	}
	for _, it := range res.Items {
		other, muted := schema.MutedOfSK(it.Key.SK)
		if !muted {
			other, _ = schema.UserOfSK(it.Key.SK)
		}
		unwanted[other] = true
	}
	return leftOut, nil
}

// put writes a notification on the condition that nobody has written it since the read.
func (wr *writer) put(ctx context.Context, was stored, n schema.Notice) error {
	n.TTL = wr.expiry(was, n)
	unchanged := table.Cond(table.Equal{Name: schema.AttrRevision, Value: table.N(n.Revision)})
	if n.Revision == 0 { // the first revision comes from the time, so that it differs from all revisions of an earlier item
		unchanged = table.Any{table.Absent{}, table.Less{Name: table.AttrTTL, Value: table.N(was.expired.Unix() + 1)}}
		n.Revision = max(1, was.at.UnixMilli()) - 1
	}
	n.Revision++
	left := longestStep - wr.cfg.Now().Sub(was.at)
	if left < 0 {
		return errSlept
	}
	// The write may wait for its units, and must not take effect after the purge of the post.
	ctx, cancel := context.WithTimeoutCause(ctx, left, errSlept)
	defer cancel()
	_, err := wr.cfg.Store.Put(ctx, table.PutInput{Item: n.Item(), If: unchanged})
	if err != nil {
		return fmt.Errorf("write a notification of %s: %w", n.User, err)
	}
	return nil
}

// expiry returns when a notification expires. If the clock is slow, no notification expires before
// the messages of its actions are too old.
func (wr *writer) expiry(was stored, n schema.Notice) time.Time {
	from := was.at
	if at, err := id.Time(n.Acts[0].Version); err == nil && at.After(from) {
		from = at
	}
	ttl := from.Add(wr.cfg.TTL)
	if n.Place() == "" {
		ttl = from.Add(unlistedTTL)
	}
	if was.post != nil { // I15: a notification expires with its post
		return was.post.Until(ttl)
	}
	return ttl
}

// remove deletes the notification of a post that is gone.
func (wr *writer) remove(ctx context.Context, n schema.Notice) error {
	if n.Revision == 0 {
		return nil
	}
	_, err := wr.cfg.Store.Delete(ctx, table.DeleteInput{Key: n.Key(), If: table.Equal{Name: schema.AttrRevision, Value: table.N(n.Revision)}})
	if err != nil {
		return fmt.Errorf("delete a notification of %s: %w", n.User, err)
	}
	return nil
}

// tell sends Notified for the actions that have just got a place. It also sends Notified for actions
// that an earlier try has written: that try may have ended before it sent the event (I6). The event's
// id is the place, so a repeated event has the same id. There is no event for an action that was
// replaced or pushed out before its event was sent.
func (wr *writer) tell(ctx context.Context, was, n schema.Notice) error {
	if wr.cfg.Events == nil {
		return nil
	}
	var events []messages.Event
	for _, a := range wr.w.actions {
		act, ok := n.Find(a.act)
		old, known := was.Find(a.act)
		if !ok || a.err != nil || a.done || !act.Holds() || act.Version != a.act.Version || known && old.Place != "" && old.Version != act.Version {
			continue
		}
		events = append(events, &messages.Notified{
			Header: messages.Header{EventID: act.Place, Time: wr.cfg.Now().UTC()},
			UserID: n.User, NoticeKind: string(n.Kind), Target: n.Target, ActorID: act.User,
		})
	}
	if len(events) == 0 {
		return nil
	}
	return wr.cfg.Events(ctx, events...)
}

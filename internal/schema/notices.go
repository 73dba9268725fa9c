package schema

import (
	"slices"
	"strings"
	"time"

	"fanfare/internal/table"
)

// NoticeKind is the kind of action of a notification.
type NoticeKind string

// These constants are the kinds of notifications. The target of a follow is "". The target of any
// other kind is a post.
const (
	NoticeLike    NoticeKind = "like"
	NoticeComment NoticeKind = "comment"
	NoticeFollow  NoticeKind = "follow"
	NoticeMention NoticeKind = "mention"
	NoticeRepost  NoticeKind = "repost"
)

// NoticeKinds are all kinds of notifications.
var NoticeKinds = []NoticeKind{NoticeLike, NoticeComment, NoticeFollow, NoticeMention, NoticeRepost} //nolint:gochecknoglobals // a constant in all but name

// byAction reports whether two actions of one user on one target are two separate actions. Each
// comment and each mention counts separately, but the latest like, follow or repost of a user replaces the
// user's former one.
func (k NoticeKind) byAction() bool { return k == NoticeComment || k == NoticeMention }

// OnOwnPost reports whether the target is a post of the recipient.
func (k NoticeKind) OnOwnPost() bool {
	return k == NoticeLike || k == NoticeComment || k == NoticeRepost
}

// NoticeActs is the number of newest actions that a notification keeps.
const NoticeActs = 5

// NoticedMentions is the maximum number of mentions in one comment that notify users.
const NoticedMentions = 10

// ActHolds is the state of an action that holds and has no kind of reaction: any action but a like.
const ActHolds = "1"

// Act is one action of a notification.
type Act struct {
	// Version is the id of the action: for a like and a follow the event's id, for a comment the comment's
	// id, for a mention the id of the post or comment, and for a repost the repost's id.
	Version string
	// Place is the ULID at which the notification is listed while this action is its newest holding
	// action. Place is "" for an action that never held.
	Place string
	// State is "" after the action was taken back. A comment or a mention that was taken back never holds
	// again. For a like that holds, State is the kind of the reaction; for any other action that holds,
	// State is ActHolds.
	State string
	User  string
}

// Holds reports whether the action still holds.
func (a Act) Holds() bool { return a.State != "" }

// Key returns the part of an action that is equal in two actions if the newer action replaces the
// older action.
func (a Act) Key(kind NoticeKind) string {
	if kind.byAction() {
		return a.Version
	}
	return a.User
}

// Replaces reports whether a is newer than b. Both actions must have the same key. A comment and its
// deletion have the same version, and the deletion is newer; the same holds for a repost and its end.
func (a Act) Replaces(b Act) bool {
	return a.Version > b.Version || a.Version == b.Version && b.Holds() && !a.Holds()
}

// Notice is a notification: the newest actions of one kind on one target of the user (I13). A
// notification stores no number, because readers see a stored count.
type Notice struct {
	User   string
	Kind   NoticeKind
	Target string
	// Acts has NoticeActs actions at most, in descending order of their versions.
	Acts []Act
	// Revision grows with each write. Revision is 0 if no item is stored.
	Revision int64
	TTL      time.Time
}

// Place returns the place at which the notification is listed, "" if it is not listed. The place is
// the highest place of an action that holds. If no action of a full list holds, older actions may
// hold, so the notification is listed at the lowest place. If each action was taken back before a
// worker handled the action, a full list has no place. Then the notification is listed at the oldest
// version.
func (n Notice) Place() string {
	highest, lowest := "", ""
	for _, act := range n.Acts {
		if act.Holds() {
			highest = max(highest, act.Place)
		}
		if act.Place != "" && (lowest == "" || act.Place < lowest) {
			lowest = act.Place
		}
	}
	switch {
	case highest != "" || len(n.Acts) < NoticeActs:
		return highest
	case lowest != "":
		return lowest
	}
	return n.Acts[NoticeActs-1].Version
}

// Highest returns the highest place of any action, "" if no action has a place.
func (n Notice) Highest() string {
	highest := ""
	for _, act := range n.Acts {
		highest = max(highest, act.Place)
	}
	return highest
}

// Find returns the kept action with the same key as act.
func (n Notice) Find(act Act) (kept Act, ok bool) {
	i := slices.IndexFunc(n.Acts, func(a Act) bool { return a.Key(n.Kind) == act.Key(n.Kind) })
	if i < 0 {
		return Act{}, false
	}
	return n.Acts[i], true
}

// Key returns the key of the item.
func (n Notice) Key() table.Key { return NoticeKey(n.User, n.Kind, n.Target) }

// Item encodes n. Only a listed notification is in the index.
func (n Notice) Item() table.Item {
	entries := make([]string, len(n.Acts))
	for i, act := range n.Acts {
		entries[i] = strings.Join([]string{act.Version, act.Place, act.State, act.User}, ":")
	}
	attrs := []table.Attr{str(AttrActs, strings.Join(entries, " ")), num(AttrRevision, n.Revision)}
	attrs = appendTTL(attrs, n.TTL)
	if place := n.Place(); place != "" {
		attrs = append(attrs, str(table.AttrGSI1PK, NoticesPK(n.User)), str(table.AttrGSI1SK, place))
	}
	return table.Item{Key: n.Key(), Attrs: attrs}
}

// ParseNotice decodes a notification from the table or from the index.
func ParseNotice(it table.Item) (Notice, error) {
	user, ok := userOf(it.Key.PK, noticesSuffix)
	rest, ok2 := strings.CutPrefix(it.Key.SK, SortNotice)
	kind, target, ok3 := strings.Cut(rest, "#")
	n := Notice{User: user, Kind: NoticeKind(kind), Target: target, Revision: it.Int(AttrRevision), TTL: ttlOf(it)}
	if !ok || !ok2 || !ok3 || !slices.Contains(NoticeKinds, n.Kind) || (target == "") != (n.Kind == NoticeFollow) || n.Revision < 1 {
		return Notice{}, &ParseError{it.Key, "not a notification"}
	}
	for entry := range strings.SplitSeq(it.Str(AttrActs), " ") {
		parts := strings.SplitN(entry, ":", 4)
		if len(parts) != 4 || parts[0] == "" || parts[3] == "" {
			return Notice{}, &ParseError{it.Key, "an action of the notification is cut off"}
		}
		n.Acts = append(n.Acts, Act{Version: parts[0], Place: parts[1], State: parts[2], User: parts[3]})
	}
	return n, nil
}

// NoticeMarkItem encodes a user's mark. The user has read every notification at or below the place
// (I14).
func NoticeMarkItem(user, place string) table.Item {
	return table.Item{Key: NoticeMarkKey(user), Attrs: []table.Attr{str(AttrReadTo, place)}}
}

// NoticeMark returns the place of a mark. If the user has no mark, it is nil, and NoticeMark returns
// "", which is below every place.
func NoticeMark(it *table.Item) string {
	if it == nil {
		return ""
	}
	return it.Str(AttrReadTo)
}

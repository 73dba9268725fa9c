package schema

import (
	"cmp"
	"time"

	"fanfare/internal/table"
)

// Entry is one timeline entry: a reference to a post.
type Entry struct {
	Post, Author string
	LikeShards   int
}

// EntryAttrs returns the attributes that all entries of one post share. Call EntryAttrs once for a
// post, not for each follower. ttl is the time in the post's id plus the TTL of timelines, never the
// time of writing, so that a late entry does not live longer than other entries.
func EntryAttrs(ttl time.Time, likeShards int) []table.Attr {
	return appendShards([]table.Attr{num(table.AttrTTL, ttl.Unix())}, likeShards)
}

// ParseEntry decodes a timeline entry.
func ParseEntry(it table.Item) (Entry, error) {
	post, author, ok := ParseEntrySK(it.Key.SK)
	if !ok {
		return Entry{}, &ParseError{it.Key, "not a timeline entry"}
	}
	return Entry{post, author, parseShards(it)}, nil
}

// MarkKind is the reason why a home treats an author differently.
type MarkKind string

// These constants are the kinds of home marks.
const (
	// MarkUnfollowed means that the home leaves the author out.
	MarkUnfollowed MarkKind = "unfollowed"
	// MarkBackfill means that the home merges the author's posts in until the backfill has copied the
	// posts, and then until the time Until.
	MarkBackfill MarkKind = "backfill"
	// MarkPulled means that the home always merges the author's posts in.
	MarkPulled MarkKind = "pulled"
)

// Mark is a home mark.
type Mark struct {
	User, Author string
	Kind         MarkKind
	// From is the author's lowest post id that the home shows. "" means that the home shows all its
	// entries of the author.
	From string
	// Pull is the lowest post id that is merged in. In an item without Pull, Pull has the value of From.
	Pull string
	// V is the number of the change of mode that made the mark pulled, 0 for marks of other kinds.
	V int64
	// Version is a ULID. Each change of the mark makes a new Version.
	Version string
	// FollowID is the id of the event about the follow for other programs, "" if there is no event.
	// FollowID is the first version of the mark of a backfill. FollowID stays when the version changes, so
	// that one follow has one id. Marks of other kinds have no FollowID.
	FollowID string
	// Until is the time until which homes merge in the posts of a finished backfill.
	Until time.Time
	// TTL is the time from which the mark may be deleted, zero for never.
	TTL time.Time
}

// noFollowID marks a follow without an event for other programs.
const noFollowID = "-"

// Item encodes m.
func (m Mark) Item() table.Item {
	attrs := []table.Attr{str(AttrKind, string(m.Kind)), str(AttrVersion, m.Version)}
	if m.From != "" {
		attrs = append(attrs, str(AttrFrom, m.From))
	}
	if m.Kind == MarkBackfill && m.FollowID != m.Version {
		attrs = append(attrs, str(AttrFollowID, cmp.Or(m.FollowID, noFollowID)))
	}
	if m.V != 0 {
		attrs = append(attrs, num(AttrModeV, m.V))
	}
	if m.Pull != "" && m.Pull != m.From {
		attrs = append(attrs, str(AttrPull, m.Pull))
	}
	if !m.Until.IsZero() {
		attrs = append(attrs, num(AttrUntil, m.Until.Unix()))
	}
	return table.Item{Key: MarkKey(m.User, m.Author), Attrs: appendTTL(attrs, m.TTL)}
}

// Merges reports whether homes merge the author's posts in.
func (m Mark) Merges(now time.Time) bool {
	return m.Kind == MarkPulled || m.Kind == MarkBackfill && (m.Until.IsZero() || now.Before(m.Until))
}

// Hides reports whether homes leave out the author's entry of a post.
func (m Mark) Hides(post string) bool {
	return m.Kind == MarkUnfollowed || post < m.From
}

// Pulls reports whether homes always merge the author's post in. If so, homes need no entry of the
// post.
func (m Mark) Pulls(post string) bool { return m.Kind == MarkPulled && post >= m.Pull }

// KnownMark reports whether an item of a home partition is a mark of a known kind. Readers skip other
// items, because a later version may write such items.
func KnownMark(it table.Item) bool {
	_, author := UserOfSK(it.Key.SK)
	switch MarkKind(it.Str(AttrKind)) {
	case MarkUnfollowed, MarkBackfill, MarkPulled:
		return author
	}
	return false
}

// ParseMark decodes a home mark.
func ParseMark(it table.Item) (Mark, error) {
	user, ok := userOf(it.Key.PK, "#home")
	author, ok2 := UserOfSK(it.Key.SK)
	m := Mark{User: user, Author: author, Kind: MarkKind(it.Str(AttrKind)), From: it.Str(AttrFrom), Version: it.Str(AttrVersion), TTL: ttlOf(it)}
	m.Pull, m.V = cmp.Or(it.Str(AttrPull), m.From), it.Int(AttrModeV)
	if id := cmp.Or(it.Str(AttrFollowID), m.Version); m.Kind == MarkBackfill && id != noFollowID {
		m.FollowID = id
	}
	if until := it.Int(AttrUntil); until != 0 {
		m.Until = time.Unix(until, 0).UTC()
	}
	if !ok || !ok2 || !KnownMark(it) {
		return Mark{}, &ParseError{it.Key, "not a home mark"}
	}
	return m, nil
}

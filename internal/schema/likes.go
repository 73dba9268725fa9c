package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/table"
	"fanfare/messages"
)

// Flush names one flush of one aggregator (docs/LIKES.md). The zero Flush means no flush.
type Flush struct {
	// Inc is the aggregator's incarnation, 11 characters without '#'.
	Inc string
	// Seq grows with each flush of the incarnation for the post, from 1.
	Seq int64
}

func (f Flush) String() string { return f.Inc + "#" + strconv.FormatInt(f.Seq, 10) }

// ParseFlush is the reverse of Flush.String.
func ParseFlush(s string) (Flush, error) {
	inc, num, ok := strings.Cut(s, "#")
	seq, err := strconv.ParseInt(num, 10, 64)
	if !ok || inc == "" || err != nil || seq < 1 {
		return Flush{}, fmt.Errorf("%q does not name a flush", s)
	}
	return Flush{inc, seq}, nil
}

// KindLike is the kind of reaction that every system has. An item without a kind has this kind.
const KindLike = "like"

// Like is a user's latest applied action on a post: a reaction of some kind, or no reaction. A repost that counts is also a
// Like: its User is messages.Reposter, and its Kind messages.KindRepost.
type Like struct {
	Post, User string
	// Kind is the user's reaction, "" for no reaction. Version is the ULID of the action that set Kind.
	Kind    string
	Version string
	// Flush is the flush that counts this state. Base is the kind for which the user was counted before
	// Flush, "" for no kind.
	Flush Flush
	Base  string
	// TTL is the time from which the item may be deleted, zero for never. If the post has no end, only an
	// uncounted item without a reaction has a TTL.
	TTL time.Time
	// LikeShards is the post's number of like shards. The item's key depends on LikeShards.
	LikeShards int
	// Indexed means that the item is in the index of the user's likes.
	Indexed bool
}

// Item encodes l. Only an item with a reaction of a user is in the index of the user's likes.
func (l Like) Item() table.Item {
	attrs := []table.Attr{
		num(AttrState, bit(l.Kind != "")), str(AttrVersion, l.Version),
		str(AttrFlush, l.Flush.String()), num(AttrBase, bit(l.Base != "")),
	}
	attrs = appendKind(attrs, AttrReaction, l.Kind)
	attrs = appendKind(attrs, AttrBaseReaction, l.Base)
	attrs = appendTTL(attrs, l.TTL)
	if l.Indexed && l.Kind != "" && !messages.IsReposter(l.User) {
		attrs = append(attrs, str(table.AttrGSI1PK, UserLikesPK(l.User)), str(table.AttrGSI1SK, PostSK(l.Post)))
	}
	return table.Item{Key: LikeKey(l.Post, l.User, l.LikeShards), Attrs: attrs}
}

// ParseLike decodes a like. LikeShards is not stored and stays 0.
func ParseLike(it table.Item) (Like, error) {
	rest, ok := strings.CutPrefix(it.Key.PK, "p#")
	post, _, ok2 := strings.Cut(rest, "#likelist")
	user, ok3 := UserOfSK(it.Key.SK)
	if !ok || !ok2 || !ok3 {
		return Like{}, &ParseError{it.Key, "not a like"}
	}
	flush, err := ParseFlush(it.Str(AttrFlush))
	if err != nil {
		return Like{}, &ParseError{it.Key, err.Error()}
	}
	return Like{
		Post: post, User: user, Kind: kindOf(it, AttrState, AttrReaction), Version: it.Str(AttrVersion),
		Flush: flush, Base: kindOf(it, AttrBase, AttrBaseReaction), Indexed: table.InIndex(&it), TTL: ttlOf(it),
	}, nil
}

// LikeAttrs returns the attributes from which ParseLike takes the user's reaction.
func LikeAttrs() []string { return []string{AttrState, AttrReaction, AttrVersion, AttrFlush} }

func appendKind(attrs []table.Attr, name, kind string) []table.Attr {
	if kind == "" || kind == KindLike {
		return attrs
	}
	return append(attrs, str(name, kind))
}

// kindOf returns the kind of the reaction that the attributes state and name hold, "" for no reaction.
func kindOf(it table.Item, state, name string) string {
	if it.Int(state) == 0 {
		return ""
	}
	return cmp.Or(it.Str(name), KindLike)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// LikeCount has a post's counts of reactions and its ledger of flushes.
type LikeCount struct {
	// Kinds are the counts by kind.
	Kinds map[string]int64
	// AsOf is the time of the last flush, zero if no flush happened.
	AsOf time.Time
	// Done has the highest flushed sequence number of each incarnation. Fenced has the incarnations that
	// may not flush any more.
	Done   map[string]int64
	Fenced map[string]bool
}

// Likes returns the count of the kind like.
func (c LikeCount) Likes() int64 { return c.Kinds[KindLike] }

// CountedKey returns the key of the like with which the repost p counts.
func (p Post) CountedKey() table.Key {
	return LikeKey(p.RepostOf, messages.Reposter(p.ID), max(1, p.OfShards))
}

// Reposts returns the count of reposts for readers, which is never below 0.
func (c LikeCount) Reposts() int64 { return max(0, c.Kinds[messages.KindRepost]) }

// Shown returns the like count for readers, which is never below 0.
func (c LikeCount) Shown() int64 { return max(0, c.Likes()) }

// AttrCount returns the name of the count item's attribute for the reactions of a kind.
func AttrCount(kind string) string {
	if kind == KindLike {
		return AttrLikes
	}
	return kindPrefix + kind
}

// kindPrefix is the prefix of the names of the counts of kinds other than like.
const kindPrefix = "k"

// AttrFlushed returns the name of the count item's attribute for inc's highest flushed sequence
// number.
func AttrFlushed(inc string) string { return "d" + inc }

// AttrFenced returns the name of the count item's attribute that fences inc.
func AttrFenced(inc string) string { return "x" + inc }

// LikeEnd notes that an incarnation of a like aggregator ended cleanly. After its end, the incarnation
// stamps no like and flushes no window, and all its stamps are flushed, except the stamps on the posts
// in Lost. The note stays forever, because stamps stay forever.
type LikeEnd struct {
	Inc string
	// Lost are the posts with a window that ended without a flush of the window.
	Lost map[string]bool
}

// Item encodes e.
func (e LikeEnd) Item() table.Item {
	it := table.Item{Key: LikeEndKey(e.Inc)}
	for _, post := range slices.Sorted(maps.Keys(e.Lost)) {
		it.Attrs = append(it.Attrs, num(lostPrefix+post, 1))
	}
	return it
}

// lostPrefix is the prefix of the names of the attributes that hold LikeEnd.Lost.
const lostPrefix = "l"

// ParseLikeEnd decodes the note of an incarnation's end.
func ParseLikeEnd(it table.Item) (LikeEnd, error) {
	inc, ok := strings.CutPrefix(it.Key.PK, incPrefix)
	if !ok || inc == "" || it.Key.SK != SortEnd {
		return LikeEnd{}, &ParseError{it.Key, "not the end of an incarnation"}
	}
	e := LikeEnd{Inc: inc, Lost: map[string]bool{}}
	for _, a := range it.Attrs {
		if post, ok := strings.CutPrefix(a.Name, lostPrefix); ok {
			e.Lost[post] = true
		}
	}
	return e, nil
}

// ParseLikeCount decodes a like count. If it is nil, the post has no count.
func ParseLikeCount(it *table.Item) LikeCount {
	var c LikeCount
	if it == nil {
		return c
	}
	c.Kinds, c.Done, c.Fenced = map[string]int64{}, map[string]int64{}, map[string]bool{}
	for _, a := range it.Attrs {
		switch {
		case a.Name == AttrLikes:
			c.Kinds[KindLike] = a.Value.Int()
		case strings.HasPrefix(a.Name, kindPrefix):
			c.Kinds[a.Name[len(kindPrefix):]] = a.Value.Int()
		case a.Name == AttrAsOf:
			c.AsOf = timeOf(it, AttrAsOf)
		case strings.HasPrefix(a.Name, "d"):
			c.Done[a.Name[1:]] = a.Value.Int()
		case strings.HasPrefix(a.Name, "x"):
			c.Fenced[a.Name[1:]] = true
		}
	}
	return c
}

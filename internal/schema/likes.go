package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/table"
)

// Flush names one flush of one aggregator (docs/LIKES.md). The zero Flush is none.
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

// Like is a user's latest applied action on a post.
type Like struct {
	Post, User string
	// Liked is the state, Version the ULID of the action that set it.
	Liked   bool
	Version string
	// Flush is the flush that counts this state. Base is true if the user was counted
	// before it.
	Flush Flush
	Base  bool
	// TTL is the time after which the item may be deleted, zero for never. Only an
	// item that is neither liked nor counted has one.
	TTL time.Time
	// LikeShards is the post's. The key depends on it.
	LikeShards int
	// Indexed puts the item into the index of the user's likes.
	Indexed bool
}

// Item encodes l. Only a liked item is in the index of the user's likes.
func (l Like) Item() table.Item {
	attrs := []table.Attr{
		num(AttrState, bit(l.Liked)), str(AttrVersion, l.Version),
		str(AttrFlush, l.Flush.String()), num(AttrBase, bit(l.Base)),
	}
	attrs = appendTTL(attrs, l.TTL)
	if l.Indexed && l.Liked {
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
		Post: post, User: user, Liked: it.Int(AttrState) != 0, Version: it.Str(AttrVersion),
		Flush: flush, Base: it.Int(AttrBase) != 0, Indexed: table.InIndex(&it), TTL: ttlOf(it),
	}, nil
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// LikeCount is a post's like count and its ledger of flushes.
type LikeCount struct {
	Likes int64
	// AsOf is the time of the last flush, zero for never.
	AsOf time.Time
	// Done is the highest flushed seq of each incarnation, Fenced the
	// incarnations that may not flush any more.
	Done   map[string]int64
	Fenced map[string]bool
}

// Shown is the count for readers, who never see fewer likes than none.
func (c LikeCount) Shown() int64 { return max(0, c.Likes) }

// AttrFlushed names the count item's attribute for inc's highest flushed seq.
func AttrFlushed(inc string) string { return "d" + inc }

// AttrFenced names the count item's attribute that fences inc.
func AttrFenced(inc string) string { return "x" + inc }

// LikeEnd notes that an incarnation of a like aggregator ended cleanly: it will stamp no
// like and flush no window any more, and all that it stamped is flushed, except for likes
// of the posts in Lost. It stays for good, as stamps do.
type LikeEnd struct {
	Inc string
	// Lost are the posts of which a window ended without its flush.
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

// lostPrefix begins the names of the attributes that hold LikeEnd.Lost.
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

// ParseLikeCount decodes a like count. It takes nil for a post that has none.
func ParseLikeCount(it *table.Item) LikeCount {
	var c LikeCount
	if it == nil {
		return c
	}
	c.Done, c.Fenced = map[string]int64{}, map[string]bool{}
	for _, a := range it.Attrs {
		switch {
		case a.Name == AttrLikes:
			c.Likes = a.Value.Int()
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

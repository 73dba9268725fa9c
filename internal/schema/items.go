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
)

// The item codecs. Each type has a method Item, which encodes it, and a Parse function,
// which refuses any other item. Attribute names are short where an item is billed often.
// Times are milliseconds since 1970, except that ttl has seconds.

// Names of the attributes that other packages use in conditions and updates.
const (
	AttrPosts      = "posts"     // counts: the user's living posts
	AttrFollowing  = "following" // counts: how many the user follows
	AttrLastDel    = "last"      // counts: the user's newest deleted post
	AttrN          = "n"         // a share of the follower count
	AttrDeleted    = "del"       // post by id, and posts that an earlier version deleted: 1
	AttrText       = "text"      // post, comment
	AttrName       = "name"      // profile
	AttrImageURL   = "img"       // profile, post
	AttrEditedAt   = "edited"    // post
	AttrSince      = "since"     // edge: when it was made
	AttrAuthor     = "a"         // post by id, plan: the author
	AttrLikeShards = "ls"        // post, post by id, timeline entry; absent is 1
	AttrKind       = "kind"      // mark
	AttrUntil      = "until"     // mark
	AttrFrom       = "from"      // mark, following edge, mode: the first post
	AttrPull       = "pull"      // pulled mark: the first post that is merged in, if it is not "from"
	AttrMode       = "mode"      // mode
	AttrModeV      = "v"         // mode, pulled mark: the number of the author's change of mode
	AttrWalked     = "walked"    // mode: the last follower of the mark walk so far
	AttrWalker     = "walker"    // mode: the event that the mark walk began with
	AttrWalkedAt   = "wat"       // mode: when the walk last went on
	AttrVersion    = "ver"       // mark, like
	AttrState      = "st"        // like: 1 liked, 0 not
	AttrFlush      = "f"         // like: the flush that counts it
	AttrBase       = "base"      // like: the state that was counted before that flush
	AttrLikes      = "likes"     // like count
	AttrAsOf       = "at"        // like count: when it was last flushed
	AttrEnd        = "end"       // chunk: the lowest follower after it
	AttrDone       = "done"      // chunk: when it was done
	AttrDelivered  = "n"         // chunk: entries written
	AttrAttempts   = "tries"     // plan: how often a worker began
	AttrUpto       = "upto"      // plan: the end of its summary; its other attributes are below
	AttrSumChunks  = "sc"
	AttrSumEntries = "sn"
	AttrSumDone    = "sd"
)

// ParseError is the refusal of a stored item that does not fit its key.
type ParseError struct {
	Key     table.Key
	Problem string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("schema: item %s / %s: %s", e.Key.PK, e.Key.SK, e.Problem)
}

func str(name, s string) table.Attr { return table.Attr{Name: name, Value: table.S(s)} }

func num(name string, n int64) table.Attr { return table.Attr{Name: name, Value: table.N(n)} }

func millis(name string, t time.Time) table.Attr { return num(name, t.UnixMilli()) }

func timeOf(it *table.Item, name string) time.Time {
	v := it.Get(name)
	if v.Kind() != table.KindNumber {
		return time.Time{}
	}
	return time.UnixMilli(v.Int()).UTC()
}

// userOf returns the user of a partition "u#USER" + suffix.
func userOf(pk, suffix string) (string, bool) {
	rest, ok := strings.CutPrefix(pk, "u#")
	if !ok {
		return "", false
	}
	user, ok := strings.CutSuffix(rest, suffix)
	return user, ok && user != "" && !strings.Contains(user, "#")
}

// Profile is a user's description of itself.
type Profile struct {
	User, Name, Bio, ImageURL string
	CreatedAt                 time.Time
}

// Item encodes p.
func (p Profile) Item() table.Item {
	return table.Item{Key: ProfileKey(p.User), Attrs: []table.Attr{
		str(AttrName, p.Name), str("bio", p.Bio), str(AttrImageURL, p.ImageURL), millis("created", p.CreatedAt),
	}}
}

// ParseProfile decodes a profile.
func ParseProfile(it table.Item) (Profile, error) {
	user, ok := userOf(it.Key.PK, "")
	if !ok || it.Key.SK != SortInfo {
		return Profile{}, &ParseError{it.Key, "not a profile"}
	}
	return Profile{user, it.Str(AttrName), it.Str("bio"), it.Str(AttrImageURL), timeOf(&it, "created")}, nil
}

// Counts are a user's exact counts (I4).
type Counts struct {
	Followers, Following, Posts int64
	// LastDeleted is the id of the newest post that was deleted, "" for none.
	LastDeleted string
}

// ParseUser reads the items of the partition UserPK: the profile, if there is one,
// and the counts.
func ParseUser(items []table.Item) (profile *Profile, counts Counts, err error) {
	for _, it := range items {
		switch {
		case it.Key.SK == SortInfo:
			p, err := ParseProfile(it)
			if err != nil {
				return nil, Counts{}, err
			}
			profile = &p
		case it.Key.SK == SortCount:
			counts.Posts, counts.Following, counts.LastDeleted = it.Int(AttrPosts), it.Int(AttrFollowing), it.Str(AttrLastDel)
		case strings.HasPrefix(it.Key.SK, SortCount+"#followers#"):
			counts.Followers += it.Int(AttrN)
		}
	}
	return profile, counts, nil
}

// ModeState is the stage of an author between push and pull.
type ModeState string

// The states of a mode. In all but ModePull new posts are pushed. In all but ModePush some
// followers' homes may merge the author's posts in.
const (
	ModePush      ModeState = "push"
	ModeSwitching ModeState = "switching" // a mark walk prepares the homes of all followers
	ModePull      ModeState = "pull"
	ModeLeaving   ModeState = "leaving" // a mark walk ends the marks
)

// Mode is an author's mode (docs/HYBRID.md). An author without the item is pushed.
type Mode struct {
	Author string
	State  ModeState
	// V grows by one with each change to ModeSwitching and to ModeLeaving.
	V int64
	// Since is the lowest post id that may be pulled: a ULID made at the change to
	// ModeSwitching.
	Since string
	// At is the time of that change.
	At time.Time
	// Walked is the last follower whose mark the last walk has handled, "" for
	// none. Walker is the event that began the walk, and WalkedAt the time of its last step.
	Walked, Walker string
	WalkedAt       time.Time
}

// Pulls reports whether a post that is handled now is pulled.
func (m Mode) Pulls(post string) bool { return m.State == ModePull && post >= m.Since }

// Item encodes a mode whose walk has not begun.
func (m Mode) Item() table.Item {
	return table.Item{Key: ModeKey(m.Author), Attrs: []table.Attr{
		str(AttrMode, string(m.State)), num(AttrModeV, m.V), str(AttrFrom, m.Since), millis(AttrAsOf, m.At),
	}}
}

// ParseMode finds the mode among the items of the partition UserPK.
func ParseMode(author string, items []table.Item) (Mode, error) {
	for _, it := range items {
		if it.Key != ModeKey(author) {
			continue
		}
		m := Mode{
			Author: author, State: ModeState(it.Str(AttrMode)), V: it.Int(AttrModeV), Since: it.Str(AttrFrom), At: timeOf(&it, AttrAsOf),
			Walked: it.Str(AttrWalked), Walker: it.Str(AttrWalker), WalkedAt: timeOf(&it, AttrWalkedAt),
		}
		switch m.State {
		case ModePush, ModeSwitching, ModePull, ModeLeaving:
			return m, nil
		}
		return Mode{}, &ParseError{it.Key, "not the mode of an author"}
	}
	return Mode{Author: author, State: ModePush}, nil
}

// Edge is one direction of a follow. Other is the user that its sort key names.
type Edge struct {
	Other string
	Since time.Time
	// From is the lowest post id that the follow shows; on the following edge only.
	From string
}

// FollowerItem encodes the edge under the followed author.
func FollowerItem(author, follower string, since time.Time) table.Item {
	return table.Item{Key: FollowerKey(author, follower), Attrs: []table.Attr{millis(AttrSince, since)}}
}

// FollowingItem encodes the edge under the follower.
func FollowingItem(follower, author string, since time.Time, from string) table.Item {
	return table.Item{Key: FollowingKey(follower, author), Attrs: []table.Attr{millis(AttrSince, since), str(AttrFrom, from)}}
}

// ParseEdge decodes either direction.
func ParseEdge(it table.Item) (Edge, error) {
	other, ok := UserOfSK(it.Key.SK)
	if !ok {
		return Edge{}, &ParseError{it.Key, "not an edge"}
	}
	return Edge{other, timeOf(&it, AttrSince), it.Str(AttrFrom)}, nil
}

// Post is a post.
type Post struct {
	ID, Author, Text, ImageURL string
	EditedAt                   time.Time
	LikeShards                 int
	// Deleted posts are in the list only if an earlier version deleted them.
	Deleted bool
}

// Item encodes a living post.
func (p Post) Item() table.Item {
	attrs := []table.Attr{str(AttrText, p.Text)}
	if p.ImageURL != "" {
		attrs = append(attrs, str(AttrImageURL, p.ImageURL))
	}
	if !p.EditedAt.IsZero() {
		attrs = append(attrs, millis(AttrEditedAt, p.EditedAt))
	}
	return table.Item{Key: PostKey(p.Author, p.ID), Attrs: appendShards(attrs, p.LikeShards)}
}

// ParsePost decodes a post.
func ParsePost(it table.Item) (Post, error) {
	author, ok := userOf(it.Key.PK, "#post")
	post, ok2 := PostOfSK(it.Key.SK)
	if !ok || !ok2 {
		return Post{}, &ParseError{it.Key, "not a post"}
	}
	return Post{
		ID: post, Author: author, Text: it.Str(AttrText), ImageURL: it.Str(AttrImageURL),
		EditedAt: timeOf(&it, AttrEditedAt), LikeShards: parseShards(it), Deleted: it.Int(AttrDeleted) != 0,
	}, nil
}

// PostRef is the post by id: a small item that is read before each page of a fan-out,
// and wherever the author is enough. That of a deleted post is the tombstone.
type PostRef struct {
	ID, Author string
	LikeShards int
	Deleted    bool
	// TTL is the time when a tombstone expires, zero for never.
	TTL time.Time
}

// Item encodes r. Only a living post is in the index of posts by time.
func (r PostRef) Item() table.Item {
	attrs := appendShards([]table.Attr{str(AttrAuthor, r.Author)}, r.LikeShards)
	if r.Deleted {
		attrs = append(attrs, num(AttrDeleted, 1))
	} else {
		made := PostsMadePK(StretchOf(r.ID), shardOf(r.ID, PostShards))
		attrs = append(attrs, str(table.AttrGSI1PK, made), str(table.AttrGSI1SK, PostSK(r.ID)))
	}
	return table.Item{Key: PostByIDKey(r.ID), Attrs: appendTTL(attrs, r.TTL)}
}

// ParsePostRef decodes a post by id.
func ParsePostRef(it table.Item) (PostRef, error) {
	post, ok := PostOfSK(it.Key.PK)
	if !ok || it.Key.SK != SortInfo || it.Str(AttrAuthor) == "" {
		return PostRef{}, &ParseError{it.Key, "not a post by id"}
	}
	return PostRef{post, it.Str(AttrAuthor), parseShards(it), it.Int(AttrDeleted) != 0, ttlOf(it)}, nil
}

func appendShards(attrs []table.Attr, shards int) []table.Attr {
	if shards > 1 {
		attrs = append(attrs, num(AttrLikeShards, int64(shards)))
	}
	return attrs
}

// appendTTL adds the time of expiry, unless it is zero for never.
func appendTTL(attrs []table.Attr, ttl time.Time) []table.Attr {
	if ttl.IsZero() {
		return attrs
	}
	return append(attrs, num(table.AttrTTL, ttl.Unix()))
}

func ttlOf(it table.Item) time.Time {
	if ttl := it.Get(table.AttrTTL); ttl.Kind() == table.KindNumber {
		return time.Unix(ttl.Int(), 0).UTC()
	}
	return time.Time{}
}

func parseShards(it table.Item) int { return max(1, int(it.Int(AttrLikeShards))) }

// Comment is a comment of a post.
type Comment struct{ ID, Post, Author, Text string }

// Item encodes c.
func (c Comment) Item() table.Item {
	return table.Item{Key: CommentKey(c.Post, c.ID), Attrs: []table.Attr{
		str(AttrAuthor, c.Author), str(AttrText, c.Text),
		str(table.AttrGSI1PK, UserCommentsPK(c.Author)), str(table.AttrGSI1SK, CommentSK(c.ID)),
	}}
}

// ParseComment decodes a comment, read from the table or from the index.
func ParseComment(it table.Item) (Comment, error) {
	rest, ok := strings.CutPrefix(it.Key.PK, "p#")
	post, ok2 := strings.CutSuffix(rest, "#comment")
	comment, ok3 := CommentOfSK(it.Key.SK)
	if !ok || !ok2 || !ok3 {
		return Comment{}, &ParseError{it.Key, "not a comment"}
	}
	return Comment{comment, post, it.Str(AttrAuthor), it.Str(AttrText)}, nil
}

// Flush names one flush of one aggregator (docs/LIKES.md). The zero Flush is none.
type Flush struct {
	// Inc is the aggregator's incarnation, at most 12 characters without '#'.
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

// Entry is one timeline entry: a reference to a post.
type Entry struct {
	Post, Author string
	LikeShards   int
}

// EntryAttrs returns the attributes that all entries of one post share. Call it once for
// a post, not for each follower. ttl is the time in the post's id plus the TTL of
// timelines, never the time of writing, so that a late entry does not live longer.
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

// MarkKind is the reason why a home treats an author in another way than by its entries.
type MarkKind string

// The kinds of home mark.
const (
	// MarkUnfollowed leaves the author out.
	MarkUnfollowed MarkKind = "unfollowed"
	// MarkBackfill merges the author's posts in until they have been copied, and Until.
	MarkBackfill MarkKind = "backfill"
	// MarkPulled always merges the author's posts in.
	MarkPulled MarkKind = "pulled"
)

// Mark is a home mark.
type Mark struct {
	User, Author string
	Kind         MarkKind
	// From is the lowest post id that the home shows, "" for all entries that it has.
	From string
	// Pull is the lowest post id that is merged in. In items it is absent if it is From.
	Pull string
	// V is the number of the change of mode that made the mark pulled, 0 for other kinds.
	V int64
	// Version is a ULID, new with each change.
	Version string
	// Until is the time until which the posts of a finished backfill are merged in.
	Until time.Time
	// TTL is the time after which the mark may be deleted, zero for never.
	TTL time.Time
}

// Item encodes m.
func (m Mark) Item() table.Item {
	attrs := []table.Attr{str(AttrKind, string(m.Kind)), str(AttrVersion, m.Version)}
	if m.From != "" {
		attrs = append(attrs, str(AttrFrom, m.From))
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

// KnownMark reports whether an item of a home partition is a mark of a known kind. Readers
// pass by other items, which a later version may write.
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
	m.Pull = cmp.Or(it.Str(AttrPull), m.From)
	if m.V = it.Int(AttrModeV); m.Kind == MarkPulled && m.V == 0 {
		m.Kind = MarkBackfill // a follow of an earlier version made it, of a pushed author
	}
	if until := it.Int(AttrUntil); until != 0 {
		m.Until = time.Unix(until, 0).UTC()
	}
	if !ok || !ok2 || !KnownMark(it) {
		return Mark{}, &ParseError{it.Key, "not a home mark"}
	}
	return m, nil
}

// Idempotency is the record of an Idempotency-Key.
type Idempotency struct {
	User, Key string
	// Post is the id that the key stands for, BodyHash the hash of the request's body.
	Post, BodyHash string
	// LikeShards is the post's, so that all publishes of it agree.
	LikeShards int
	TTL        time.Time
}

// Item encodes r.
func (r Idempotency) Item() table.Item {
	attrs := []table.Attr{str("post", r.Post), str("body", r.BodyHash), num(table.AttrTTL, r.TTL.Unix())}
	return table.Item{Key: IdempotencyKey(r.User, r.Key), Attrs: appendShards(attrs, r.LikeShards)}
}

// ParseIdempotency decodes the record of an Idempotency-Key.
func ParseIdempotency(it table.Item) (Idempotency, error) {
	user, ok := strings.CutPrefix(it.Key.PK, "idem#u#")
	if !ok || it.Str("post") == "" {
		return Idempotency{}, &ParseError{it.Key, "not an idempotency record"}
	}
	return Idempotency{
		User: user, Key: it.Key.SK, Post: it.Str("post"), BodyHash: it.Str("body"),
		LikeShards: parseShards(it), TTL: time.Unix(it.Int(table.AttrTTL), 0).UTC(),
	}, nil
}

// PlanPulled is the state of a plan whose post is not delivered, because homes merge the
// author's posts in.
const PlanPulled = "pulled"

// Plan is the head item of a post's delivery record.
type Plan struct {
	Post, Author string
	// Planned is the number of the author's followers when the fan-out began, plus one
	// for the author's own home.
	Planned int64
	// Started is the time when a worker began.
	Started time.Time
	// Attempts counts the times that a worker began.
	Attempts int64
	// State is "" for a fan-out that runs or ran, else the reason why there is none.
	State string
	// TTL is the time when the plan expires, zero for never.
	TTL time.Time
	// Sum is the summary of the beginning of the chain.
	Sum Chain
}

// Chain sums up a post's chain from the open start on, link by link.
type Chain struct {
	// Upto is the end of the last link, "" before the first one and at the open end.
	Upto string
	// Ended says that the last link has the open end.
	Ended bool
	// Total counts the links, Done those that are done, Delivered their entries.
	Total, Done, Delivered int64
	// Last is the time when the latest link was done.
	Last time.Time
}

// Add links a chunk if it is the next one. Any other chunk is outside the chain.
func (c *Chain) Add(link Chunk) {
	if c.Ended || link.First != c.Upto {
		return
	}
	c.Total++
	c.Upto, c.Ended = link.End, link.End == ""
	if link.Done.IsZero() {
		return
	}
	c.Done++
	c.Delivered += link.Delivered
	if link.Done.After(c.Last) {
		c.Last = link.Done
	}
}

// DeliveryKept is how long a delivery record outlives the entries of its post. A
// tombstone lives as much longer than the timeline's TTL after the deletion. That is above
// messages.MaxAge, so a consumer that handles a message finds them.
const DeliveryKept = 31 * 24 * time.Hour

// Item encodes p.
func (p Plan) Item() table.Item {
	attrs := []table.Attr{
		str(AttrAuthor, p.Author), num("planned", p.Planned), millis("started", p.Started), num(AttrAttempts, p.Attempts),
	}
	if p.State != "" {
		attrs = append(attrs, str("state", p.State))
	}
	return table.Item{Key: DeliveryPlanKey(p.Post), Attrs: appendTTL(attrs, p.TTL)}
}

// ParsePlan decodes the head of a delivery record.
func ParsePlan(it table.Item) (Plan, error) {
	post, ok := postOfDelivery(it.Key.PK)
	if !ok || it.Key.SK != SortPlan {
		return Plan{}, &ParseError{it.Key, "not a delivery plan"}
	}
	return Plan{
		Post: post, Author: it.Str(AttrAuthor), Planned: it.Int("planned"), Started: timeOf(&it, "started"),
		Attempts: it.Int(AttrAttempts), State: it.Str("state"), TTL: ttlOf(it),
		Sum: Chain{
			Upto: it.Str(AttrUpto), Total: it.Int(AttrSumChunks), Done: it.Int(AttrSumChunks),
			Delivered: it.Int(AttrSumEntries), Last: timeOf(&it, AttrSumDone),
		},
	}, nil
}

// Chunk is one link of a post's chain: a range of follower ids.
type Chunk struct {
	Post string
	// First is the lowest id of the range, "" for the open start. End is the lowest id
	// after the range, which is the next chunk's First, "" for the open end.
	First, End string
	// Done is the time of its delivery, zero before that.
	Done      time.Time
	Delivered int64
	// TTL is the time when the chunk expires, zero for never.
	TTL time.Time
}

// Item encodes c.
func (c Chunk) Item() table.Item {
	attrs := []table.Attr{str(AttrEnd, c.End)}
	if !c.Done.IsZero() {
		attrs = append(attrs, millis(AttrDone, c.Done), num(AttrDelivered, c.Delivered))
	}
	return table.Item{Key: DeliveryChunkKey(c.Post, c.First), Attrs: appendTTL(attrs, c.TTL)}
}

// ParseChunk decodes a link of a chain.
func ParseChunk(it table.Item) (Chunk, error) {
	post, ok := postOfDelivery(it.Key.PK)
	first, ok2 := strings.CutPrefix(it.Key.SK, "chunk#")
	if !ok || !ok2 {
		return Chunk{}, &ParseError{it.Key, "not a delivery chunk"}
	}
	return Chunk{
		Post: post, First: first, End: it.Str(AttrEnd), Done: timeOf(&it, AttrDone), Delivered: it.Int(AttrDelivered), TTL: ttlOf(it),
	}, nil
}

func postOfDelivery(pk string) (string, bool) {
	rest, ok := strings.CutPrefix(pk, "p#")
	post, ok2 := strings.CutSuffix(rest, "#delivery")
	return post, ok && ok2 && post != ""
}

package schema

import (
	"fmt"
	"time"

	"fanfare/internal/table"
)

// The item codecs have a file for each kind of partition. Each type has a method Item,
// which encodes it, and a Parse function, which refuses any other item. Names of attributes
// are short in items that are often billed. Times are milliseconds since 1970, except ttl,
// which has seconds.

// Names of the attributes that other packages use in conditions and updates.
const (
	AttrPosts      = "posts"     // counts: the user's living posts
	AttrFollowing  = "following" // counts: how many the user follows
	AttrLastDel    = "last"      // counts: the user's newest deleted post
	AttrN          = "n"         // a share of the follower count
	AttrDeleted    = "del"       // post by id: 1
	AttrPurged     = "purged"    // tombstone: 1 when nothing hangs on it any more
	AttrWhy        = "why"       // tombstone of a take-down: the reason
	AttrWho        = "who"       // tombstone of a take-down: the service
	AttrText       = "text"      // post, comment
	AttrName       = "name"      // profile
	AttrImageURL   = "img"       // profile, post
	AttrCreated    = "created"   // profile: when it was made
	AttrEditedAt   = "edited"    // post
	AttrPostKind   = "kd"        // post; absent for ""
	AttrData       = "data"      // post, comment, profile: custom data, as compact JSON
	AttrMentions   = "to"        // post, comment: the mentioned users, with a space between them
	AttrMentioning = "mn"        // post by id: 1 if the post mentions users
	AttrEnds       = "exp"       // post by id: the end of the post, in seconds; a post has it as its ttl
	AttrBylineName = "an"        // post: the author's name
	AttrBylineImg  = "ai"        // post: the author's image
	AttrBylineV    = "av"        // profile: its version; post: that of the profile with this name and image
	AttrComments   = "cc"        // post: its comments; absent for 0
	AttrSince      = "since"     // edge, mute, block: when it was made
	AttrBlockedBy  = "by"        // block: since when the other user blocks this one
	AttrAuthor     = "a"         // post by id, plan: the author
	AttrLikeShards = "ls"        // post, post by id, timeline entry; absent is 1
	AttrKind       = "kind"      // mark
	AttrUntil      = "until"     // mark; presence, edge under the author: the last day whose posts are pushed
	AttrUptoDay    = "upto"      // counts: no edge of the user with a lower day may be made
	AttrPresence   = "state"     // presence
	AttrGapLow     = "lo"        // presence: the first post of the gap
	AttrGapHigh    = "hi"        // presence: the first post behind the gap
	AttrFrom       = "from"      // mark, following edge, mode: the first post
	AttrPull       = "pull"      // pulled mark: the first post that is merged in, if it is not "from"
	AttrMode       = "mode"      // mode
	AttrModeV      = "v"         // mode, pulled mark: the number of the author's change of mode; presence: of the return
	AttrWalked     = "walked"    // mode: the last follower of the mark walk so far
	AttrWalker     = "walker"    // mode: the event that the mark walk began with
	AttrWalkedAt   = "wat"       // mode: when the walk last went on
	AttrVersion    = "ver"       // mark, like, bookmark by its post
	AttrFollowID   = "fo"        // mark of a backfill: the id of the follow, if it is not "ver", or noFollowID
	AttrState      = "st"        // like: 1 a reaction, 0 none
	AttrReaction   = "k"         // like: the kind of its state; absent is like
	AttrFlush      = "f"         // like: the flush that counts it
	AttrBase       = "base"      // like: the state that was counted before that flush
	AttrLikes      = "likes"     // like count; the counts of other kinds have names of their own
	AttrAsOf       = "at"        // like count: when it was last flushed; presence: when the last return ended; removal, and a profile after one: when the former profile went; read marker: when it moved; tombstone: when the post was taken down
	AttrPosition   = "pos"       // read marker: the position
	AttrEvent      = "e"         // removal, and a profile after one: the newest event that asked for it
	AttrAfter      = "after"     // profile: an id above all of the user's former lives
	AttrEdgeV      = "v"         // following edge of an import: the time in whose place it stands
	AttrKeyPost    = "post"      // idempotency key, bookmark: the post that it stands for
	AttrFixed      = "fix"       // counts, follower and like count: the last repair
	AttrEnd        = "end"       // chunk: the lowest follower after it
	AttrDone       = "done"      // chunk: when it was done
	AttrDelivered  = "n"         // chunk: entries written
	AttrSkipped    = "skip"      // chunk: followers that were away
	AttrAttempts   = "tries"     // plan: how often a worker began
	AttrActs       = "w"         // notification: its newest actions
	AttrRevision   = "r"         // notification: the number of its writes
	AttrReadTo     = "place"     // mark of notifications: the highest place that is read
	AttrUpto       = "upto"      // plan: the end of its summary; its other attributes are below
	AttrSumChunks  = "sc"
	AttrSumEntries = "sn"
	AttrSumSkipped = "ss"
	AttrSumDone    = "sd"
	// AttrBaseReaction is the kind of AttrBase; absent is like.
	AttrBaseReaction = "bk"
)

// ParseError means that a stored item does not fit its key.
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

func appendShards(attrs []table.Attr, shards int) []table.Attr {
	if shards > 1 {
		attrs = append(attrs, num(AttrLikeShards, int64(shards)))
	}
	return attrs
}

// appendTTL adds the time of expiry, unless the time is zero for never.
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

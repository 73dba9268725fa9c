package schema

import (
	"fmt"
	"time"

	"fanfare/internal/table"
)

// Each kind of partition has a file with its item codecs. Each type has a method Item, which encodes a
// value, and a Parse function, which refuses items of other types. Names of attributes are short in
// items that are often billed. Times are milliseconds since 1970, except ttl, which is in seconds.

// These constants are names of attributes that other packages use in conditions and updates.
const (
	AttrPosts      = "posts"     // counts: the user's living posts
	AttrFollowing  = "following" // counts: the number of users that the user follows
	AttrLastDel    = "last"      // counts: the user's newest deleted post
	AttrN          = "n"         // a share of the follower count
	AttrDeleted    = "del"       // post by id, change of a deletion: 1
	AttrPurged     = "purged"    // tombstone: 1 once the purge has removed all that belonged to the post
	AttrUnmade     = "um"        // tombstone: 1 if the author deleted the id before a post was made
	AttrWhy        = "why"       // tombstone of a take-down: the reason
	AttrWho        = "who"       // tombstone of a take-down: the service
	AttrText       = "text"      // post, comment
	AttrName       = "name"      // profile
	AttrImageURL   = "img"       // profile
	AttrImages     = "imgs"      // post: its images, as compact JSON
	AttrCreated    = "created"   // profile: the time of creation
	AttrEditedAt   = "edited"    // post
	AttrPostKind   = "kd"        // post; absent for ""
	AttrData       = "data"      // post, comment, profile: custom data, as compact JSON
	AttrMentions   = "to"        // post, comment: the mentioned users, with a space between them
	AttrReferred   = "rf"        // post by id: 1 from before the first repost or quote of the post on; change of such a post
	AttrRepostOf   = "ro"        // repost: the original, its author and its like shards; post by id: the original
	AttrQuoteOf    = "qo"        // post: the quoted post, its author and its like shards
	AttrMentioning = "mn"        // post by id: 1 if the post mentions users
	AttrEnds       = "exp"       // post by id: the end of the post, in seconds; in a post, ttl is the end
	AttrBylineName = "an"        // post: the author's name
	AttrBylineImg  = "ai"        // post: the author's image
	AttrBylineV    = "av"        // profile: its version; post: the version of the profile with this name and image
	AttrComments   = "cc"        // post: the number of comments; absent for 0
	AttrSince      = "since"     // edge, mute, block: the time of creation
	AttrBlockedBy  = "by"        // block: the time since which the other user blocks this user
	AttrAuthor     = "a"         // post by id, plan, change: the author
	AttrLikeShards = "ls"        // post, post by id, timeline entry; absent is 1
	AttrKind       = "kind"      // mark
	AttrUntil      = "until"     // mark; presence, edge under the author: the last day whose posts are pushed
	AttrUptoDay    = "upto"      // counts: the lowest day that a new edge of the user may have
	AttrPresence   = "state"     // presence
	AttrGapLow     = "lo"        // presence: the first post of the gap
	AttrGapHigh    = "hi"        // presence: the first post after the gap
	AttrFrom       = "from"      // mark, following edge, mode: the first post
	AttrPull       = "pull"      // pulled mark: the first post that is merged in, if it differs from "from"
	AttrMode       = "mode"      // mode
	AttrModeV      = "v"         // mode, pulled mark: the number of the author's change of mode; presence: the number of the return
	AttrWalked     = "walked"    // mode: the last follower of the mark walk so far
	AttrWalker     = "walker"    // mode: the event that began the mark walk
	AttrWalkedAt   = "wat"       // mode: the time of the walk's last step
	AttrVersion    = "ver"       // mark, like, bookmark by its post
	AttrSilent     = "sil"       // edge: 1 if the follow is silent; share of the follower count: the number of silent followers
	AttrFollowID   = "fo"        // mark of a backfill: the id of the follow, if it differs from "ver", or noFollowID
	AttrState      = "st"        // like: 1 for a reaction, 0 for no reaction
	AttrReaction   = "k"         // like: the kind of its state; absent means like
	AttrFlush      = "f"         // like: the flush that counts it
	AttrBase       = "base"      // like: the state that was counted before the flush "f"
	AttrLikes      = "likes"     // like count: the number of likes; the counts of other kinds have other names
	AttrAsOf       = "at"        // like count: the last flush; presence: the end of the last return; removal, and a profile after a removal: the deletion of the former profile; read marker: the last move; tombstone: the take-down
	AttrPosition   = "pos"       // read marker: the position
	AttrEvent      = "e"         // removal, and a profile after a removal: the newest event that requested the removal
	AttrAfter      = "after"     // profile: an id above all of the user's former lives
	AttrEdgeV      = "v"         // following edge of an import: the time of the version, in place of "since"
	AttrKeyPost    = "post"      // idempotency key, bookmark, change: the post
	AttrFixed      = "fix"       // counts, follower and like count: the last repair
	AttrEnd        = "end"       // chunk: the lowest follower after the chunk
	AttrDone       = "done"      // chunk: the time at which the chunk was done
	AttrDelivered  = "n"         // chunk: the number of written entries
	AttrSkipped    = "skip"      // chunk: the number of away followers
	AttrAttempts   = "tries"     // plan: the number of times that a worker has begun
	AttrActs       = "w"         // notification: its newest actions
	AttrRevision   = "r"         // notification: the number of its writes
	AttrReadTo     = "place"     // mark of notifications: the highest place that the user has read
	AttrUpto       = "upto"      // plan: the end of its summary; the constants below are the other attributes of the summary
	AttrSumChunks  = "sc"
	AttrSumEntries = "sn"
	AttrSumSkipped = "ss"
	AttrSumDone    = "sd"
	// AttrBaseReaction is the kind of the state AttrBase; absent means like.
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

// appendTTL adds the time of expiry, unless the time is zero, which means never.
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

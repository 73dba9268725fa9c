package schema

import (
	"fmt"
	"hash/fnv"
	"strings"

	"fanfare/internal/table"
	"fanfare/messages"
)

// This file has the keys of all items, except bookmarks and read markers: the file of an item with its
// own partition has the keys, too. docs/ACCESS_PATTERNS.md names the reads of each key. Ids have the
// grammar of package id and contain no '#', so each key has only one meaning.

// Collection returns the kind of a partition by its key: "follower" for u#ann#follower, "made" for a
// partition of the index of posts by time, "user" and "post" for the partitions of single items.
func Collection(pk string) string {
	parts := strings.Split(pk, "#")
	switch kind := parts[0]; {
	case len(parts) > 2 && (kind == "u" || kind == "p"):
		return parts[2]
	case kind == "u":
		return "user"
	case kind == "p":
		return "post"
	default:
		return kind
	}
}

// FollowerShards is the number of items that share an author's follower count, so that few concurrent
// follows of one author conflict. The number may grow, because readers add up all shares. The number
// once was 8, so a share may be negative. The sum of all shares is never negative.
const FollowerShards = 64

// SortInfo is the sort key of a profile or a post by id: the only item of its kind in its partition.
const SortInfo = "info"

// SortCount is the sort key of a user's counts of posts and following, and of a post's like count.
const SortCount = "count"

// SortCountEnd is above the sort keys of all of a user's counts. These sort keys begin with SortCount.
const SortCountEnd = SortCount + sortEnd

// sortEnd, appended to a prefix, is above every sort key with that prefix, because ids have no
// character above '|'.
const sortEnd = "~"

// UserPK returns the partition of a user's profile and counts.
func UserPK(user string) string { return "u#" + user }

// ProfileKey returns the key of a user's profile.
func ProfileKey(user string) table.Key { return table.Key{PK: UserPK(user), SK: SortInfo} }

// UserOfProfile is the reverse of ProfileKey.
func UserOfProfile(key table.Key) (user string, ok bool) {
	user, ok = strings.CutPrefix(key.PK, "u#")
	return user, ok && key.SK == SortInfo
}

// SortForgotten is the sort key of the note of a user's removal.
const SortForgotten = "forgotten"

// ForgottenKey returns the key of the note of a user's removal. The note is in the partition of the
// profile, and explains why the profile is absent.
func ForgottenKey(user string) table.Key { return table.Key{PK: UserPK(user), SK: SortForgotten} }

// CountsKey returns the key of a user's counts of posts and following.
func CountsKey(user string) table.Key { return table.Key{PK: UserPK(user), SK: SortCount} }

// ModeKey returns the key of an author's mode. The key is in the range of the counts, so one Query
// reads the counts and the mode.
func ModeKey(author string) table.Key {
	return table.Key{PK: UserPK(author), SK: SortCount + "#mode"}
}

// FollowerCountKey returns the key of the share of author's follower count that counts follower.
func FollowerCountKey(author, follower string) table.Key {
	return table.Key{PK: UserPK(author), SK: fmt.Sprintf("%s#followers#%d", SortCount, FollowerShard(follower))}
}

// FollowerCountKeys returns the keys of all shares of author's follower count.
func FollowerCountKeys(author string) []table.Key {
	keys := make([]table.Key, FollowerShards)
	for shard := range keys {
		keys[shard] = table.Key{PK: UserPK(author), SK: fmt.Sprintf("%s#followers#%d", SortCount, shard)}
	}
	return keys
}

// FollowerShard returns the number of the share that counts follower.
func FollowerShard(follower string) int { return shardOf(follower, FollowerShards) }

// FollowersPK returns the partition of author's followers. The sort keys of the partition are UserSK.
func FollowersPK(author string) string { return "u#" + author + "#follower" }

// FollowingPK returns the partition of the authors whom user follows. Its sort keys are UserSK.
func FollowingPK(user string) string { return "u#" + user + "#following" }

// UserOfFollowing is the reverse of FollowingPK.
func UserOfFollowing(pk string) (user string, ok bool) {
	if pk, ok = strings.CutPrefix(pk, "u#"); !ok {
		return "", false
	}
	return strings.CutSuffix(pk, "#following")
}

// FollowerKey returns the key of the edge under the followed author.
func FollowerKey(author, follower string) table.Key {
	return table.Key{PK: FollowersPK(author), SK: UserSK(follower)}
}

// FollowingKey returns the key of the edge under the follower.
func FollowingKey(follower, author string) table.Key {
	return table.Key{PK: FollowingPK(follower), SK: UserSK(author)}
}

// UserSK returns a sort key that names a user.
func UserSK(user string) string { return "u#" + user }

// UserOfSK is the reverse of UserSK.
func UserOfSK(sk string) (user string, ok bool) { return strings.CutPrefix(sk, "u#") }

// PostsPK returns the partition of author's posts. The sort keys of the partition are PostSK.
func PostsPK(author string) string { return "u#" + author + "#post" }

// PostKey returns the key of a post.
func PostKey(author, post string) table.Key { return table.Key{PK: PostsPK(author), SK: PostSK(post)} }

// PostSK returns a sort key that names a post.
func PostSK(post string) string { return "p#" + post }

// PostOfSK is the reverse of PostSK.
func PostOfSK(sk string) (post string, ok bool) { return strings.CutPrefix(sk, "p#") }

// PostByIDKey returns the key of the small item that has a post's author, the number of shards of the
// post's like list, and whether the post was deleted.
func PostByIDKey(post string) table.Key { return table.Key{PK: "p#" + post, SK: SortInfo} }

// PostShards is the number of index partitions over which the posts of one bucket of time
// are spread. An index partition takes 1,000 new posts a second.
const PostShards = 8

// BucketOf returns the bucket of time of a post: the first five of the ten characters of time in the
// post's id. A bucket is 2^25 ms, about nine hours.
func BucketOf(post string) string { return post[:min(len(post), 5)] }

// PostsMadePK returns the index partition of the living posts of one bucket and shard. The sort keys
// of the partition are PostSK.
func PostsMadePK(bucket string, shard int) string { return fmt.Sprintf("made#%s#%d", bucket, shard) }

// CommentsPK returns the partition of a post's comments. The sort keys of the partition are CommentSK.
func CommentsPK(post string) string { return "p#" + post + "#comment" }

// CommentKey returns the key of a comment.
func CommentKey(post, comment string) table.Key {
	return table.Key{PK: CommentsPK(post), SK: CommentSK(comment)}
}

// CommentSK returns a sort key that names a comment, in the table and in the index.
func CommentSK(comment string) string { return "c#" + comment }

// CommentOfSK is the reverse of CommentSK.
func CommentOfSK(sk string) (comment string, ok bool) { return strings.CutPrefix(sk, "c#") }

// UserCommentsPK returns the index partition of a user's comments.
func UserCommentsPK(user string) string { return "u#" + user + "#comment" }

// LikesPK returns the partition of the likes of a post by the users of one shard. If the post has one
// shard, the key has no shard number. The sort keys of the partition are UserSK.
func LikesPK(post string, shard, shards int) string {
	if shards <= 1 {
		return "p#" + post + "#likelist"
	}
	return fmt.Sprintf("p#%s#likelist#%02d", post, shard)
}

// LikeKey returns the key of a user's like of a post with the given number of like shards. The number
// is stored with the post and never changes, because all likes of a post by one user must use the same
// item (I3).
func LikeKey(post, user string, shards int) table.Key {
	return table.Key{PK: LikesPK(post, LikeShard(user, shards), shards), SK: UserSK(user)}
}

// LikeShard returns the shard of a like list that contains user.
func LikeShard(user string, shards int) int { return shardOf(user, max(1, shards)) }

// LikersEnd is the end of the sort keys of users in the likes of a post. Reposts follow.
func LikersEnd() string { return UserSK(messages.Reposter("")) }

// UserLikesPK returns the index partition of the posts that user likes. Its sort keys are PostSK.
func UserLikesPK(user string) string { return "u#" + user + "#like" }

// LikeCountKey returns the key of a post's like count with its ledger of flushes.
func LikeCountKey(post string) table.Key {
	return table.Key{PK: "p#" + post + "#likecount", SK: SortCount}
}

// LikeEndKey returns the key of the note that an incarnation of a like aggregator ended cleanly.
func LikeEndKey(inc string) table.Key { return table.Key{PK: incPrefix + inc, SK: SortEnd} }

const incPrefix = "inc#"

// SortEnd is the sort key of the note of an incarnation's end.
const SortEnd = "end"

// TimelinePK returns the partition of user's home timeline. Its sort keys are EntrySK.
func TimelinePK(user string) string { return "u#" + user + "#timeline" }

// AppendTimelinePK appends TimelinePK(user) to dst, for callers that make many keys.
func AppendTimelinePK(dst []byte, user string) []byte {
	dst = append(dst, "u#"...)
	dst = append(dst, user...)
	return append(dst, "#timeline"...)
}

// EntrySK returns the sort key of a timeline entry: the post, and then its author. So an entry needs
// only the attribute ttl.
func EntrySK(post, author string) string { return "p#" + post + "#u#" + author }

// ParseEntrySK is the reverse of EntrySK.
func ParseEntrySK(sk string) (post, author string, ok bool) {
	rest, ok := strings.CutPrefix(sk, "p#")
	if !ok {
		return "", "", false
	}
	post, author, ok = strings.Cut(rest, "#u#")
	return post, author, ok && post != "" && author != ""
}

// MarksPK returns the partition of user's home marks, whose sort keys are UserSK, and of user's
// presence.
func MarksPK(user string) string { return "u#" + user + "#home" }

// SortPresence is the sort key of a presence. It is below the keys of the marks, so the Query of the
// marks also reads the presence.
const SortPresence = "presence"

// PresenceKey returns the key of a reader's presence.
func PresenceKey(user string) table.Key { return table.Key{PK: MarksPK(user), SK: SortPresence} }

// UserOfHome is the reverse of TimelinePK and of MarksPK.
func UserOfHome(pk string) (user string, ok bool) {
	rest, ok := strings.CutPrefix(pk, "u#")
	if !ok {
		return "", false
	}
	if user, ok = strings.CutSuffix(rest, "#timeline"); ok {
		return user, true
	}
	return strings.CutSuffix(rest, "#home")
}

// MarkKey returns the key of user's home mark for author.
func MarkKey(user, author string) table.Key { return table.Key{PK: MarksPK(user), SK: UserSK(author)} }

// SortMute is the prefix of the sort keys of mutes, and SortMuteEnd is above all these sort keys.
// Mutes are in the partition of the home marks and below the marks, so the Query of the marks reads
// all mutes first.
const (
	SortMute    = "mute#"
	SortMuteEnd = SortMute + sortEnd
)

// MuteKey returns the key of user's mute of author.
func MuteKey(user, author string) table.Key { return table.Key{PK: MarksPK(user), SK: MuteSK(author)} }

// MuteSK returns the sort key of a mute of author.
func MuteSK(author string) string { return SortMute + UserSK(author) }

// MutedOfSK is the reverse of MuteSK.
func MutedOfSK(sk string) (author string, ok bool) { return strings.CutPrefix(sk, SortMute+"u#") }

// MutersPK returns the partition of the users who mute author. Its sort keys are UserSK. Only the
// removal of the author reads this partition.
func MutersPK(author string) string { return "u#" + author + "#muter" }

// MuterKey returns the key of the second item of user's mute of author.
func MuterKey(author, user string) table.Key {
	return table.Key{PK: MutersPK(author), SK: UserSK(user)}
}

// BlocksPK returns the partition of the blocks of user and by user. Its sort keys are UserSK.
func BlocksPK(user string) string { return "u#" + user + "#block" }

// BlockKey returns the key of user's side of the blocks between two users.
func BlockKey(user, other string) table.Key {
	return table.Key{PK: BlocksPK(user), SK: UserSK(other)}
}

// SortHasBlocks is the sort key of the note that a user blocked, or was blocked, at least once.
const SortHasBlocks = "blocks"

// HasBlocksKey returns the key of the note that a user blocked, or was blocked, at least once.
func HasBlocksKey(user string) table.Key { return table.Key{PK: UserPK(user), SK: SortHasBlocks} }

// noticesSuffix is the end of the key of a partition of notifications.
const noticesSuffix = "#notif"

// NoticesPK returns the partition of user's notifications and of their mark. It is also the index
// partition of the listed notifications. The sort keys in the index partition are places.
func NoticesPK(user string) string { return "u#" + user + noticesSuffix }

// UserOfNotices is the reverse of NoticesPK.
func UserOfNotices(pk string) (user string, ok bool) {
	if pk, ok = strings.CutPrefix(pk, "u#"); !ok {
		return "", false
	}
	return strings.CutSuffix(pk, noticesSuffix)
}

// SortNotice is the prefix of the sort keys of notifications.
const SortNotice = "n#"

// NoticeKey returns the key of user's notification of one kind about target. target is "" for a
// follow.
func NoticeKey(user string, kind NoticeKind, target string) table.Key {
	return table.Key{PK: NoticesPK(user), SK: SortNotice + string(kind) + "#" + target}
}

// NoticeMarkKey returns the key of the mark up to which user has read notifications.
func NoticeMarkKey(user string) table.Key { return table.Key{PK: NoticesPK(user), SK: "read"} }

// DeliveryPK returns the partition of a post's delivery record: the plan and the chunks.
func DeliveryPK(post string) string { return "p#" + post + "#delivery" }

// SortPlan is the sort key of a plan.
const SortPlan = "plan"

// DeliveryPlanKey returns the key of a post's plan.
func DeliveryPlanKey(post string) table.Key { return table.Key{PK: DeliveryPK(post), SK: SortPlan} }

// DeliveryChunkKey returns the key of the chunk that starts at first ("" for the open start).
func DeliveryChunkKey(post, first string) table.Key {
	return table.Key{PK: DeliveryPK(post), SK: ChunkSK(first)}
}

// ChunkSK returns the sort key of the chunk that starts at the follower first.
func ChunkSK(first string) string { return "chunk#" + first }

// SortChunkEnd is above the sort keys of all chunks.
const SortChunkEnd = "chunk#" + sortEnd

// BelowUser returns the end of a range of sort keys that ends before user: no key of another user lies
// between that end and UserSK(user).
func BelowUser(user string) string {
	last := len(user) - 1
	return UserSK(user[:last]) + string(user[last]-1) + sortEnd
}

// IdempotencyKey returns the key of the record of a user's Idempotency-Key. The API limits
// Idempotency-Keys to visible ASCII.
func IdempotencyKey(user, key string) table.Key { return table.Key{PK: "idem#u#" + user, SK: key} }

// shardOf spreads users over n shards by FNV-1a. shardOf is part of the stored format.
func shardOf(user string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(user)) // a hash's Write never fails
	return int(h.Sum32() % uint32(n))
}

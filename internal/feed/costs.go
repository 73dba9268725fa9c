package feed

import (
	"fanfare/internal/schema"
	"fanfare/messages"
)

// This file is the one list of the capacity units that calls cost. The rate limit counts the units that a call really
// used, and cost.later. The hour of a user counts both parts, so its part of the call itself is in the list, too.

// cost is the units of a call: of its own table calls, as in docs/ACCESS_PATTERNS.md, and of the work that follows the
// answer.
type cost struct{ own, later int64 }

const (
	// A post reads its author and writes a transaction; a worker reads the post and the author, and writes the record of the delivery.
	unitsOfPost, unitsOfDelivery = 11, 6
	// Each KB of a post counts in its transaction, and each 4 KB when a worker reads the post.
	unitsOfPostKB = 2
	// bytesOfPost is the size of the longest key, byline and numbers of a post.
	bytesOfPost = 600
	// A quote and a repost read the post that they refer to, and a block; a repost also reads and writes its binding.
	unitsOfReference = 6
	// A repost, and its end, change the count of the original: the aggregator reads and writes the part of the repost, and the count.
	unitsOfCounted = 5
	// unitsOfKey is for the record of an Idempotency-Key.
	unitsOfKey = 1
	// A follow also counts unitsOfCopy for each post that its backfill copies: for the entry, and for the
	// removal of the entry after an unfollow. The read of these posts counts twice: the call and the backfill make it.
	unitsOfFollow, unitsOfBackfill, unitsOfCopy = 18, 3, 3
	unitsOfUnfollow                             = 15
	// A comment always counts the units of the largest comment without data. A text of 5,000 characters is in
	// the table and in the index. The comment also rewrites its post, which may be as long and have data and images.
	unitsOfComment = 148
	// Each KB of data and mentions counts in a transaction and in the index.
	unitsOfCommentKB = 3
	unitsOfRename    = 6
	// unitsOfNotice is the maximum number of units of one notification, without the comment that the worker reads.
	unitsOfNotice = 8
	// After the deletion of a post a worker removes its record, and a notification for each mention. The removal of a comment is in the
	// cost of the comment.
	unitsOfPurge, unitsOfPurgedNotice, unitsOfPurgedComment = 9, 3, 3
)

// kb returns a size in started KB.
func kb(bytes int) int64 { return int64(bytes+1023) / 1024 }

// readUnits returns the units of a consistent read of a size in KB.
func readUnits(kilobytes int64) int64 { return (kilobytes + 3) / 4 }

// sizeOf returns the bytes of an item's custom values.
func sizeOf(data string, mentions []string) int {
	size := len(data)
	for _, user := range mentions {
		size += len(user) + 1
	}
	return size
}

// costOfPost returns the cost of a post that is pushed to followers. keyed means that the call has an Idempotency-Key.
func (s *Service) costOfPost(p schema.Post, followers int64, keyed bool) cost {
	size := kb(bytesOfPost + len(p.Text) + len(messages.ImagesText(p.Images)) + sizeOf(string(p.Data), p.Mentions))
	c := cost{
		own: unitsOfPost + unitsOfPostKB*(size-min(size, 1)),
		// Each page of 1,000 followers is read, and is a chunk with a record.
		later: unitsOfDelivery + readUnits(size-min(size, 1)) + followers + followers/32 + s.costOfNotices(len(p.Mentions), 0),
	}
	if p.Of() != "" {
		c.own += unitsOfReference
	}
	if p.RepostOf != "" {
		c.later += unitsOfCounted + s.costOfNotices(1, 0)
	}
	if keyed {
		c.own += unitsOfKey
	}
	return c
}

// costOfComment returns the cost of a comment, or the cost of its deletion, after which the worker also handles each notice.
func (s *Service) costOfComment(c schema.Comment) cost {
	notices := 1 + min(len(c.Mentions), schema.NoticedMentions)
	return cost{
		own:   unitsOfComment + unitsOfCommentKB*kb(sizeOf(c.Data, c.Mentions)),
		later: unitsOfPurgedComment + s.costOfNotices(notices, kb(len(c.Text)+sizeOf(c.Data, c.Mentions))),
	}
}

// costOfNotices returns the units of n notifications. commentKB is the size of the comment that each of them reads.
func (s *Service) costOfNotices(n int, commentKB int64) int64 {
	if s.cfg.Notices == nil {
		return 0
	}
	return int64(n) * (unitsOfNotice + readUnits(commentKB))
}

// costOfFollow returns the cost of a follow whose backfill has posts. read is the units of one read of these posts.
func (s *Service) costOfFollow(posts int, read int64) cost {
	return cost{own: unitsOfFollow + read, later: unitsOfBackfill + read + int64(unitsOfCopy*posts) + s.costOfNotices(1, 0)}
}

// costOfRename returns the cost of a new byline of a number of posts, whose size is in KB. The call reads the posts, and the worker
// reads and writes them.
func costOfRename(posts, kilobytes int64) cost {
	return cost{own: unitsOfRename + (kilobytes+7)/8, later: posts + kilobytes + readUnits(kilobytes)}
}

// costOfPurge returns the units that the deletion of a post with a number of mentions causes.
func costOfPurge(mentions int) int64 { return int64(unitsOfPurge + unitsOfPurgedNotice*mentions) }

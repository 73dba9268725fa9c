package audit

// Kind is a kind of damage.
type Kind string

// The kinds of damage.
const (
	// FollowHalf is a follow with one of its two edges.
	FollowHalf Kind = "follow-half"
	// HomeMark is a home mark that hides a followed author, merges an author without a follow, or
	// is missing for a pulled author.
	HomeMark Kind = "home-mark"
	// BlockHalf is a block whose two sides do not agree.
	BlockHalf Kind = "block-half"
	// UserCount is a count of posts, followers or followees that differs from the number
	// of items.
	UserCount Kind = "user-count"
	// ProfileMissing is a user with followers or followees and without a profile, who was not removed.
	ProfileMissing Kind = "profile-missing"
	// PostID is a listed post whose post by id is missing or a tombstone.
	PostID Kind = "post-id"
	// PostMissing is a living post by id without the post.
	PostMissing Kind = "post-missing"
	// EntryMissing is a delivered post without the entry in the home of a follower.
	EntryMissing Kind = "entry-missing"
	// EntryOrphan is an entry of a post that does not exist.
	EntryOrphan Kind = "entry-orphan"
	// EntryUnfollowed is an entry that shows an unfollowed author.
	EntryUnfollowed Kind = "entry-unfollowed"
	// LikeCount is a like count that differs from the likes by its ledger.
	LikeCount Kind = "like-count"
	// LikeUncounted is a post with likes that its count lacks, and that no aggregator
	// will count.
	LikeUncounted Kind = "like-uncounted"
	// LikeIndex is a like whose place in the index of likes by user is wrong.
	LikeIndex Kind = "like-index"
	// CommentIndex is a comment whose place in the index of comments by user is wrong.
	CommentIndex Kind = "comment-index"
	// NoticeIndex is a notification whose place in the user's list is wrong.
	NoticeIndex Kind = "notice-index"
	// CommentCount is a post whose number of comments differs from its comments.
	CommentCount Kind = "comment-count"
)

// advice describes the effect of each kind of damage, and its repair.
func (k Kind) advice() string {
	return map[Kind]string{
		FollowHalf:      "one of its two edges is lost: the repair makes the follow whole and backfills the home, or ends it if the user has unfollowed",
		HomeMark:        "the home shows or hides the author wrongly: the repair writes the mark again and backfills the home",
		BlockHalf:       "the two users are refused differently, or one does not see its block: the repair makes both sides say the same",
		UserCount:       "the repair adds the difference",
		ProfileMissing:  "the user cannot be seen, and no repair makes a profile: the user's next PUT /v1/me does, or restore the item from a backup; fanfare forget --unknown-ok removes the rest",
		PostID:          "reads by id fail: the repair writes the post by id, or removes a deleted post from its list",
		PostMissing:     "the text is lost, and only a backup has it: restore the item from there first, for the repair deletes the rest of the post",
		EntryMissing:    "the follower's home lacks the post: the repair writes the entry",
		EntryOrphan:     "homes pass over it: the repair deletes the entry",
		EntryUnfollowed: "the home shows the author: the repair writes the mark of an unfollow and removes the entries",
		LikeCount:       "the repair adds the difference",
		LikeUncounted:   "the aggregator died and the messages are gone, by a restore or after 30 days: the repair counts the likes",
		LikeIndex:       "the user's list of likes is wrong: the repair sets the keys of the index",
		CommentIndex:    "the user's list of comments is wrong: the repair sets the keys of the index",
		NoticeIndex:     "the user's list of notifications is wrong: the repair sets the keys of the index",
		CommentCount:    "the repair adds the difference",
	}[k]
}

// Kinds returns all kinds, in their order.
func Kinds() []Kind {
	return []Kind{
		FollowHalf, HomeMark, BlockHalf, UserCount, ProfileMissing, PostID, PostMissing,
		EntryMissing, EntryOrphan, EntryUnfollowed, LikeCount, LikeUncounted, LikeIndex, CommentIndex, NoticeIndex, CommentCount,
	}
}

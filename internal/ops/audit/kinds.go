package audit

// Kind is a kind of damage.
type Kind string

// The kinds of damage.
const (
	// FollowHalf means that a follow has only one of its two edges.
	FollowHalf Kind = "follow-half"
	// HomeMark means that a home mark hides a followed author, or merges in an author without a
	// follow, or is missing for a pulled author.
	HomeMark Kind = "home-mark"
	// BlockHalf means that the two sides of a block do not agree.
	BlockHalf Kind = "block-half"
	// UserCount means that a count of posts, followers or followees differs from the number of items.
	UserCount Kind = "user-count"
	// ProfileMissing means that a user who was not removed has followers or followees, but no profile.
	ProfileMissing Kind = "profile-missing"
	// PostID means that the post by id of a listed post is missing or a tombstone.
	PostID Kind = "post-id"
	// PostMissing means that the post of a living post by id is missing.
	PostMissing Kind = "post-missing"
	// EntryMissing means that a delivered post has no entry in the home of a follower.
	EntryMissing Kind = "entry-missing"
	// EntryOrphan means that the post of an entry does not exist.
	EntryOrphan Kind = "entry-orphan"
	// EntryUnfollowed means that an entry shows an unfollowed author.
	EntryUnfollowed Kind = "entry-unfollowed"
	// LikeCount means that a like count differs from the likes that its ledger has.
	LikeCount Kind = "like-count"
	// LikeUncounted means that the count of a post lacks likes that no aggregator will count.
	LikeUncounted Kind = "like-uncounted"
	// LikeIndex means that the place of a like in the index of likes by user is wrong.
	LikeIndex Kind = "like-index"
	// CommentIndex means that the place of a comment in the index of comments by user is wrong.
	CommentIndex Kind = "comment-index"
	// NoticeIndex means that the place of a notification in the user's list is wrong.
	NoticeIndex Kind = "notice-index"
	// CommentCount means that a post's number of comments differs from its comments.
	CommentCount Kind = "comment-count"
)

// advice returns the effect of a kind of damage, and its repair.
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

// Kinds returns all kinds in their order.
func Kinds() []Kind {
	return []Kind{
		FollowHalf, HomeMark, BlockHalf, UserCount, ProfileMissing, PostID, PostMissing,
		EntryMissing, EntryOrphan, EntryUnfollowed, LikeCount, LikeUncounted, LikeIndex, CommentIndex, NoticeIndex, CommentCount,
	}
}

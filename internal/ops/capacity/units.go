package capacity

// The units of the product, for user ids of 36 characters. Tests (TestTheEstimateHas…) compare
// each number with docs/ACCESS_PATTERNS.md, with a running fan-out and aggregator, or with the
// size of an item. Load has the rates, because they depend on the machine. The defaults of the
// rates are from docs/PERFORMANCE.md.
const (
	postWCU, postRCU         = 9, 2  // the transaction of a post, its place in the index, and the API's reads
	keyWCU                   = 1     // the record of an Idempotency-Key
	deleteWCU, deleteRCU     = 9, 2  // the deletion of a post
	followWCU, followRCU     = 12, 6 // not the first follow of a reader; one read is a page of the author's posts
	unfollowWCU, unfollowRCU = 10, 5
	backfillWCU, backfillRCU = 1, 2   // a worker's part of a follow, without the entries and the author's posts
	backfillPosts            = 100    // the maximum number of entries of a backfill
	followedRCU              = 1      // a read of a home page for each followee of the last minute
	commentWCU, commentRCU   = 6, 3   // a comment
	pollRCU                  = 2      // a poll of a home without news
	homeRCU                  = 32.5   // a home page of 20 posts
	pagePosts                = 20     // the posts of a home page
	likesByKeyRCU            = 9.5    // additional units of a home page without the index of likes by user
	followeeRCU              = 1      // the post list of a pulled followee
	likeWCU, indexWCU        = 1, 1   // the like, and its place in the index of likes by user
	likeRCU                  = 3.5    // the API's reads for a like
	countWCU, countRCU       = 1, 0.5 // the count and the read of the post for a window
	messageRequests          = 3      // requests to send, receive and delete one message without a batch
	requestMessages          = 10     // the maximum number of messages of one queue request
	inlineFollowers          = 4096   // up to this number of followers, a delivery is one chunk without a plan
	chunkFollowers           = 4000   // followers in a chunk
	planChunks               = 50     // chunks of one message to a planner
	followerBytes            = 102    // billed bytes of a follower's edge in a page
	followeeBytes            = 133    // the size of the edge on the reader's side
	returnFew                = 50     // the maximum number of entries of a return, for up to returnFollowees followees
	returnFollowees          = 100    // the maximum number of followees for returnFew
	returnMany               = 200    // the maximum number of entries of a return, for more followees
	refreshWCU               = 2      // the day in the counts and in the presence; each edge is one more
	returnWCU                = 3      // refreshWCU, and the earlier write of the presence
	refreshAhead             = 7      // the maximum number of days by which a refresh precedes the last day
	readBytes                = 4096   // bytes of a read unit

	// The stored bytes of items, with the 100 bytes that DynamoDB adds to each item. The part
	// in the index has no point-in-time recovery.
	entryBytes       = 226
	edgeBytes        = 435 // both edges of a follow
	likeBytes        = 232
	indexedLikeBytes = 630  // the like in the table, and a full copy in the index by user
	likeIndexBytes   = 315  // the copy in the index
	postBytes        = 1003 // the post with 280 characters and a byline of 80, and the indexed post by id
	postIndexBytes   = 225  // the copy of the post by id in the index
	listedPostBytes  = 450  // a post in a page of its author's list
	commentBytes     = 1150 // a comment of 280 characters in the table, and a full copy in the index by user
	commentIndexed   = 575  // the copy in the index
	recordKeptDays   = 31   // days for which a delivery record stays after the entries
	planBytes        = 222
	lastChunkBytes   = 174 // the only chunk of an inline delivery
	chunkBytes       = 245

	pollKB  = 0.5 // on the wire
	eventKB = 2   // an event of a live home on the wire

	kilobyte     = 1e3
	million      = 1e6
	gigabyte     = 1e9
	daysAMonth   = 30.4
	hoursADay    = 24
	hoursAMonth  = hoursADay * daysAMonth
	secondsADay  = 86_400
	minutesADay  = 1440
	postsShards  = 8 // shards of the index of posts by time
	partitionWCU = 1000
	partitionRCU = 3000
)

// The units of live homes, and the maximum that one user may cause. The units follow from the
// design of live homes. Tests of internal/live check the units of a stream, a tail and an opening.
const (
	streamRCU       = 0.046 // an idle stream in a second
	streamLikesRCU  = 0.21  // an idle stream in a second, with like counts each minute
	openingRCU      = 39    // the opening of a stream
	lookRCU         = 5     // a look that finds a post
	tailChangesRCU  = 0.5   // the log of changes in a second
	tailBytes       = 128   // a post in the index by time
	tailSeconds     = 3     // the newest seconds of all shards that a tail reads each second, eventually
	tailFarSeconds  = 30    // the seconds of posts that each tenth read covers
	userLikes       = 20    // likes of one user in a second in one process
	streamsAProcess = 4096
	streamsFull     = 0.7 // the maximum share of a process's streams that is in use, for the number of processes
)

// The units of notifications in their design (docs/ACCESS_PATTERNS.md). A window of actions on one
// target makes a notification, or moves a notification in the index. A move deletes the old entry of
// the index and writes a new entry.
const (
	newNoticeWCU     = 2
	laterNoticeWCU   = 3
	endedNoticeWCU   = 2        // the end of a follow
	noticeRCU        = 3        // the reads of a window: the notification, the mark and the target
	noticeActorRCU   = 0.5      // the read of an action's user, at most
	noticeRecordRCU  = 1        // additional units for a comment, or for the home mark of a follow that has ended
	noticePageRCU    = 35 + 2.5 // a page of 20 notifications, the mark, and the unread count after the page
	noticeMarkWCU    = 1
	unreadStreamRCU  = 0.025 // the unread count of an open live home in a second
	noticeBytes      = 1512  // a notification, for user ids of 36 characters, with a full copy in the index
	noticeIndexBytes = 756   // the copy in the index
	noticeDays       = 90    // FANFARE_NOTIFICATION_TTL
)

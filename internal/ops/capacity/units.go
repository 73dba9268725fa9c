package capacity

// The units of the product, with user ids of 36 characters. Tests (TestTheEstimateHas…) compare
// each with docs/ACCESS_PATTERNS.md, with a running fan-out and aggregator, or with the size of an
// item. Rates depend on the machine: they are in Load, with defaults from docs/PERFORMANCE.md.
const (
	postWCU, postRCU         = 9, 2  // the post's transaction and its place in the index, and the reads of the API before it
	keyWCU                   = 1     // the record of an Idempotency-Key
	deleteWCU, deleteRCU     = 7, 2  // the deletion of a post
	followWCU, followRCU     = 12, 6 // of a reader who follows somebody already; one of the reads is a page of the author's posts
	unfollowWCU, unfollowRCU = 10, 5
	backfillWCU, backfillRCU = 1, 2   // of a worker for a follow, beside the entries and the author's posts
	backfillPosts            = 100    // the most entries of a backfill
	followedRCU              = 1      // of a home page, for each followee of the last minute
	commentWCU, commentRCU   = 6, 3   // a comment
	pollRCU                  = 2      // a poll of a home that finds nothing
	homeRCU                  = 32.5   // a page of 20
	pagePosts                = 20     // of a home page
	likesByKeyRCU            = 9.5    // more for it without the index of likes by user
	followeeRCU              = 1      // a pulled followee's post list
	likeWCU, indexWCU        = 1, 1   // the like, and its place in the index by user
	likeRCU                  = 3.5    // the reads of the API
	countWCU, countRCU       = 1, 0.5 // of a window: the count, and a look at the post
	messageRequests          = 3      // to send, receive and delete one message alone
	requestMessages          = 10     // the most messages of one queue request
	inlineFollowers          = 4096   // up to here a delivery is one chunk, without a plan
	chunkFollowers           = 4000   // of a chunk
	planChunks               = 50     // of one message to a planner
	followerBytes            = 102    // a follower's edge, as DynamoDB bills a page of them
	followeeBytes            = 133    // the edge on the reader's side
	returnFew                = 50     // the most entries that a return writes, for a reader of up to
	returnFollowees          = 100    // so many followees,
	returnMany               = 200    // and for one of more
	refreshWCU               = 2      // the day in the counts and the presence, beside an edge each
	returnWCU                = 3      // and the presence before it
	refreshAhead             = 7      // the most days before the last one that a refresh comes
	readBytes                = 4096   // of a read unit

	// Stored, with the 100 bytes that DynamoDB adds to each item. The part in the index has no
	// point-in-time recovery.
	entryBytes       = 226
	edgeBytes        = 435 // both edges of a follow
	likeBytes        = 232
	indexedLikeBytes = 630  // in the table and, whole, in the index by user
	likeIndexBytes   = 315  // of it
	postBytes        = 1003 // the post, of 280 characters and a byline of 80, and the post by id, which is in the index
	postIndexBytes   = 225  // of it
	listedPostBytes  = 450  // a post as a page of its author's list has it
	commentBytes     = 1150 // of 280 characters, in the table and, whole, in the index by user
	commentIndexed   = 575  // of it
	recordKeptDays   = 31   // how long a delivery record outlives the entries
	planBytes        = 222
	lastChunkBytes   = 174 // the only chunk of an inline delivery
	chunkBytes       = 245

	million      = 1e6
	gigabyte     = 1e9
	daysAMonth   = 30.4
	hoursADay    = 24
	hoursAMonth  = hoursADay * daysAMonth
	secondsADay  = 86_400
	minutesADay  = 1440
	postsShards  = 8 // the index of posts by time
	partitionWCU = 1000
	partitionRCU = 3000
)

// The units of live homes, and the most that one user may cause. They follow from the design of
// live homes; tests of internal/live check the stream, the tail and the opening.
const (
	streamRCU       = 0.046 // an idle stream, in a second
	streamLikesRCU  = 0.21  // the same with like counts each minute
	openingRCU      = 39    // a stream that is opened
	lookRCU         = 5     // a look that finds a post
	tailBytes       = 128   // a post in the index by time
	tailSeconds     = 3     // read each second, of all shards, eventually,
	tailFarSeconds  = 30    // and each tenth second
	userLikes       = 20    // likes of one user in a second and process
	streamsAProcess = 4096
)

// The units of notifications, by their design (docs/ACCESS_PATTERNS.md). A window of actions on one
// target makes a notification or moves it in the index. A move deletes the old entry of the index and
// writes a new one.
const (
	newNoticeWCU     = 2
	laterNoticeWCU   = 3
	noticeRCU        = 3        // of a window: the notification, the mark, and the target
	noticeActorRCU   = 0.5      // an actor of an action, at most
	noticeCommentRCU = 1        // more for a comment
	noticePageRCU    = 35 + 2.5 // a page of 20, its mark, and the unread count after it
	noticeMarkWCU    = 1
	unreadStreamRCU  = 0.025 // the unread count of an open live home, in a second
	noticeBytes      = 1512  // with user ids of 36 characters, in the table and, whole, in the index
	noticeIndexBytes = 756   // of it
	noticeDays       = 90    // FANFARE_NOTIFICATION_TTL
)

// streamsFull is the largest share of its streams that a process uses when processes are
// counted.
const streamsFull = 0.7

package capacity

import "fmt"

// Warning is a limit that the load reaches.
type Warning struct {
	// Limit is the name of the limit. Text describes how the load affects the limit, and the remedy.
	Limit string `json:"limit"`
	Text  string `json:"text"`
}

// The names of the limits.
const (
	LimitPosts    = "posts by time"
	LimitItem     = "one post"
	LimitAuthor   = "an author's followers"
	LimitFollows  = "follows of an author"
	LimitLikes    = "likes of a post"
	LimitComments = "comments of a post"
	LimitUser     = "likes by a user"
	LimitFlight   = "messages in flight"
	LimitQuota    = "table quota"
	LimitNew      = "a new table"
	LimitCeiling  = "the table's ceiling"
	LimitStreams  = "live homes of a process"
	LimitTails    = "tails of live homes"
)

const (
	tableQuota      = 40_000 // the default quota of each kind of unit in a second
	newTableWCU     = 4000
	nearlyFull      = 0.7
	ceilingFull     = 0.8
	inFlight        = 120_000
	likeSeconds     = 1.5 // the time for which a like is in flight: one and a half windows
	hiddenSeconds   = 300 // the maximum time for which SQS hides a failed message
	itemReads       = 200 // reads of one item in a second by a process, because reads are shared
	authorPushed    = 80_000
	authorMeant     = 50_000 // the number of followers from which an author should be pulled
	authorFollows   = 500
	postComments    = 100
	likesAPartition = partitionWCU
)

// warnings returns the limits of AWS and of the product that the load reaches.
func warnings(e *Estimate) []Warning {
	out := []Warning{}
	add := func(limit string, met bool, format string, args ...any) {
		if met {
			out = append(out, Warning{limit, fmt.Sprintf(format, args...)})
		}
	}
	l, d := e.Load, e.Deployment
	perSecond := l.Users * l.Peak / secondsADay
	posts := l.PostsPerDay * perSecond
	add(LimitPosts, posts > nearlyFull*partitionWCU*postsShards, "%s posts/s at the peak; the index of posts by time takes %s: posts are throttled above it",
		Number(posts), Number(partitionWCU*postsShards))
	item := e.Tasks.API * itemReads
	add(LimitItem, item > partitionRCU, "a post on every page is read %s times a second by %s api processes, and one item serves %s RCU/s: these pages are slower, not refused",
		Number(item), Number(e.Tasks.API), Number(partitionRCU))
	hotKeys(l, e.Tasks, add)
	flight := l.LikesPerDay * perSecond * (likeSeconds + l.FailingShare*hiddenSeconds)
	add(LimitFlight, flight > inFlight/2, "%s likes in flight at the peak; SQS delivers none of a queue above %s: run fewer aggregators on smaller windows, and mend what fails",
		Number(flight), Number(inFlight))
	writes, reads := e.PeakWrites, e.PeakReads
	if d.Billing == Provisioned {
		writes, reads = writes/d.TableUse, reads/d.ReadUse
	}
	add(LimitQuota, writes > tableQuota, "the peak needs %s WCU/s, the default quota of a table is %s: have it raised", Number(writes), Number(tableQuota))
	add(LimitQuota, reads > tableQuota, "the peak needs %s RCU/s, the default quota of a table is %s: have it raised", Number(reads), Number(tableQuota))
	add(LimitNew, d.Billing == OnDemand && writes > newTableWCU, "a new table on demand takes %s WCU/s at first: warm it to %s before the start",
		Number(newTableWCU), Number(writes))
	add(LimitCeiling, d.MaxWrite > 0 && writes > ceilingFull*d.MaxWrite, "the peak of %s WCU/s is above 80 %% of --max-write %s", Number(writes), Number(d.MaxWrite))
	add(LimitCeiling, d.MaxRead > 0 && reads > ceilingFull*d.MaxRead, "the peak of %s RCU/s is above 80 %% of --max-read %s", Number(reads), Number(d.MaxRead))
	add(LimitStreams, e.Tasks.API > e.Tasks.busy, "%s live homes need %s api processes, requests need %s: a process has %s of them",
		Number(l.Users*l.Streams), Number(e.Tasks.API), Number(e.Tasks.busy), Number(streamsAProcess))
	tails := e.Tasks.API * tailOfShard(posts)
	add(LimitTails, l.Streams > 0 && tails > nearlyFull*partitionRCU,
		"the tails of %s api processes read each shard of the index of posts by time with %s RCU/s at the peak, and a shard serves %s: live homes are late above it, so run fewer and larger processes",
		Number(e.Tasks.API), Number(tails), Number(partitionRCU))
	return out
}

// hotKeys warns about one author, one post and one user, because the items of each are in one partition.
func hotKeys(l Load, t Tasks, add func(limit string, met bool, format string, args ...any)) {
	pushed := l.PushLimit == 0 || l.LargestAuthor <= l.PushLimit
	add(LimitAuthor, pushed && l.LargestAuthor > authorMeant, "a post of the author with %s followers reaches %s of them a second, so it takes %s s: set FANFARE_PUSH_LIMIT to %s",
		Number(l.LargestAuthor), Number(authorPushed), Number(l.LargestAuthor/authorPushed), Number(authorMeant))
	add(LimitFollows, l.HotFollows > authorFollows, "%s follows/s of one author; its partition takes %s until DynamoDB splits it, the rest is answered 503",
		Number(l.HotFollows), Number(authorFollows))
	likes := max(l.HotLikes, l.LikesAWindow)
	add(LimitLikes, likes > likesAPartition, "%s likes/s of one post; the like list of an author who was small takes %s, the rest waits in the queue",
		Number(likes), Number(likesAPartition))
	add(LimitComments, l.HotComments > postComments, "%s comments/s of one post; its transactions conflict above %s, the rest is answered 503",
		Number(l.HotComments), Number(postComments))
	byUser := t.API * userLikes
	add(LimitUser, l.LikesByUser && byUser > partitionWCU, "%s api processes let one user like %s times a second; the index of its likes takes %d",
		Number(t.API), Number(byUser), partitionWCU)
}

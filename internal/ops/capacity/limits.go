package capacity

import (
	"fmt"
	"strconv"
)

// Warning is a limit that the load reaches.
type Warning struct {
	// Limit is the name of the limit. Text describes how the load affects the limit, and the remedy.
	Limit string `json:"limit"`
	Text  string `json:"text"`
}

const (
	tableQuota    = 40_000 // the default quota of each kind of unit in a second
	newTableWCU   = 4000
	nearlyFull    = 0.7
	ceilingFull   = 0.8
	inFlight      = 120_000
	likeSeconds   = 1.5 // the time for which a like is in flight: one and a half windows
	hiddenSeconds = 300 // the maximum time for which SQS hides a failed message
	itemReads     = 200 // reads of one item in a second by a process, because reads are shared
	authorPushed  = 80_000
	authorMeant   = 50_000 // the number of followers from which an author should be pulled
	authorFollows = 500
	postComments  = 100
)

// warnings returns the limits of AWS and of the product that the load reaches.
func warnings(e *Estimate) []Warning {
	out := []Warning{}
	add := func(limit string, met bool, format string, numbers ...float64) {
		texts := make([]any, len(numbers))
		for i, v := range numbers {
			texts[i] = Number(v)
		}
		if met {
			out = append(out, Warning{limit, fmt.Sprintf(format, texts...)})
		}
	}
	l, d, tasks := e.Load, e.Deployment, e.Tasks
	perSecond := l.Users * l.Peak / secondsADay
	posts := l.PostsPerDay * perSecond
	add("posts by time", posts > nearlyFull*partitionWCU*postsShards, "%s posts/s at the peak; the index of posts by time takes %s: posts are throttled above it", posts, partitionWCU*postsShards)
	add("one post", tasks.API*itemReads > partitionRCU, "a post on every page is read %s times a second by %s api processes, and one item serves %s RCU/s: these pages are slower, not refused", tasks.API*itemReads, tasks.API, partitionRCU)
	// The items of one author, of one post and of one user are in one partition each.
	add("an author's followers", l.LargestAuthor > authorMeant && (l.PushLimit == 0 || l.LargestAuthor <= l.PushLimit),
		"a post of the author with %s followers reaches %s of them a second, so it takes %s s: set FANFARE_PUSH_LIMIT to %s", l.LargestAuthor, authorPushed, l.LargestAuthor/authorPushed, authorMeant)
	add("follows of an author", l.HotFollows > authorFollows, "%s follows/s of one author; its partition takes %s until DynamoDB splits it, the rest is answered 503", l.HotFollows, authorFollows)
	likes := max(l.HotLikes, l.LikesAWindow)
	add("likes of a post", likes > partitionWCU, "%s likes/s of one post; the like list of an author who was small takes %s, the rest waits in the queue", likes, partitionWCU)
	add("comments of a post", l.HotComments > postComments, "%s comments/s of one post; its transactions conflict above %s, the rest is answered 503", l.HotComments, postComments)
	add("likes by a user", l.LikesByUser && tasks.API*userLikes > partitionWCU, "%s api processes let one user like %s times a second; the index of its likes takes "+strconv.Itoa(partitionWCU), tasks.API, tasks.API*userLikes)
	flight := l.LikesPerDay * perSecond * (likeSeconds + l.FailingShare*hiddenSeconds)
	add("messages in flight", flight > inFlight/2, "%s likes in flight at the peak; SQS delivers none of a queue above %s: run fewer aggregators on smaller windows, and mend what fails", flight, inFlight)
	writes, reads := e.PeakWrites, e.PeakReads
	if d.Billing == Provisioned {
		writes, reads = writes/d.TableUse, reads/d.ReadUse
	}
	add("table quota", writes > tableQuota, "the peak needs %s WCU/s, the default quota of a table is %s: have it raised", writes, tableQuota)
	add("table quota", reads > tableQuota, "the peak needs %s RCU/s, the default quota of a table is %s: have it raised", reads, tableQuota)
	add("a new table", d.Billing == OnDemand && writes > newTableWCU, "a new table on demand takes %s WCU/s at first: warm it to %s before the start", newTableWCU, writes)
	add("the table's ceiling", d.MaxWrite > 0 && writes > ceilingFull*d.MaxWrite, "the peak of %s WCU/s is above 80 %% of --max-write %s", writes, d.MaxWrite)
	add("the table's ceiling", d.MaxRead > 0 && reads > ceilingFull*d.MaxRead, "the peak of %s RCU/s is above 80 %% of --max-read %s", reads, d.MaxRead)
	add("live homes of a process", tasks.API > tasks.busy, "%s live homes need %s api processes, requests need %s: a process has %s of them", l.Users*l.Streams, tasks.API, tasks.busy, streamsAProcess)
	tails := tasks.API * tailOfShard(posts)
	add("tails of live homes", l.Streams > 0 && tails > nearlyFull*partitionRCU,
		"the tails of %s api processes read each shard of the index of posts by time with %s RCU/s at the peak, and a shard serves %s: live homes are late above it, so run fewer and larger processes", tasks.API, tails, partitionRCU)
	return out
}

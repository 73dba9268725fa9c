package capacity

import "math"

// Row is one flow of all users in one day.
type Row struct {
	Name string `json:"name"`
	// Count is the number of things in a day: posts, deliveries, pages, and so on.
	Count  float64 `json:"per_day"`
	Writes float64 `json:"wcu_per_day"`
	Reads  float64 `json:"rcu_per_day"`
	// Requests is the number of requests to SQS. Messages is the number of messages that
	// are sent with a group id.
	Requests float64 `json:"sqs_requests_per_day"`
	Messages float64 `json:"messages_per_day"`
	// Egress is the number of gigabytes that leave AWS in a day.
	Egress float64 `json:"egress_gb_per_day"`
	// Stored is the number of gigabytes in the table and its index in the long run, and Index is the
	// index's part of Stored.
	Stored float64 `json:"stored_gb"`
	Index  float64 `json:"index_gb"`
	// api, fanout and likeagg are the CPU-seconds of each daemon.
	api, fanout, likeagg float64
}

// The names of the rows.
const (
	RowPosts     = "posts"
	RowFanOut    = "fan-out"
	RowHomes     = "homes"
	RowDeleted   = "homes: deleted posts"
	RowDeletes   = "deletes"
	RowLikes     = "likes"
	RowFollows   = "follows"
	RowFollowed  = "follows: the minute after"
	RowUnfollows = "unfollows"
	RowComments  = "comments"
	RowPolls     = "polls"
	RowReactions = "reactions"
	RowNotices   = "notifications"
	RowNoticed   = "notifications: pages"
	RowUnread    = "streams: unread"
	RowAway      = "away"
	RowStreams   = "streams: idle"
	RowArrivals  = "streams: arrivals"
	RowOpenings  = "streams: openings"
	RowTails     = "streams: tails"
)

func (r Row) plus(o Row) Row {
	return Row{
		r.Name, 0, r.Writes + o.Writes, r.Reads + o.Reads, r.Requests + o.Requests, r.Messages + o.Messages, r.Egress + o.Egress,
		r.Stored + o.Stored, r.Index + o.Index, r.api + o.api, r.fanout + o.fanout, r.likeagg + o.likeagg,
	}
}

// rows returns the flows of a day, but without the tails of live homes, which depend on the number of processes.
func rows(l Load) []Row {
	all := []Row{postRow(l), fanOutRow(l), homeRow(l)}
	for _, r := range []Row{
		deletedRow(l), deleteRow(l), likeRow(RowLikes, l, l.LikesPerDay), likeRow(RowReactions, l, l.ReactionsPerDay), followRow(l), followedRow(l),
		l.single(RowUnfollows, l.UnfollowsPerDay, Row{Writes: unfollowWCU, Reads: unfollowRCU}),
		l.single(RowComments, l.CommentsPerDay, Row{
			Writes: commentWCU, Reads: commentRCU, Stored: commentBytes * l.KeptDays / gigabyte, Index: commentIndexed * l.KeptDays / gigabyte,
		}),
		l.single(RowPolls, l.PollsPerDay, Row{Reads: pollRCU, Egress: pollKB * kilobyte / gigabyte}),
		awayRow(l),
	} {
		if r.Count > 0 {
			all = append(all, r)
		}
	}
	if l.Streams > 0 {
		all = append(all, streamRows(l)...)
	}
	if l.Notifications {
		all = append(all, noticeRows(l)...)
	}
	return all
}

const (
	kilobyte = 1e3
	pollKB   = 0.5
	eventKB  = 2 // the size of an event of a live home
)

// single returns the row of an API call. Each user makes perDay calls, and one is the cost of one call.
func (l Load) single(name string, perDay float64, one Row) Row {
	n := l.Users * perDay
	return Row{
		Name: name, Count: n, Writes: n * one.Writes, Reads: n * one.Reads, Requests: n * one.Requests, Messages: n * one.Messages,
		Egress: n * one.Egress, Stored: n * one.Stored, Index: n * one.Index, api: n / l.RequestsPerCPU,
	}
}

func postRow(l Load) Row {
	return l.single(RowPosts, l.PostsPerDay, Row{
		Writes: postWCU + keyWCU*l.KeyedShare, Reads: postRCU, Requests: messageRequests, Messages: 1,
		Stored: postBytes * l.KeptDays / gigabyte, Index: postIndexBytes * l.KeptDays / gigabyte,
	})
}

func deleteRow(l Load) Row {
	return l.single(RowDeletes, l.PostsPerDay*l.DeletedShare, Row{Writes: deleteWCU, Reads: deleteRCU, Requests: messageRequests, Messages: 1})
}

// fanOutRow returns the row of deliveries. Stored also has the edges of all follows. Followers of
// pulled authors are not read. Away readers are read and skipped.
func fanOutRow(l Load) Row {
	posts := l.Users * l.PostsPerDay * (1 - l.PulledShare)
	read := posts * l.Followers
	kept := read * (1 - l.AwayShare)
	one := delivery(l.Followers)
	return Row{
		Name: RowFanOut, Count: kept, Writes: posts*one.Writes - read*l.AwayShare, Reads: posts * one.Reads,
		Requests: posts * one.Requests, Messages: posts * one.Messages, fanout: read / l.DeliveriesPerCPU,
		Stored: posts*one.Stored*l.recordDays() + (kept*l.TimelineDays*entryBytes+l.Users*l.Followers*edgeBytes)/gigabyte,
	}
}

// delivery returns the cost of one post's fan-out. Stored has only the delivery record.
func delivery(followers float64) Row {
	// A delivery reads the post, the author's mode and all followers, and writes their entries, the
	// plan and the chunk.
	r := Row{Writes: followers + 2, Reads: 2 + pageRCU(followers), Stored: (planBytes + lastChunkBytes) / gigabyte}
	if followers <= inlineFollowers {
		return r
	}
	chunks := math.Ceil(followers / chunkFollowers)
	plans := math.Ceil(chunks / planChunks)
	pages := (chunks-1)*pageRCU(chunkFollowers) + pageRCU(followers-(chunks-1)*chunkFollowers)
	r.Writes = followers + 1 + 2*chunks // a chunk is written when it is planned and when it is done
	// The first message reads the post, the count of followers, and a page that only shows that there are more
	// followers. Planners then read all followers at half the price, and chunks read the followers again. Each
	// plan and each chunk also reads the post and the delivery record, and each chunk also reads the plan.
	// Each plan except the first reads a page of the preceding chunks, which costs two units.
	r.Reads = 1 + pageRCU(inlineFollowers) + 1 + 1.5*pages + 2*plans + 2*(plans-1) + 3*chunks
	// Chunks are sent in batches of ten, but the first chunks in batches of one, two, four and eight.
	// In the worst case each message is received and deleted in its own requests.
	r.Messages = plans + chunks
	r.Requests = 2*r.Messages + math.Min(r.Messages, plans+math.Ceil(chunks/requestMessages)+3)
	r.Stored = (planBytes + chunks*chunkBytes) / gigabyte
	return r
}

// pageRCU returns the units of a consistent read of a page of followers.
func pageRCU(followers float64) float64 {
	return math.Max(1, math.Ceil(followers*followerBytes/readBytes))
}

// homeRow returns the row of home pages. A page reads the timeline and the list of each pulled followee.
func homeRow(l Load) Row {
	one := homeRCU + math.Min(l.Followers, l.PulledShare*l.Followers*l.PostsPerDay/l.PulledPosts)*followeeRCU
	if !l.LikesByUser {
		one += likesByKeyRCU
	}
	return l.single(RowHomes, l.ReadsPerDay, Row{Reads: one, Egress: l.PageKB * kilobyte / gigabyte})
}

// deletedRow returns the row of pages that lack a deleted post. The number of deleted posts
// on a page has a binomial distribution.
func deletedRow(l Load) Row {
	pages, none, more := l.Users*l.ReadsPerDay, math.Pow(1-l.DeletedShare, pagePosts), 0.
	for missing := 1; missing <= pagePosts; missing++ {
		ways := 1. // the binomial coefficient
		for i := range missing {
			ways = ways * float64(pagePosts-i) / float64(i+1)
		}
		more += ways * math.Pow(l.DeletedShare, float64(missing)) * math.Pow(1-l.DeletedShare, float64(pagePosts-missing)) * refillRCU(missing)
	}
	return Row{Name: RowDeleted, Count: pages * (1 - none), Reads: pages * more}
}

// refillRCU returns the units of a refill of a page that lacks posts. If more than half of a
// page is missing, a refill reads 100 references and their posts.
func refillRCU(missing int) float64 {
	if missing > pagePosts/2 {
		return 120
	}
	from, price := 0, 0.
	for _, known := range [...]struct {
		missing int
		price   float64
	}{{1, 4}, {3, 8}, {5, 13}, {10, 31}} { // linear interpolation is right within half a unit
		if missing <= known.missing {
			return price + (known.price-price)*float64(missing-from)/float64(known.missing-from)
		}
		from, price = known.missing, known.price
	}
	return price
}

// likeRow returns the row of reactions of any kind, because each reaction costs as much as a like.
func likeRow(name string, l Load, perDay float64) Row {
	one := Row{
		Writes: likeWCU + countWCU/l.LikesAWindow, Reads: likeRCU + countRCU/l.LikesAWindow, Messages: 1,
		Requests: messageRequests / math.Min(requestMessages, l.LikesAWindow), Stored: likeBytes * l.KeptDays / gigabyte,
	}
	if l.LikesByUser {
		one.Writes += indexWCU
		one.Stored, one.Index = indexedLikeBytes*l.KeptDays/gigabyte, likeIndexBytes*l.KeptDays/gigabyte
	}
	r := l.single(name, perDay, one)
	r.likeagg = r.Count / l.LikesPerCPU
	return r
}

// followRow returns the row of follows: the API's part, and the backfill of a worker, which
// copies the author's newest posts as entries. Stored does not count these entries: in the
// long run they replace entries of fan-out, which fanOutRow counts.
func followRow(l Load) Row {
	copied := math.Min(backfillPosts, l.PostsPerDay*l.TimelineDays)
	page := math.Max(1, math.Ceil(copied*listedPostBytes/readBytes)) // the API and the worker each read this page
	r := l.single(RowFollows, l.FollowsPerDay, Row{
		Writes: followWCU + backfillWCU + copied, Requests: messageRequests, Messages: 1,
		Reads: followRCU - 1 + page + backfillRCU + page,
	})
	r.fanout = r.Count * copied / l.DeliveriesPerCPU
	return r
}

// followedRow returns the row of pages that are read within the minute after a follow. Such a
// page reads the new author's list.
func followedRow(l Load) Row {
	pages := l.Users * l.FollowsPerDay * l.ReadsPerDay / minutesADay
	return Row{Name: RowFollowed, Count: pages, Reads: pages * followedRCU}
}

// awayRow returns the row of readers who leave and return. Edges are dated for some days, and
// raised before these days end. A return raises the edges, reads the followees' posts and
// writes the newest posts as entries.
func awayRow(l Load) Row {
	r := Row{Name: RowAway}
	if l.AwayShare == 0 {
		return r
	}
	followees := math.Max(1, math.Ceil(l.Followers*followeeBytes/readBytes))
	refreshes := l.Users * (1 - l.AwayShare) / (l.ActiveDays - math.Min(refreshAhead, l.ActiveDays/2))
	returns := l.Users * l.AwayShare * l.ReturnsPerDay
	entries := math.Min(returnEntries(l.Followers), l.Followers*l.PostsPerDay*l.TimelineDays)
	r.Count = refreshes + returns
	r.Writes = refreshes*(l.Followers+refreshWCU) + returns*(l.Followers+returnWCU+entries)
	r.Reads = refreshes*(1+followees) + returns*(1+2*followees+l.Followers)
	r.Messages, r.Requests = r.Count, r.Count*messageRequests
	r.fanout = (r.Writes + r.Reads) / l.DeliveriesPerCPU
	r.Stored = returns * entries * l.TimelineDays * entryBytes / gigabyte
	return r
}

// returnEntries returns the maximum number of entries that a return writes.
func returnEntries(followees float64) float64 {
	if followees > returnFollowees {
		return returnMany
	}
	return returnFew
}

// streamRows returns the rows of open live homes: idle streams, arrivals of posts, and openings.
func streamRows(l Load) []Row {
	open, idle := l.Users*l.Streams, streamRCU
	if l.StreamLikes {
		idle = streamLikesRCU
	}
	arrivals, openings := open*l.Followers*l.PostsPerDay, open*l.OpeningsPerHour*hoursADay
	return []Row{
		{Name: RowStreams, Count: open, Reads: open * idle * secondsADay},
		{Name: RowArrivals, Count: arrivals, Reads: arrivals * lookRCU, Egress: arrivals * eventKB * kilobyte / gigabyte},
		{Name: RowOpenings, Count: openings, Reads: openings * openingRCU},
	}
}

// tailRow returns the row of reads of the index of posts by time. Each process with streams reads
// the newest seconds of all shards with eventual consistency. Each tenth read covers more seconds.
func tailRow(l Load, processes float64) Row {
	posts := l.Users * l.PostsPerDay / secondsADay
	return Row{Name: RowTails, Count: processes, Reads: processes * postsShards * tailOfShard(posts) * secondsADay}
}

// tailOfShard returns the units of a second with which the tail of a process reads one shard, at a number of posts a second.
func tailOfShard(posts float64) float64 {
	page := func(seconds float64) float64 { // half a page more, because the last page is not full
		return math.Max(1, posts/postsShards*seconds*tailBytes/readBytes+0.5) / 2
	}
	return 0.9*page(tailSeconds) + 0.1*page(tailFarSeconds)
}

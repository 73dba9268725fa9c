package capacity

import "math"

// Row is one flow: a day of all users.
type Row struct {
	Name string `json:"name"`
	// Count is how many there are: posts, deliveries, pages, and so on.
	Count  float64 `json:"per_day"`
	Writes float64 `json:"wcu_per_day"`
	Reads  float64 `json:"rcu_per_day"`
	// Requests are the requests to SQS. Messages are sent with a group id.
	Requests float64 `json:"sqs_requests_per_day"`
	Messages float64 `json:"messages_per_day"`
	// Egress is how many GB leave AWS in a day.
	Egress float64 `json:"egress_gb_per_day"`
	// Stored is how many GB stay in the table and its index in the long run, and Index is the index's part.
	Stored float64 `json:"stored_gb"`
	Index  float64 `json:"index_gb"`
	// CPU-seconds of each daemon.
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

// rows returns the flows of a day, except the tails of live homes, which depend on the number of
// processes.
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
	eventKB  = 2 // of a live home
)

// single returns the row of an API call: perDay of each user, each at the cost of one.
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

// fanOutRow counts deliveries, and stores the edges of all follows. Followers of pulled authors are
// not read. Away readers are read and skipped.
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

// delivery is the fan-out of one post. Stored counts only the delivery record.
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
	r.Writes = followers + 1 + 2*chunks // a chunk is written twice: stored, then marked done
	// The first message reads the post, the count of followers, and a page that only shows that there are more
	// followers. Planners then read all followers at half price, and chunks read them again. Each plan and
	// each chunk also reads the post and the delivery record. Each chunk reads the plan, too. Each plan but
	// the first reads a page of the preceding chunks, for two units.
	r.Reads = 1 + pageRCU(inlineFollowers) + 1 + 1.5*pages + 2*plans + 2*(plans-1) + 3*chunks
	// Chunks are sent in tens, the first chunks in ones, twos, fours and eights. In the worst case each
	// message is received and deleted in requests of its own.
	r.Messages = plans + chunks
	r.Requests = 2*r.Messages + math.Min(r.Messages, plans+math.Ceil(chunks/requestMessages)+3)
	r.Stored = (planBytes + chunks*chunkBytes) / gigabyte
	return r
}

// pageRCU is the price of a page of followers, read consistently.
func pageRCU(followers float64) float64 {
	return math.Max(1, math.Ceil(followers*followerBytes/readBytes))
}

// homeRow reads the page, and the list of each pulled followee.
func homeRow(l Load) Row {
	one := homeRCU + math.Min(l.Followers, l.PulledShare*l.Followers*l.PostsPerDay/l.PulledPosts)*followeeRCU
	if !l.LikesByUser {
		one += likesByKeyRCU
	}
	return l.single(RowHomes, l.ReadsPerDay, Row{Reads: one, Egress: l.PageKB * kilobyte / gigabyte})
}

// deletedRow counts the pages that lack a deleted post. The number of deleted posts on a page
// has a binomial distribution by the share of deleted posts.
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

// refillRCU is the price of a refill of a page that lacks posts. If more than half of a page
// is missing, a refill reads 100 references and their posts.
func refillRCU(missing int) float64 {
	if missing > pagePosts/2 {
		return 120
	}
	from, price := 0, 0.
	for _, known := range [...]struct {
		missing int
		price   float64
	}{{1, 4}, {3, 8}, {5, 13}, {10, 31}} { // between two of them a line is right within half a unit
		if missing <= known.missing {
			return price + (known.price-price)*float64(missing-from)/float64(known.missing-from)
		}
		from, price = known.missing, known.price
	}
	return price
}

// likeRow is the row of reactions of any kind: each has the cost of a like.
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

// followRow has the API's part and the backfill of a worker: the author's newest posts become
// entries. Stored counts them with the entries of fan-out, which they replace in the long
// run.
func followRow(l Load) Row {
	copied := math.Min(backfillPosts, l.PostsPerDay*l.TimelineDays)
	page := math.Max(1, math.Ceil(copied*listedPostBytes/readBytes)) // read by the API and by the worker
	r := l.single(RowFollows, l.FollowsPerDay, Row{
		Writes: followWCU + backfillWCU + copied, Requests: messageRequests, Messages: 1,
		Reads: followRCU - 1 + page + backfillRCU + page,
	})
	r.fanout = r.Count * copied / l.DeliveriesPerCPU
	return r
}

// followedRow counts pages within the minute after a follow, which read the new author's list.
func followedRow(l Load) Row {
	pages := l.Users * l.FollowsPerDay * l.ReadsPerDay / minutesADay
	return Row{Name: RowFollowed, Count: pages, Reads: pages * followedRCU}
}

// awayRow is the cost of readers who leave and return. Edges are dated for a time, and raised
// before that time ends. A return raises the edges, reads the followees' posts and writes the
// newest ones as entries.
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

// returnEntries is the most entries that a return writes.
func returnEntries(followees float64) float64 {
	if followees > returnFollowees {
		return returnMany
	}
	return returnFew
}

// streamRows are the open live homes: idle, with news, and opened again.
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

// tailRow is the cost of reading the index of posts by time: each process with streams reads the
// newest seconds of all shards, eventually consistent, and each tenth second more of them.
func tailRow(l Load, processes float64) Row {
	perShard := l.Users * l.PostsPerDay / secondsADay / postsShards
	page := func(seconds float64) float64 { // half a page more, as the last one is not full
		return math.Max(1, perShard*seconds*tailBytes/readBytes+0.5) / 2
	}
	tick := postsShards * (0.9*page(tailSeconds) + 0.1*page(tailFarSeconds))
	return Row{Name: RowTails, Count: processes, Reads: processes * tick * secondsADay}
}

package capacity

import (
	"math"
	"slices"
)

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
	// The work of the daemons: the API answers calls, fanout delivers entries and notices, likeagg counts likes.
	calls, deliveries, notices, likes float64
}

// plus returns r with n times the amounts of o.
func (r Row) plus(n float64, o Row) Row {
	return Row{
		r.Name, r.Count, r.Writes + n*o.Writes, r.Reads + n*o.Reads, r.Requests + n*o.Requests, r.Messages + n*o.Messages, r.Egress + n*o.Egress,
		r.Stored + n*o.Stored, r.Index + n*o.Index, r.calls + n*o.calls, r.deliveries + n*o.deliveries, r.notices + n*o.notices, r.likes + n*o.likes,
	}
}

// flow returns the row of n things, each with the amounts of one.
func flow(name string, n float64, one Row) Row { return Row{Name: name, Count: n}.plus(n, one) }

// rows returns the flows of a day, but without the tails of live homes, which depend on the number of processes.
func rows(l Load) []Row {
	stored := func(bytes float64) float64 { return bytes * l.KeptDays / gigabyte }
	like := likeCost(l)
	all := []Row{
		flow("posts", l.Users*l.PostsPerDay, Row{
			Writes: postWCU + keyWCU*l.KeyedShare, Reads: postRCU, Requests: messageRequests, Messages: 1, Stored: stored(postBytes), Index: stored(postIndexBytes), calls: 1,
		}),
		fanOutRow(l),
		flow("homes", l.Users*l.ReadsPerDay, Row{Reads: homeReads(l), Egress: l.PageKB * kilobyte / gigabyte, calls: 1}),
		deletedRow(l),
		flow("deletes", l.Users*(l.PostsPerDay*l.DeletedShare), Row{Writes: deleteWCU, Reads: deleteRCU, Requests: messageRequests, Messages: 1, calls: 1}),
		flow("likes", l.Users*l.LikesPerDay, like),
		flow("reactions", l.Users*l.ReactionsPerDay, like), // each reaction costs as much as a like
		flow("follows", l.Users*l.FollowsPerDay, followCost(l)),
		// A page that is read within the minute after a follow also reads the new author's list.
		flow("follows: the minute after", l.Users*l.FollowsPerDay*l.ReadsPerDay/minutesADay, Row{Reads: followedRCU}),
		flow("unfollows", l.Users*l.UnfollowsPerDay, Row{Writes: unfollowWCU, Reads: unfollowRCU, calls: 1}),
		flow("comments", l.Users*l.CommentsPerDay, Row{Writes: commentWCU, Reads: commentRCU, Stored: stored(commentBytes), Index: stored(commentIndexed), calls: 1}),
		flow("polls", l.Users*l.PollsPerDay, Row{Reads: pollRCU, Egress: pollKB * kilobyte / gigabyte, calls: 1}),
		awayRow(l),
	}
	all = append(all[:3], slices.DeleteFunc(all[3:], func(r Row) bool { return r.Count == 0 })...)
	if l.Streams > 0 {
		all = append(all, streamRows(l)...)
	}
	if l.Notifications {
		all = append(all, noticeRows(l)...)
	}
	return all
}

// fanOutRow returns the row of deliveries. Stored also has the edges of all follows. Followers of
// pulled authors are not read. Away readers are read and skipped.
func fanOutRow(l Load) Row {
	posts := l.Users * l.PostsPerDay * (1 - l.PulledShare)
	read := posts * l.Followers
	kept := read * (1 - l.AwayShare)
	one := delivery(l.Followers)
	r := flow("fan-out", posts, one)
	r.Count, r.deliveries = kept, read
	r.Writes -= read * l.AwayShare
	r.Stored = posts*one.Stored*l.recordDays() + (kept*l.TimelineDays*entryBytes+l.Users*l.Followers*edgeBytes)/gigabyte
	return r
}

// delivery returns the cost of one post's fan-out. Stored has only the delivery record.
func delivery(followers float64) Row {
	if followers <= inlineFollowers {
		// A delivery reads the post, the author's mode and all followers, and writes their entries, the
		// plan and the chunk.
		return Row{Writes: followers + 2, Reads: 2 + pageRCU(followers), Stored: (planBytes + lastChunkBytes) / gigabyte}
	}
	chunks := math.Ceil(followers / chunkFollowers)
	plans := math.Ceil(chunks / planChunks)
	pages := (chunks-1)*pageRCU(chunkFollowers) + pageRCU(followers-(chunks-1)*chunkFollowers)
	messages := plans + chunks
	return Row{
		Writes: followers + 1 + 2*chunks, // a chunk is written when it is planned and when it is done
		// The first message reads the post, the count of followers, and a page that only shows that there are more
		// followers. Planners then read all followers at half the price, and chunks read the followers again. Each
		// plan and each chunk also reads the post and the delivery record, and each chunk also reads the plan.
		// Each plan except the first reads a page of the preceding chunks, which costs two units.
		Reads:    1 + pageRCU(inlineFollowers) + 1 + 1.5*pages + 2*plans + 2*(plans-1) + 3*chunks,
		Messages: messages,
		// Chunks are sent in batches of ten, but the first chunks in batches of one, two, four and eight.
		// In the worst case each message is received and deleted in its own requests.
		Requests: 2*messages + math.Min(messages, plans+math.Ceil(chunks/requestMessages)+3),
		Stored:   (planBytes + chunks*chunkBytes) / gigabyte,
	}
}

// pageRCU returns the units of a consistent read of a page of followers.
func pageRCU(followers float64) float64 {
	return math.Max(1, math.Ceil(followers*followerBytes/readBytes))
}

// homeReads returns the units of a home page, which reads the timeline and the list of each pulled followee.
func homeReads(l Load) float64 {
	units := homeRCU + math.Min(l.Followers, l.PulledShare*l.Followers*l.PostsPerDay/l.PulledPosts)*followeeRCU
	if !l.LikesByUser {
		units += likesByKeyRCU
	}
	return units
}

// deletedRow returns the row of pages that lack a deleted post. The number of deleted posts
// on a page has a binomial distribution.
func deletedRow(l Load) Row {
	pages, none, more, ways := l.Users*l.ReadsPerDay, math.Pow(1-l.DeletedShare, pagePosts), 0., 1.
	for missing := 1; missing <= pagePosts; missing++ {
		ways = ways * float64(pagePosts-missing+1) / float64(missing) // the binomial coefficient
		more += ways * math.Pow(l.DeletedShare, float64(missing)) * math.Pow(1-l.DeletedShare, float64(pagePosts-missing)) * refillRCU(missing)
	}
	return Row{Name: "homes: deleted posts", Count: pages * (1 - none), Reads: pages * more}
}

// refillRCU returns the units of a refill of a page that lacks posts. If more than half of a
// page is missing, a refill reads 100 references and their posts.
func refillRCU(missing int) float64 {
	measured := [...]float64{0, 4, 6, 8, 10.5, 13, 16.6, 20.2, 23.8, 27.4, 31} // by the posts that are missing, within half a unit
	if missing < len(measured) {
		return measured[missing]
	}
	return 120
}

// likeCost returns the cost of a like, or of a reaction of another kind.
func likeCost(l Load) Row {
	one := Row{
		Writes: likeWCU + countWCU/l.LikesAWindow, Reads: likeRCU + countRCU/l.LikesAWindow, Messages: 1, calls: 1, likes: 1,
		Requests: messageRequests / math.Min(requestMessages, l.LikesAWindow), Stored: likeBytes * l.KeptDays / gigabyte,
	}
	if l.LikesByUser {
		one.Writes += indexWCU
		one.Stored, one.Index = indexedLikeBytes*l.KeptDays/gigabyte, likeIndexBytes*l.KeptDays/gigabyte
	}
	return one
}

// followCost returns the cost of a follow: the API's part, and the backfill of a worker, which
// copies the author's newest posts as entries. Stored does not count these entries: in the
// long run they replace entries of fan-out, which fanOutRow counts.
func followCost(l Load) Row {
	copied := math.Min(backfillPosts, l.PostsPerDay*l.TimelineDays)
	page := math.Max(1, math.Ceil(copied*listedPostBytes/readBytes)) // the API and the worker each read this page
	return Row{
		Writes: followWCU + backfillWCU + copied, Reads: followRCU - 1 + page + backfillRCU + page,
		Requests: messageRequests, Messages: 1, calls: 1, deliveries: copied,
	}
}

// awayRow returns the row of readers who leave and return. Edges are dated for some days, and
// raised before these days end. A return raises the edges, reads the followees' posts and
// writes the newest posts as entries.
func awayRow(l Load) Row {
	if l.AwayShare == 0 {
		return Row{}
	}
	followees := math.Max(1, math.Ceil(l.Followers*followeeBytes/readBytes))
	refreshes := l.Users * (1 - l.AwayShare) / (l.ActiveDays - math.Min(refreshAhead, l.ActiveDays/2))
	returns := l.Users * l.AwayShare * l.ReturnsPerDay
	entries := math.Min(returnEntries(l.Followers), l.Followers*l.PostsPerDay*l.TimelineDays)
	r := flow("away", refreshes+returns, Row{Messages: 1, Requests: messageRequests})
	r.Writes = refreshes*(l.Followers+refreshWCU) + returns*(l.Followers+returnWCU+entries)
	r.Reads = refreshes*(1+followees) + returns*(1+2*followees+l.Followers)
	r.deliveries = r.Writes + r.Reads
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
	arrivals := open * l.Followers * l.PostsPerDay
	return []Row{
		{Name: "streams: idle", Count: open, Reads: open * idle * secondsADay},
		{Name: "streams: arrivals", Count: arrivals, Reads: arrivals * lookRCU, Egress: arrivals * eventKB * kilobyte / gigabyte},
		flow("streams: openings", open*l.OpeningsPerHour*hoursADay, Row{Reads: openingRCU}),
	}
}

// tailRow returns the row of reads of the index of posts by time, and of the log of changes. Each process
// with streams reads the newest seconds of all shards with eventual consistency. Each tenth read covers
// more seconds.
func tailRow(l Load, processes float64) Row {
	posts := l.Users * l.PostsPerDay / secondsADay
	return Row{Name: "streams: tails", Count: processes, Reads: processes * (postsShards*tailOfShard(posts) + tailChangesRCU) * secondsADay}
}

// tailOfShard returns the units of a second with which the tail of a process reads one shard, at a number of posts a second.
func tailOfShard(posts float64) float64 {
	page := func(seconds float64) float64 { // half a page more, because the last page is not full
		return math.Max(1, posts/postsShards*seconds*tailBytes/readBytes+0.5) / 2
	}
	return 0.9*page(tailSeconds) + 0.1*page(tailFarSeconds)
}

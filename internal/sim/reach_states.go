package sim

import (
	"slices"
	"time"
)

// RareStates returns the name of each rare state.
func RareStates() []string {
	return append([]string{
		// Likes.
		"a fence lands between a put and its flush",
		"a fence comes after its aggregator died",
		"a flush is quicker than the fence",
		"a fenced flush is refused",
		"a sleeper wakes and its flush is refused",
		"a flush finds that it happened",
		"a put finds its own stamp",
		"two windows want the same like",
		"two fences stand on one post",
		"three aggregators hold open stamps of one post",
		"a window leaves its newer state to another",
		"an action follows one that was never counted",
		"a kind replaces one that another window left open",
		"an action comes after a newer one of its user",
		"a like is settled days after its stamp",
		"an incarnation ends but for a lost window",
		"an incarnation of a former day ends",
		"a window crosses midnight",
		"an aggregator dies between a put and its flush",
		"an aggregator dies between a flush and its acks",
		"no aggregator is alive",
		"a post is deleted between a put and its flush",
		"an unlike expires",
		"a like is left that the table has no capacity for",
		// Deliveries.
		"a planner meets another planner's chain",
		"a chunk lies out of the chain",
		"a delete between plan and chunk",
		"an end between two chunks",
		"two workers finish one chunk",
		"the last chunk is done before an earlier one",
		"a delivery begins again",
		"a worker dies between storing a chunk and sending it",
		"a follow lands while the author's post is delivered",
		"an unfollow lands while the author's post is delivered",
		"an entry is written after its post's delete",
		"an entry is written after the unfollow",
		"an entry is written below the follow's from",
		"a page of entries is written in part",
		// Follows.
		"a backfill loses its mark to an unfollow",
		"an unfollow and a return during a backfill",
		"a backfill comes after its mark was replaced",
		"a removal meets a new follow",
		"a late follow or unfollow is stopped by the mark",
		"a late follow or unfollow happens",
		"a backfill is asked for again",
		// Posts, comments and messages.
		"a late delete happens",
		"a post's event comes after its delete",
		"a comment meets the delete",
		"an edit meets the delete",
		"a message is received again while its first handling still runs",
		"a message is set aside while it is handled",
		"a removed message comes again as its ack was lost",
		"an event is ahead of its consumer's clock",
		"an idempotency key is bound by another try",
		"a dead letter is redriven after days",
		"a dead letter is too old for a redrive",
		"a process dies again within a minute",
		// Reads.
		"a read goes back in time",
		"a read shows a part of a transaction",
		"a batch or a page has items of two moments",
		"a read of the table is late by more than five seconds",
		"an index is late by more than a minute",
		"news are not modified",
		"news have as many posts as before, and other ones",
		"an item is read that expired two days ago",
		"a fan-out worker reads an item that expired two days ago",
		"a read finds a half of a batch that is being written",
		"a write is refused for the index alone",
		"a read of the index is refused, and the table serves",
		"a batch is refused for one of its partitions",
		"a partition that refuses reads takes a write",
		"a partition that refuses writes serves a read",
		"work that a wrong clock left is done by another worker",
	}, slices.Concat(moveStates(), noticeStates())...)
}

// leaveFor is the product's wait for a like for which the table has no capacity.
const leaveFor = 11 * time.Second

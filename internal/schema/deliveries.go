package schema

import (
	"strings"
	"time"

	"fanfare/internal/table"
)

// PlanPulled is the state of a plan whose post is not delivered, because homes merge the
// author's posts in.
const PlanPulled = "pulled"

// Plan is the head item of a post's delivery record.
type Plan struct {
	Post, Author string
	// Planned is the number of the author's followers at the beginning of the fan-out, plus one for the
	// author's own home.
	Planned int64
	// Started is the time at which the first worker began.
	Started time.Time
	// Attempts is the number of times that a worker has begun.
	Attempts int64
	// State is "" for a fan-out that runs or ran. Otherwise State is the reason why the post has no
	// fan-out.
	State string
	// TTL is the time at which the plan expires, zero for never.
	TTL time.Time
	// Sum is the summary of the beginning of the chain.
	Sum Chain
}

// Chain sums up a post's chain, chunk by chunk, from the open start on.
type Chain struct {
	// Upto is the end of the last link, "" before the first link and at the open end.
	Upto string
	// Ended means that the last link has an open end.
	Ended bool
	// Total is the number of links, and Done is the number of done links. Delivered is the number of
	// entries of the done links, and Skipped is the number of their away followers.
	Total, Done, Delivered, Skipped int64
	// Last is the time at which the latest link was done.
	Last time.Time
}

// Add links a chunk if the chunk is the next chunk of the chain. Any other chunk is outside the chain.
func (c *Chain) Add(link Chunk) {
	if c.Ended || link.First != c.Upto {
		return
	}
	c.Total++
	c.Upto, c.Ended = link.End, link.End == ""
	if link.Done.IsZero() {
		return
	}
	c.Done++
	c.Delivered += link.Delivered
	c.Skipped += link.Skipped
	if link.Done.After(c.Last) {
		c.Last = link.Done
	}
}

// DeliveryKept is the time by which a delivery record outlives the entries of its post. After a
// deletion, a tombstone lives for the timeline's TTL plus DeliveryKept. DeliveryKept is above
// messages.MaxAge, so a consumer that handles a message finds both the record and the tombstone.
const DeliveryKept = 31 * 24 * time.Hour

// Item encodes p.
func (p Plan) Item() table.Item {
	attrs := []table.Attr{
		str(AttrAuthor, p.Author), num("planned", p.Planned), millis("started", p.Started), num(AttrAttempts, p.Attempts),
	}
	if p.State != "" {
		attrs = append(attrs, str("state", p.State))
	}
	return table.Item{Key: DeliveryPlanKey(p.Post), Attrs: appendTTL(attrs, p.TTL)}
}

// ParsePlan decodes the head of a delivery record.
func ParsePlan(it table.Item) (Plan, error) {
	post, ok := postOfDelivery(it.Key.PK)
	if !ok || it.Key.SK != SortPlan {
		return Plan{}, &ParseError{it.Key, "not a delivery plan"}
	}
	return Plan{
		Post: post, Author: it.Str(AttrAuthor), Planned: it.Int("planned"), Started: timeOf(&it, "started"),
		Attempts: it.Int(AttrAttempts), State: it.Str("state"), TTL: ttlOf(it),
		Sum: Chain{
			Upto: it.Str(AttrUpto), Total: it.Int(AttrSumChunks), Done: it.Int(AttrSumChunks),
			Delivered: it.Int(AttrSumEntries), Skipped: it.Int(AttrSumSkipped), Last: timeOf(&it, AttrSumDone),
		},
	}, nil
}

// Chunk is one link of a post's chain: a range of follower ids.
type Chunk struct {
	Post string
	// First is the lowest id of the range, "" for the open start. End is the lowest id after the range, ""
	// for the open end. End equals First of the next chunk.
	First, End string
	// Done is the time at which the chunk was delivered, or zero.
	Done time.Time
	// Delivered is the number of the chunk's entries, and Skipped is the number of its away followers.
	Delivered, Skipped int64
	// TTL is the time at which the chunk expires, zero for never.
	TTL time.Time
}

// Item encodes c.
func (c Chunk) Item() table.Item {
	attrs := []table.Attr{str(AttrEnd, c.End)}
	if !c.Done.IsZero() {
		attrs = append(attrs, millis(AttrDone, c.Done), num(AttrDelivered, c.Delivered))
	}
	if c.Skipped != 0 {
		attrs = append(attrs, num(AttrSkipped, c.Skipped))
	}
	return table.Item{Key: DeliveryChunkKey(c.Post, c.First), Attrs: appendTTL(attrs, c.TTL)}
}

// ParseChunk decodes a link of a chain.
func ParseChunk(it table.Item) (Chunk, error) {
	post, ok := postOfDelivery(it.Key.PK)
	first, ok2 := strings.CutPrefix(it.Key.SK, "chunk#")
	if !ok || !ok2 {
		return Chunk{}, &ParseError{it.Key, "not a delivery chunk"}
	}
	return Chunk{
		Post: post, First: first, End: it.Str(AttrEnd), Done: timeOf(&it, AttrDone), Delivered: it.Int(AttrDelivered), Skipped: it.Int(AttrSkipped),
		TTL: ttlOf(it),
	}, nil
}

func postOfDelivery(pk string) (string, bool) {
	rest, ok := strings.CutPrefix(pk, "p#")
	post, ok2 := strings.CutSuffix(rest, "#delivery")
	return post, ok && ok2 && post != ""
}

package sim

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

var printReached = flag.Bool("reach", false, "print how many seeds came to each rare state, and fail if fewer than one of a hundred did")

// checkReached prints the number of seeds that reached each rare state.
func checkReached(t *testing.T, reached Counters) {
	t.Helper()
	for state := range reached {
		assert.Containsf(t, RareStates(), state, "%q is a rare state that RareStates does not list", state)
	}
	if !*printReached {
		return
	}
	for _, state := range RareStates() {
		t.Logf("%6d %s", reached[state], state)
		assert.GreaterOrEqualf(t, reached[state], int(*seeds/100), "seeds of %d that reached %q", *seeds, state)
	}
}

// The traces below use these ids, in the order of time. The worlds of the simulation begin in the year 2000.
const (
	postID = "00VHND4K8B0000000000000000"
	v1     = "00VHND4N1Q0000000000000000"
	v2     = "00VHND4N1R0000000000000000"
	late   = "00VHNE4N1R0000000000000000" // 17 minutes later
)

var began = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

func wrote(by string, old, now *table.Item) event {
	e := event{kind: eventWrote, by: by, old: old, now: now}
	if e.key = (table.Key{}); now != nil {
		e.key = now.Key
	} else {
		e.key = old.Key
	}
	return e
}

func refused(by string, stored, wanted *table.Item) event {
	return event{kind: eventRefused, by: by, key: wanted.Key, old: stored, now: wanted}
}

// likeItem returns the item of a like with a version, stamped by the first flush of an incarnation.
func likeItem(user, version, inc string, liked, base bool) *table.Item {
	kind := map[bool]string{true: schema.KindLike}
	return kindItem(user, version, inc, kind[liked], kind[base])
}

// kindItem is likeItem for a reaction of a kind.
func kindItem(user, version, inc, kind, base string) *table.Item {
	return new(schema.Like{Post: postID, User: user, Version: version, Flush: schema.Flush{Inc: inc, Seq: 1}, Kind: kind, Base: base}.Item())
}

// countItem returns a like count whose ledger has the given attributes.
func countItem(ledger ...string) *table.Item {
	it := table.Item{Key: schema.LikeCountKey(postID)}
	for _, name := range ledger {
		it.Attrs = append(it.Attrs, table.Attr{Name: name, Value: table.N(1)})
	}
	return &it
}

func chunkItem(first, end string, done bool) *table.Item {
	c := schema.Chunk{Post: postID, First: first, End: end}
	if done {
		c.Done = began
	}
	return new(c.Item())
}

func markItem(kind schema.MarkKind, from, version string) *table.Item {
	return new(schema.Mark{User: "ann", Author: "bob", Kind: kind, From: from, Version: version}.Item())
}

// noticeItem returns a notification of likes with an action of each user. "-" before a name means
// that the action was taken back.
func noticeItem(users ...string) *table.Item {
	n := schema.Notice{User: "ann", Kind: schema.NoticeLike, Target: postID, Revision: 1}
	for _, user := range users {
		user, back := strings.CutPrefix(user, "-")
		n.Acts = append(n.Acts, schema.Act{Version: v1, Place: v1, State: map[bool]string{false: "like"}[back], User: user})
	}
	return new(n.Item())
}

func noticed(users ...string) event { return wrote("notify-0", nil, noticeItem(users...)) }

func likeMessage(version string) messages.Event {
	return &messages.Liked{Like: messages.Like{Header: messages.Header{EventID: version}, PostID: postID, UserID: "ann"}}
}

// traces returns, for each rare state, events that lead to the state. Each trace begins after three
// aggregators have booted.
func traces() map[string][]event {
	boot := func(by string) event { return event{kind: eventBoot, by: by} }
	crash := func(by string) event { return event{kind: eventCrash, by: by} }
	deliver := func(m messages.Event) event {
		return event{kind: eventDeliver, by: "fanout-0", id: "m", message: m, clock: began}
	}
	after := func(d time.Duration, e event) event { e.at = began.Add(d); return e }
	overdue := func(e event) event { e.late = true; return e }
	ref := schema.PostRef{ID: postID, Author: "bob"}
	living := new(ref.Item())
	ref.Deleted = true
	tomb := wrote("api-0", living, new(ref.Item()))
	put := wrote("likeagg-0", nil, likeItem("ann", v1, "inc0", true, false))
	fence := wrote("likeagg-1", countItem(), countItem("xinc0"))
	plan := wrote("fanout-0", nil, new(schema.Plan{Post: postID, Author: "bob"}.Item()))
	chunk := func(first, end string) event { return wrote("fanout-0", nil, chunkItem(first, end, false)) }
	edge := new(schema.FollowerItem("bob", "ann", began))
	entry := wrote("fanout-0", nil, &table.Item{Key: table.Key{PK: schema.TimelinePK("ann"), SK: schema.EntrySK(postID, "bob")}})
	unfollowed, followed := wrote("api-0", nil, markItem(schema.MarkUnfollowed, "", v2)), wrote("api-0", nil, markItem(schema.MarkBackfill, v1, v2))
	until := &table.Item{Key: schema.MarkKey("ann", "bob"), Attrs: []table.Attr{{Name: schema.AttrUntil, Value: table.N(1)}}}
	done := &table.Item{Key: schema.DeliveryChunkKey(postID, ""), Attrs: []table.Attr{{Name: schema.AttrDone, Value: table.N(1)}}}
	flush := countItem("dinc0")
	restamp := refused("likeagg-1", likeItem("ann", v2, "inc2", true, false), likeItem("ann", v1, "inc1", true, false))
	restamp.restamp = true
	acks := crash("likeagg-0")
	acks.held = []messages.Event{likeMessage(v1)}
	edges := event{kind: eventCancelled, late: true, ops: []table.TransactOp{{Put: &table.PutInput{Item: *edge}}}, err: &table.CancelledError{}}
	removal := event{
		kind: eventCancelled, ops: []table.TransactOp{{Check: &table.CheckInput{}}},
		err: &table.CancelledError{Reasons: []table.CancelledOp{{Reason: table.CancelCondition}}},
	}
	gone := event{
		kind: eventCancelled, ops: []table.TransactOp{{Put: &table.PutInput{Item: schema.Comment{ID: v1, Post: postID}.Item()}}, {}},
		err: &table.CancelledError{Reasons: []table.CancelledOp{{}, {Reason: table.CancelCondition}}},
	}
	again, aside := deliver(nil), event{kind: eventAside, running: 1}
	again.running = 1
	read := event{kind: eventShown, key: ref.Item().Key}
	return map[string][]event{
		"a fence lands between a put and its flush":         {put, fence},
		"a fence comes after its aggregator died":           {put, crash("likeagg-0"), fence},
		"a flush is quicker than the fence":                 {refused("likeagg-1", flush, countItem("xinc0"))},
		"a fenced flush is refused":                         {refused("likeagg-0", countItem("xinc0"), flush)},
		"a sleeper wakes and its flush is refused":          {put, after(time.Second, event{kind: eventPause, by: "likeagg-0"}), refused("likeagg-0", countItem("xinc0"), flush)},
		"a flush finds that it happened":                    {refused("likeagg-0", flush, flush)},
		"a put finds its own stamp":                         {refused("likeagg-0", put.now, put.now)},
		"two windows want the same like":                    {restamp},
		"two fences stand on one post":                      {put, wrote("likeagg-2", countItem("xinc1"), countItem("xinc1", "xinc0"))},
		"three aggregators hold open stamps of one post":    {put, wrote("likeagg-1", nil, likeItem("bob", v1, "inc1", true, false)), wrote("likeagg-2", nil, likeItem("cat", v1, "inc2", true, false))},
		"a window leaves its newer state to another":        {put, fence, wrote("likeagg-1", put.now, likeItem("ann", v1, "inc1", true, false))},
		"an action follows one that was never counted":      {put, fence, wrote("likeagg-1", put.now, likeItem("ann", v2, "inc1", false, false))},
		"a kind replaces one that another window left open": {put, fence, wrote("likeagg-1", put.now, kindItem("ann", v2, "inc1", "love", ""))},
		"an action comes after a newer one of its user":     {wrote("likeagg-0", nil, likeItem("ann", v2, "inc0", true, false)), deliver(likeMessage(v1))},
		"a like is settled days after its stamp":            {put, after(48*time.Hour, wrote("likeagg-1", put.now, likeItem("ann", v2, "inc1", false, true)))},
		"an incarnation ends but for a lost window":         {wrote("likeagg-0", nil, new(schema.LikeEnd{Inc: "inc0", Lost: map[string]bool{postID: true}}.Item()))},
		"an incarnation of a former day ends":               {put, after(24*time.Hour, wrote("likeagg-0", nil, new(schema.LikeEnd{Inc: "inc0"}.Item())))},
		"a window crosses midnight":                         {after(12*time.Hour-1, put), after(12*time.Hour, wrote("likeagg-0", nil, flush))},
		"an aggregator dies between a put and its flush":    {put, crash("likeagg-0")},
		"an aggregator dies between a flush and its acks":   {put, wrote("likeagg-0", nil, flush), acks},
		"no aggregator is alive":                            {crash("likeagg-0"), crash("likeagg-1"), crash("likeagg-2")},
		"a post is deleted between a put and its flush":     {put, tomb},
		"an unlike expires":                                 {wrote("", likeItem("ann", v1, "inc0", false, false), nil)},

		"work that a wrong clock left is done by another worker": {{kind: eventAnswer, by: "fanout-1", id: "m", wrong: true}, {kind: eventAnswer, by: "fanout-0", id: "m", done: true}},
		"a process drops a notice because notifications are off": {{kind: eventDeliver, by: "notify-1", id: "m", clock: began, dropped: true}},
		"a like is left that the table has no capacity for":      {{kind: eventAnswer, by: "likeagg-0", left: leaveFor}},

		"a planner meets another planner's chain": {refused("fanout-0", chunkItem("", "c", false), chunkItem("", "b", false))},
		"a chunk lies out of the chain":           {chunk("", "c"), chunk("b", "d")},
		"a delete between plan and chunk":         {plan, chunk("", ""), tomb},
		"an end between two chunks": {
			wrote("api-0", nil, new(schema.PostRef{ID: postID, Author: "bob", End: began.Add(time.Minute)}.Item())),
			plan, chunk("", "b"), chunk("b", ""), wrote("fanout-0", chunkItem("", "b", false), chunkItem("", "b", true)),
			after(time.Hour, deliver(&messages.FanoutChunk{PostID: postID})),
		},
		"two workers finish one chunk":                           {refused("fanout-0", chunkItem("", "", true), done)},
		"the last chunk is done before an earlier one":           {plan, chunk("", "b"), chunk("b", ""), wrote("fanout-0", chunkItem("b", "", false), chunkItem("b", "", true))},
		"a delivery begins again":                                {refused("fanout-0", plan.now, plan.now)},
		"a worker dies between storing a chunk and sending it":   {boot("fanout-0"), chunk("", "b"), crash("fanout-0")},
		"a follow lands while the author's post is delivered":    {plan, chunk("", ""), wrote("api-0", nil, edge)},
		"an unfollow lands while the author's post is delivered": {plan, chunk("", ""), wrote("api-0", edge, nil)},
		"an entry is written after its post's delete":            {tomb, entry},
		"an entry is written after the unfollow":                 {unfollowed, entry},
		"an entry is written below the follow's from":            {followed, entry},
		"a page of entries is written in part":                   {{kind: eventPart, class: "batch_write timeline"}},

		"a backfill loses its mark to an unfollow":         {refused("fanout-0", unfollowed.now, until)},
		"an unfollow and a return during a backfill":       {refused("fanout-0", followed.now, until)},
		"a backfill comes after its mark was replaced":     {followed, deliver(&messages.Followed{FollowerID: "ann", AuthorID: "bob", MarkVersion: v1})},
		"a removal meets a new follow":                     {removal},
		"a late follow or unfollow is stopped by the mark": {edges},
		"a late follow or unfollow happens":                {overdue(wrote("api-0", nil, edge))},
		"a backfill is asked for again":                    {{kind: eventPublish, message: &messages.Followed{Header: messages.Header{EventID: late}, MarkVersion: v1}}},

		"a late delete happens":                                           {overdue(tomb)},
		"a post's event comes after its delete":                           {tomb, deliver(&messages.PostCreated{PostID: postID})},
		"a comment meets the delete":                                      {gone},
		"an edit meets the delete":                                        {refused("api-0", nil, new(schema.Post{ID: postID, Author: "bob"}.Item()))},
		"a message is received again while its first handling still runs": {again},
		"a message is set aside while it is handled":                      {aside},
		"a removed message comes again as its ack was lost":               {{kind: eventAckLost, id: "m"}, deliver(nil)},
		"an event is ahead of its consumer's clock":                       {deliver(&messages.Followed{Header: messages.Header{EventID: "7" + late[1:]}})},
		"an idempotency key is bound by another try":                      {refused("api-0", nil, &table.Item{Key: schema.IdempotencyKey("ann", "key")})},
		"a dead letter is redriven after days":                            {after(48*time.Hour, event{kind: eventRedrive, since: began})},
		"a dead letter is too old for a redrive":                          {{kind: eventTooOld}},
		"a process dies again within a minute":                            {crash("likeagg-0"), boot("likeagg-0"), crash("likeagg-0")},

		"a read goes back in time":                   {read, after(2*time.Second, event{kind: eventShown, key: ref.Item().Key, since: began.Add(-time.Second)})},
		"a read shows a part of a transaction":       {{kind: eventShown, since: began, torn: true}},
		"a batch or a page has items of two moments": {{kind: eventRest, moved: true}},
		"an index is late by more than a minute":     {after(2*time.Minute, event{kind: eventShown, since: began, index: true})},
		"an item is read that expired two days ago":  {{kind: eventShown, kept: true}},
		"a write is refused for the index alone":     {{kind: eventSide, class: string(sideWrites), refused: true, index: true}},

		"a read of the table is late by more than five seconds":    {after(6*time.Second, event{kind: eventShown, since: began})},
		"a fan-out worker reads an item that expired two days ago": {{kind: eventShown, by: "fanout-1", kept: true}},
		"a read finds a half of a batch that is being written":     {{kind: eventShown, half: true}},
		"a read of the index is refused, and the table serves":     {{kind: eventSide, class: string(sideReads), refused: true, index: true}},
		"a batch is refused for one of its partitions":             {{kind: eventSide, class: string(sideWrites), refused: true, part: true}},
		"a partition that refuses reads takes a write":             {{kind: eventSide, class: string(sideWrites), spared: true}},
		"a partition that refuses writes serves a read":            {{kind: eventSide, class: string(sideReads), spared: true}},

		"an import meets another write of its record": {{kind: eventCancelled, by: "import-0", err: &table.CancelledError{}}},
		"a repair of a count lands beside traffic": {
			wrote("audit-0", &table.Item{Key: schema.CountsKey("ann")}, &table.Item{Key: schema.CountsKey("ann"), Attrs: []table.Attr{{Name: schema.AttrFixed, Value: table.S(v1)}}}),
		},

		"six users in one notification":             {noticed("a"), noticed("b", "c", "d", "e"), noticed("f", "b", "c", "d", "e")},
		"a full notification of take-backs":         {noticed("-a", "-b", "-c", "-d", "-e")},
		"an action holds again and keeps its place": {wrote("notify-0", noticeItem("-a"), noticeItem("a"))},
		"a mark between a worker's read and its put": {
			{kind: eventRead, by: "notify-0", key: noticeItem("a").Key}, wrote("api-0", nil, new(schema.NoticeMarkItem("ann", v1))), noticed("a"),
		},
		"news are not modified":                             {{kind: eventPolled, kept: true}},
		"news have as many posts as before, and other ones": {{kind: eventPolled, moved: true}},
		"two workers put one notification":                  {refused("notify-0", noticeItem("a"), noticeItem("b"))},
	}
}

func TestEachRareStateIsRecognised(t *testing.T) {
	all := traces()
	for _, state := range RareStates() {
		assert.Containsf(t, all, state, "no trace leads to %q", state)
	}
	for state, trace := range all {
		book := newLikeBook()
		r := newReach(&book)
		for i := range 3 {
			r.see(event{kind: eventBoot, by: []string{"likeagg-0", "likeagg-1", "likeagg-2"}[i], at: began})
		}
		for i, e := range trace {
			assert.Zerof(t, r.met[state], "%q is met before event %d of its trace", state, i)
			if e.at.IsZero() {
				e.at = began
			}
			r.see(e)
			if e.kind == eventWrote {
				_, err := book.note(e.key, e.now)
				assert.NoError(t, err, state)
			}
		}
		assert.Equalf(t, 1, r.met[state], "times that its trace leads to %q; it met %v", state, r.met)
	}
}

func TestTheLedgerSaysWhichLikesCount(t *testing.T) {
	book := newLikeBook()
	for _, it := range []*table.Item{
		likeItem("ann", v1, "flushed", true, false), likeItem("bob", v1, "open", true, false), likeItem("cat", v1, "open", false, true),
		likeItem("dan", v1, "ended", true, false), likeItem("eve", v1, "lost", true, false), countItem("dflushed", "xopen"),
		new(schema.LikeEnd{Inc: "ended"}.Item()), new(schema.LikeEnd{Inc: "lost", Lost: map[string]bool{postID: true}}.Item()),
	} {
		_, err := book.note(it.Key, it)
		assert.NoError(t, err)
	}
	assert.Equal(t, map[string]int64{"like": 3}, book.sum(postID), "ann and dan by their flushes, cat by base")
}

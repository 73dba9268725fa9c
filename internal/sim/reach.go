package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// A run without a violation proves little if the run never reached the states in which the product
// could be wrong. So each run recognises such rare states by the events of the simulated table and
// queues, and counts these states. `make sim-reach` fails if too few seeds reach a state.

// The kinds of event.
const (
	eventWrote     = "wrote"     // an item changed from old to now
	eventRefused   = "refused"   // a condition failed: old is the stored item, now was to replace it
	eventCancelled = "cancelled" // some conditions of a transaction failed
	eventPart      = "part"      // a batch took effect in part
	eventPublish   = "publish"
	eventDeliver   = "deliver"
	eventAnswer    = "answer" // a message was acked or left for later
	eventAckLost   = "ack lost"
	eventAside     = "aside" // the queue itself made a message a dead letter
	eventRedrive   = "redrive"
	eventTooOld    = "too old" // a redrive was refused for the age of the message
	eventBoot      = "boot"
	eventCrash     = "crash"
	eventPause     = "pause"
	eventRead      = "read"   // a worker has read a notification
	eventShown     = "shown"  // an item was read that changed recently or expired long ago
	eventRest      = "rest"   // the end of a batch or page was read later than the beginning
	eventPolled    = "polled" // news were read with the tag of the last answer; kept: the answer has the same tag
	eventSide      = "side"   // a call met a partition that has no capacity for some calls
)

// event is one thing that happens in a world. Each kind of event sets some of the fields.
type event struct {
	kind     string
	at       time.Time
	by       string // the process, "" for the table itself
	op       string // the operation or message that the process worked for
	late     bool   // the caller had its answer before the event
	class    string // the class of a batch
	key      table.Key
	old, now *table.Item
	restamp  bool // the refused put was to replace an item
	ops      []table.TransactOp
	err      *table.CancelledError
	id       string // the id of a message
	message  messages.Event
	running  int              // the number of other handlings of the message
	left     time.Duration    // the wait of a like whose receive does not count
	clock    time.Time        // of the process
	since    time.Time        // the time of the dead letter
	held     []messages.Event // the unanswered messages of a process that crashes
	index    bool             // the item was read by the index
	torn     bool             // other items of its transaction are visible
	kept     bool             // the item expired long ago
	moved    bool             // items in the rest have changed meanwhile
	half     bool             // a batch is written in part, and the read meets both parts
	refused  bool             // the call was refused for lack of capacity
	part     bool             // some partitions of the call have capacity
	spared   bool             // one partition of the call refuses calls of the other kind
	done     bool             // the message was acked
	wrong    bool             // the clock of the process is wrong in its life
	dropped  bool             // a process whose notifications are off dropped it
}

// reach recognises rare states. It learns about the world only from the events that it sees.
type reach struct {
	met  Counters // number of events by rare state
	book *likeBook

	boots   map[string]int       // number of lives, by process
	alive   map[string]bool      // by life
	booted  map[string]time.Time // time of the last boot, by process
	paused  map[string]time.Time // time of the last pause, by process
	owner   map[string]string    // the life that owns an incarnation
	stamped map[string]time.Time // the times at which flushes stamped their first likes
	marks   map[table.Key]schema.Mark
	plans   map[string]string // posts with a plan -> author
	chunks  map[string]map[string]schema.Chunk
	deleted map[string]bool
	ends    map[string]time.Time // the ends of posts
	unsent  map[string]bool      // the process and the operation that stored a chunk and have not sent anything since
	ackless map[string]bool      // messages whose ack was lost
	doubted map[string]bool      // messages that a worker with a wrong clock left
	shown   map[shown]time.Time  // when the newest state of an item was last read
	notices noticeReach
}

func newReach(book *likeBook) *reach {
	return &reach{
		met: Counters{}, book: book, boots: map[string]int{}, alive: map[string]bool{}, booted: map[string]time.Time{}, paused: map[string]time.Time{},
		owner: map[string]string{}, stamped: map[string]time.Time{}, marks: map[table.Key]schema.Mark{}, plans: map[string]string{},
		chunks: map[string]map[string]schema.Chunk{}, deleted: map[string]bool{}, ends: map[string]time.Time{}, unsent: map[string]bool{}, ackless: map[string]bool{}, doubted: map[string]bool{}, shown: map[shown]time.Time{}, notices: newNoticeReach(),
	}
}

// when counts a rare state if the condition is true.
func (r *reach) when(is bool, state string) {
	if is {
		r.met[state]++
	}
}

// life returns the name of the current life of a process.
func (r *reach) life(process string) string { return fmt.Sprintf("%s/%d", process, r.boots[process]) }

func (r *reach) see(e event) {
	switch e.kind {
	case eventWrote:
		r.wrote(e)
	case eventRefused:
		r.refused(e)
	case eventCancelled:
		r.when(strings.HasPrefix(e.by, mover), "an import meets another write of its record")
		edge := len(e.ops) > 0 && strings.HasSuffix(e.ops[0].Key().PK, "#follower")
		comment := len(e.ops) > 0 && strings.HasSuffix(e.ops[0].Key().PK, "#comment")
		r.when(comment && e.err.Failed(1), "a comment meets the delete")
		r.when(edge && e.late, "a late follow or unfollow is stopped by the mark")
		r.when(len(e.ops) > 0 && e.ops[0].Check != nil && e.err.Failed(0), "a removal meets a new follow")
	case eventPart:
		r.when(e.class == "batch_write timeline", "a page of entries is written in part")
	case eventPublish:
		r.published(e)
	case eventDeliver:
		r.delivered(e)
	case eventAnswer:
		r.when(e.done && r.doubted[e.id], "work that a wrong clock left is done by another worker")
		r.doubted[e.id] = (e.wrong || r.doubted[e.id]) && !e.done
		delete(r.unsent, e.by+" "+e.op)
		r.when(e.left == leaveFor, "a like is left that the table has no capacity for")
	case eventAckLost:
		r.ackless[e.id] = true
	case eventAside:
		r.when(e.running > 0, "a message is set aside while it is handled")
	case eventRedrive:
		r.when(e.at.Sub(e.since) > 24*time.Hour, "a dead letter is redriven after days")
	case eventTooOld:
		r.when(true, "a dead letter is too old for a redrive")
	case eventBoot:
		r.boots[e.by]++
		r.alive[r.life(e.by)], r.booted[e.by] = true, e.at
	case eventCrash:
		r.crashed(e)
	case eventPause:
		r.paused[e.by] = e.at
	case eventRead:
		r.noticeRead(e)
	case eventShown:
		r.wasShown(e)
	case eventRest:
		r.when(e.moved, "a batch or a page has items of two moments")
	case eventPolled:
		r.when(e.kept, "news are not modified")
		r.when(e.moved, "news have as many posts as before, and other ones")
	case eventSide:
		r.sideOfCall(e)
	}
}

func (r *reach) wrote(e event) {
	r.moveWritten(e)
	if post, list, count := postOfLikes(e.key.PK); list {
		r.likeWritten(e, post)
		return
	} else if count {
		r.countWritten(e, post)
		return
	}
	_, kind, _ := strings.Cut(strings.TrimLeft(e.key.PK[1:], "#"), "#")
	switch {
	case strings.HasPrefix(e.key.PK, "inc#") && e.now != nil:
		r.ended(e)
	case e.key.SK == schema.SortInfo && strings.HasPrefix(e.key.PK, "p#"):
		if post, _ := schema.PostOfSK(e.key.PK); e.now != nil && e.now.Has(schema.AttrEnds) {
			r.ends[post] = time.Unix(e.now.Int(schema.AttrEnds), 0)
		}
		r.tombstone(e)
	case kind == "delivery":
		r.deliveryWritten(e)
	case kind == "notif":
		r.noticeWritten(e)
	case kind == "timeline" && e.now != nil:
		r.entryWritten(e)
	case kind == "home":
		delete(r.marks, e.key)
		if e.now != nil && schema.KnownMark(*e.now) {
			r.marks[e.key], _ = schema.ParseMark(*e.now) // the oracle reports a mark that does not parse
		}
	case kind == "follower":
		author := strings.TrimSuffix(strings.TrimPrefix(e.key.PK, "u#"), "#follower")
		r.when(e.late, "a late follow or unfollow happens")
		r.when(e.now != nil && r.delivering(author), "a follow lands while the author's post is delivered")
		r.when(e.now == nil && r.delivering(author), "an unfollow lands while the author's post is delivered")
	}
}

func (r *reach) refused(e event) {
	if _, list, count := postOfLikes(e.key.PK); list {
		r.likeRefused(e)
		return
	} else if count {
		r.countRefused(e)
		return
	}
	switch {
	case strings.HasPrefix(e.key.PK, "idem#"):
		r.when(true, "an idempotency key is bound by another try")
	case strings.HasSuffix(e.key.PK, "#notif"):
		r.when(strings.HasPrefix(e.key.SK, schema.SortNotice), "two workers put one notification")
	case strings.HasSuffix(e.key.PK, "#post"):
		r.when(true, "an edit meets the delete")
	case strings.HasSuffix(e.key.PK, "#home"):
		r.when(e.old != nil && e.old.Str(schema.AttrKind) == string(schema.MarkUnfollowed), "a backfill loses its mark to an unfollow")
		r.when(e.old != nil && e.old.Str(schema.AttrKind) == string(schema.MarkBackfill), "an unfollow and a return during a backfill")
	case e.key.SK == schema.SortPlan:
		r.when(true, "a delivery begins again")
	case strings.HasSuffix(e.key.PK, "#delivery") && e.old != nil:
		update := !e.now.Has(schema.AttrEnd)
		r.when(update, "two workers finish one chunk")
		r.when(!update && e.now.Str(schema.AttrEnd) != e.old.Str(schema.AttrEnd), "a planner meets another planner's chain")
	}
}

func (r *reach) published(e event) {
	switch m := e.message.(type) {
	case *messages.Followed:
		followed, err := id.Time(m.MarkVersion)
		asked, err2 := id.Time(m.EventID)
		r.when(err == nil && err2 == nil && asked.Sub(followed) > 10*time.Second, "a backfill is asked for again")
	case *messages.FanoutChunk, *messages.FanoutPlan:
		delete(r.unsent, e.by+" "+e.op)
	}
}

func (r *reach) delivered(e event) {
	r.when(e.running > 0, "a message is received again while its first handling still runs")
	r.when(e.dropped, "a process drops a notice because notifications are off")
	r.when(r.ackless[e.id], "a removed message comes again as its ack was lost")
	if e.message == nil {
		return
	}
	made, err := id.Time(e.message.Head().EventID)
	r.when(err == nil && made.Sub(e.clock) > messages.MaxAhead, "an event is ahead of its consumer's clock")
	if like := likeOf(e.message); like != nil {
		r.when(r.book.likes[like.PostID][like.UserID].Version > like.EventID, "an action comes after a newer one of its user")
	}
	switch m := e.message.(type) {
	case *messages.PostCreated:
		r.when(r.deleted[m.PostID], "a post's event comes after its delete")
	case *messages.FanoutChunk:
		end, ends := r.ends[m.PostID]
		r.when(ends && !e.at.Before(end) && r.halfDone(m.PostID), "an end between two chunks")
	case *messages.Followed:
		mark, marked := r.marks[schema.MarkKey(m.FollowerID, m.AuthorID)]
		r.when(marked && mark.Version != m.MarkVersion, "a backfill comes after its mark was replaced")
	}
}

func (r *reach) crashed(e event) {
	life := r.life(e.by)
	r.alive[life] = false
	r.when(r.boots[e.by] > 1 && e.at.Sub(r.booted[e.by]) < time.Minute, "a process dies again within a minute")
	for _, op := range sorted(r.unsent) {
		if strings.HasPrefix(op, e.by+" ") {
			delete(r.unsent, op)
			r.when(true, "a worker dies between storing a chunk and sending it")
		}
	}
	if !strings.HasPrefix(e.by, "likeagg") {
		return
	}
	r.when(!slices.ContainsFunc(slices.Collect(maps.Keys(r.boots)), func(p string) bool {
		return strings.HasPrefix(p, "likeagg") && r.alive[r.life(p)]
	}), "no aggregator is alive")
	for post := range r.book.likes {
		for inc := range r.open(post, "") {
			if r.owner[inc] == life {
				r.when(true, "an aggregator dies between a put and its flush")
			}
		}
	}
	for _, m := range e.held {
		if action := likeOf(m); action != nil {
			like := r.book.likes[action.PostID][action.UserID]
			if r.owner[like.Flush.Inc] == life && like.Version == action.EventID && r.book.counted(like) {
				r.when(true, "an aggregator dies between a flush and its acks")
			}
		}
	}
}

// see passes an event at the present time to the recognisers.
func (w *World) see(e event) {
	e.at = time.Now()
	if c := w.acting; c != nil && e.by == "" {
		e.by, e.op, e.late = c.proc.Name, c.op, c.hasAnswer()
	}
	w.reach.see(e)
}

// hasAnswer reports whether the caller of c has its answer.
func (c *call) hasAnswer() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// sawWrite passes the new state of an item to the recognisers.
func (w *World) sawWrite(key table.Key, now *table.Item) {
	w.writes[key.PK]++
	w.see(event{kind: eventWrote, key: key, old: w.items[key], now: now})
	w.items[key] = now
	if now == nil {
		delete(w.items, key)
	}
}

// sawRefusal passes a write or a transaction with failed conditions to the recognisers.
func (w *World) sawRefusal(c *call, err error) {
	if cancelled, ok := errors.AsType[*table.CancelledError](err); ok && !cancelled.Retryable() {
		for _, r := range cancelled.Reasons {
			if r.Reason == table.CancelCondition {
				w.shadows.unveil(r.Key)
			}
		}
		w.see(event{kind: eventCancelled, ops: c.ops, err: cancelled})
	}
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !ok {
		return
	}
	w.shadows.unveil(failed.Key)
	e := event{kind: eventRefused, key: failed.Key, old: failed.Old}
	switch in := c.in.(type) {
	case table.PutInput:
		_, first := in.If.(table.Absent)
		e.now, e.restamp = &in.Item, !first
	case table.UpdateInput:
		e.now = &table.Item{Key: in.Key, Attrs: in.Set}
	default:
		return
	}
	w.see(e)
}

// running returns the number of handlings of a message that run in living processes.
func (w *World) running(m *queued) (n int) {
	for _, p := range w.procs {
		for _, s := range p.subs {
			for _, r := range s.out {
				if r.queued == m && !p.dead {
					n++
				}
			}
		}
	}
	return n
}

// decoded returns the event in a message, nil if no consumer can ever process the message.
func decoded(payload []byte) messages.Event {
	e, err := messages.Decode(payload)
	if err != nil {
		return nil // poison is part of the workload
	}
	return e
}

// held returns the messages that a process has not answered.
func (p *Proc) held() (all []messages.Event) {
	for _, s := range p.subs {
		for _, r := range s.out {
			if e := decoded(r.queued.payload); e != nil {
				all = append(all, e)
			}
		}
	}
	return all
}

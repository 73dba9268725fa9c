package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// quietWorld returns a world without processes.
func quietWorld() *World {
	w := newWorld(1, plain())
	w.load = newWorkload(w)
	return w
}

// TestLikesOfALatePostAreRedriven has three likes that became dead letters: the post of the first
// like arrived later, the post of the second like never arrived, and the third like failed for
// another reason.
func TestLikesOfALatePostAreRedriven(t *testing.T) {
	w := quietWorld()
	r := draws(1, 1, 1)
	q := w.queue(queue.TopicLikes)
	bury := func(post, reason string) string {
		version := w.load.send(r, "like", post, "u0", schema.KindLike)
		payload := q.messages[len(q.messages)-1].payload
		q.messages = nil
		q.dead = append(q.dead, queue.DeadLetter{ID: version, Topic: queue.TopicLikes, Payload: payload, Reason: reason})
		return version
	}
	w.write(schema.PostRef{ID: postID, Author: "u1", LikeShards: 1}.Item())
	there := bury(postID, messages.Permanent(messages.ReasonNoPost, "%s", postID).Error())
	never := bury(v1, messages.Permanent(messages.ReasonNoPost, "%s", v1).Error())
	other := bury(postID, messages.Permanent(messages.ReasonUnreadable, "no like").Error())

	assert.True(t, w.redriveUnknown())
	assert.Len(t, q.messages, 1)
	assert.Equal(t, there, q.messages[0].id)
	assert.Len(t, q.dead, 2)
	w.load.bad = []string{never}
	q.messages = nil
	w.checkMessages()
	assert.Equal(t, []string{"I6: message " + other + " became a dead letter: message can never be processed: it cannot be read: no like"}, w.load.violations)
	assert.False(t, w.redriveUnknown(), "the rest stays")
}

// TestAnImportMayFindACountThatLacksADeadLetter has a post with a like that is a dead letter, and a post without
// dead letters.
func TestAnImportMayFindACountThatLacksADeadLetter(t *testing.T) {
	w := quietWorld()
	q := w.queue(queue.TopicLikes)
	w.load.send(draws(1, 1, 1), "like", postID, "u0", schema.KindLike)
	q.dead = []queue.DeadLetter{{ID: q.messages[0].id, Topic: queue.TopicLikes, Payload: q.messages[0].payload}}
	assert.True(t, w.awaitsLikes("likes of post "+postID+": the count is like=1, and there are like=2"))
	assert.False(t, w.awaitsLikes("likes of post "+v1+": the count is like=1, and there are like=2"))
	assert.False(t, w.awaitsLikes("post "+postID+" is not in the table"))
}

// TestEventsThatFailAfterTheStormAreRedriven has three dead letters of posts. The work of the first
// letter is done, but its event was not sent. The work of the second letter failed. The third
// letter had all its attempts.
func TestEventsThatFailAfterTheStormAreRedriven(t *testing.T) {
	w := quietWorld()
	q := w.queue(queue.TopicPosts)
	bury := func(eventID, reason string) {
		payload, err := messages.Encode(&messages.PostCreated{
			Header: messages.Header{EventID: eventID, Time: time.Now()}, PostID: postID, AuthorID: "u1", Content: messages.Content{Text: "hello"},
		})
		assert.NoError(t, err)
		q.dead = append(q.dead, queue.DeadLetter{ID: eventID, Topic: queue.TopicPosts, Payload: payload, Reason: reason})
	}
	now, err := id.NewSeededGenerator(time.Now, entropy(1)).New()
	assert.NoError(t, err)
	bury(now, (&queue.UnsentError{Queue: "events", Err: errDown}).Error())
	bury(v1, "some other reason")
	assert.True(t, w.redriveLate(false))
	if assert.Len(t, q.messages, 1) && assert.Len(t, q.dead, 1) {
		assert.Equal(t, now, q.messages[0].id)
	}
	assert.False(t, w.redriveLate(true), "the rest stays")
	again, err := id.NewSeededGenerator(time.Now, entropy(2)).New()
	assert.NoError(t, err)
	bury(again, string(messages.ReasonAttempts)+": the table did not answer")
	assert.False(t, w.redriveLate(false), "all attempts were after the storm")
	assert.True(t, w.redriveLate(true))
}

// TestOneOfTwoDeadLettersMayStay has one message with two dead letters. The backstop made the first letter,
// and a consumer whose lease had ended made the second. Only the second letter is redriven.
func TestOneOfTwoDeadLettersMayStay(t *testing.T) {
	w := quietWorld()
	w.load.send(draws(1, 1, 1), "like", postID, "u0", schema.KindLike)
	q := w.queue(queue.TopicLikes)
	second := queue.DeadLetter{ID: q.messages[0].id, Topic: queue.TopicLikes, Payload: q.messages[0].payload, Reason: messages.ReasonAttempts.Because("its consumer failed")}
	w.backstop(queue.TopicLikes, q.messages[0])
	q.dead = append(q.dead, second)

	w.redrive(queue.TopicLikes, func(d queue.DeadLetter) error {
		if d.Reason != second.Reason {
			return errDown
		}
		return nil
	})
	q.messages = nil
	w.checkMessages()
	assert.Empty(t, w.load.violations)
}

// TestAWalkThatNobodySendsIsFound makes checkModes check changes of an author's mode, with and
// without a walk.
func TestAWalkThatNobodySendsIsFound(t *testing.T) {
	type step func(w *World)
	mode := func(state schema.ModeState, v int64, by string) step {
		return func(w *World) {
			w.acting = &call{op: by, proc: &Proc{Name: "fanout-0"}, done: make(chan struct{})}
			w.write(schema.Mode{Author: "u0", State: state, V: v, Since: v1}.Item())
			w.acting, w.load.violations = nil, nil // violations of the change itself
			w.steps++
		}
	}
	begin := func(op string) step { return func(w *World) { w.steps++; w.began[op] = w.steps } }
	end := func(op string) step {
		return func(w *World) {
			payload, err := messages.Encode(&messages.PostCreated{Header: messages.Header{EventID: v1, Time: began}, PostID: postID, AuthorID: "u0"})
			assert.NoError(t, err)
			w.handled(w.queue(queue.TopicPosts), &queued{id: postID, payload: payload}, op)
		}
	}
	walk := &messages.MarkWalk{Header: messages.Header{EventID: v1, Time: began}, AuthorID: "u0"}
	for name, of := range map[string]struct {
		steps []step
		found bool
	}{
		"the post that changes the mode is done":  {[]step{begin("a"), mode(schema.ModeSwitching, 1, "a"), end("a")}, true},
		"its worker died, and no post came after": {[]step{begin("a"), mode(schema.ModeSwitching, 1, "a")}, false},
		"a post that began before is done":        {[]step{begin("b"), mode(schema.ModeSwitching, 1, "a"), end("b")}, false},
		"a post that began after is done":         {[]step{mode(schema.ModeLeaving, 2, "a"), begin("b"), end("b")}, true},
		"the walk goes on after that":             {[]step{mode(schema.ModeLeaving, 2, "a"), begin("b"), end("b"), mode(schema.ModeLeaving, 2, "c")}, true},
		"the walk ends":                           {[]step{mode(schema.ModeLeaving, 2, "a"), begin("b"), end("b"), mode(schema.ModePush, 2, "c")}, false},
		"the next change begins":                  {[]step{mode(schema.ModeSwitching, 1, "a"), begin("b"), end("b"), mode(schema.ModePull, 1, "c"), mode(schema.ModeLeaving, 2, "d")}, false},
		"the post was deleted":                    {[]step{mode(schema.ModeSwitching, 1, "a"), func(w *World) { w.tombs[postID] = 1 }, begin("b"), end("b")}, false},
		"the post became a dead letter":           {[]step{mode(schema.ModeSwitching, 1, "a"), begin("b"), dead(queue.TopicPosts, &messages.PostCreated{Header: messages.Header{EventID: postID, Time: began}, PostID: postID, AuthorID: "u0"}), end("b")}, false},
		"the walk became a dead letter":           {[]step{mode(schema.ModeSwitching, 1, "a"), begin("b"), end("b"), dead(queue.TopicBackfills, walk)}, false},
	} {
		w := quietWorld()
		for _, do := range of.steps {
			do(w)
		}
		w.checkModes()
		assert.Equal(t, of.found, len(w.load.violations) == 1, name)
	}
}

// dead makes a message a dead letter.
func dead(topic string, e messages.Event) func(w *World) {
	return func(w *World) {
		payload, err := messages.Encode(e)
		if err != nil {
			w.load.fail("oracle", "%v", err)
		}
		q := w.queue(topic)
		q.dead = append(q.dead, queue.DeadLetter{ID: e.Head().EventID, Topic: topic, Payload: payload})
	}
}

// TestOnlyAFirstPageIsASecondLate asks the oracle which posts a first page may lack.
func TestOnlyAFirstPageIsASecondLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, api := quietWorld(), &Proc{Name: "api-0"}
		w.shape.Heads, w.shape.Limit = true, 1
		w.write(schema.Post{ID: postID, Author: "u0", LikeShards: 1}.Item())
		entry := func(user string) table.Item {
			return table.Item{Key: table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(postID, "u0")}, Attrs: schema.EntryAttrs(time.Now().Add(timelineTTL), 1)}
		}
		w.write(entry("u0"))
		w.write(entry("u1"))
		<-time.After(headAge - 1)
		assert.Equal(t, map[string]bool{postID: true}, w.late(api, "u2", false))
		assert.Empty(t, w.late(api, "u0", false), "one's own post")
		assert.Empty(t, w.late(api, "u1", false), "a post with an entry")
		assert.Empty(t, w.late(api, "u2", true), "a home by pull")
		<-time.After(1)
		assert.Empty(t, w.late(api, "u2", false), "a second later")
		api.back = time.Now()
		assert.NotEmpty(t, w.late(api, "u2", false), "a clock that was set back")
		w.shape.Heads = false
		assert.Empty(t, w.late(api, "u2", false), "nothing is shared")
	})
}

// TestAHomeMayLackAPostAgainUntilItIsDelivered asks the oracle which posts a home may lack now,
// although the home has shown them. The author's fan-out is running, and the reader has returned.
func TestAHomeMayLackAPostAgainUntilItIsDelivered(t *testing.T) {
	reader := homeOf{user: "u1"}
	back := func(state schema.PresenceState, ago time.Duration) func(w *World) {
		return func(w *World) {
			w.write(schema.Presence{User: "u1", State: state, Until: schema.DayOf(time.Now()) + 2, V: 1, At: time.Now().Add(-ago)}.Item())
		}
	}
	marked := func(kind schema.MarkKind, until time.Duration) func(w *World) {
		return func(w *World) {
			w.write(schema.Mark{User: "u1", Author: "u0", Kind: kind, V: 1, Version: v1, Until: time.Now().Add(until)}.Item())
		}
	}
	for name, c := range map[string]struct {
		home homeOf
		step func(w *World)
		may  bool
	}{
		"a minute after the return":       {reader, back(schema.PresenceHere, time.Minute), true},
		"within the minute":               {reader, back(schema.PresenceHere, 20*time.Second), false},
		"the reader returns":              {reader, back(schema.PresenceReturning, time.Hour), false},
		"a minute after a backfill":       {reader, marked(schema.MarkBackfill, 0), true},
		"the mark of the backfill merges": {reader, marked(schema.MarkBackfill, time.Minute), false},
		"the author is pulled":            {reader, marked(schema.MarkPulled, 0), false},
		"by pull":                         {homeOf{"u1", true}, back(schema.PresenceHere, time.Minute), false},
		"the author's own home":           {homeOf{user: "u0"}, back(schema.PresenceHere, time.Minute), false},
		"the post has an entry": {reader, func(w *World) {
			w.write(table.Item{Key: table.Key{PK: schema.TimelinePK("u1"), SK: schema.EntrySK(postID, "u0")}, Attrs: schema.EntryAttrs(time.Now().Add(timelineTTL), 1)})
		}, false},
		"the post is delivered": {reader, func(w *World) {
			w.write(schema.Plan{Post: postID, Author: "u0", State: string(delivery.Pulled)}.Item())
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := quietWorld()
			w.load.seen[c.home] = map[string]string{postID: "u0"}
			c.step(w)
			assert.Equal(t, c.may, w.load.undelivered(c.home)[postID], name)
			assert.Empty(t, w.load.violations, name)
		})
	}
}

// TestStreamsShowEachPostOnce passes looks at a live home to the oracle.
func TestStreamsShowEachPostOnce(t *testing.T) {
	item := func(post string) feed.HomeItem { return feed.HomeItem{Post: feed.Post{ID: post, AuthorID: "u1"}} }
	for name, c := range map[string]struct {
		cut, whole []feed.HomeItem
		deleted    map[string]bool
		unfollowed []string
		want       string
	}{
		"each once":                   {cut: []feed.HomeItem{item(v1)}, whole: []feed.HomeItem{item(v1), item(postID)}},
		"the first never comes again": {cut: []feed.HomeItem{item(v1)}, whole: []feed.HomeItem{item(postID)}},
		"twice":                       {whole: []feed.HomeItem{item(v1), item(postID), item(v1)}, want: "I7: the live home of u0 shows " + v1 + " twice"},
		"never":                       {whole: []feed.HomeItem{item(v1)}, want: "I7: the live home of u0 never showed " + postID},
		"deleted":                     {whole: []feed.HomeItem{item(v1), item(postID)}, deleted: map[string]bool{v1: true}, want: "I2: the live home of u0 shows " + v1 + ", whose delete was answered before"},
		"of an unfollowed author":     {whole: []feed.HomeItem{item(v1), item(postID)}, unfollowed: []string{"u1"}, want: "I2: the live home of u0 shows " + v1 + " of u1, an unfollowed author"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := quietWorld()
			l, watched := w.load, &watch{last: "place", had: map[string]bool{}, since: map[string]bool{}}
			l.came("u0", watched, look{items: c.cut}, false, nil, nil)
			l.came("u0", watched, look{items: c.whole}, true, c.deleted, c.unfollowed)
			l.missed("u0", watched, []string{v1, postID})
			if c.want != "" {
				assert.Contains(t, l.violations, c.want, name)
				return
			}
			assert.Empty(t, l.violations, name)
			l.came("u0", watched, look{items: []feed.HomeItem{item(postID)}}, true, nil, nil)
			assert.NotEmpty(t, l.violations, name)
		})
	}
}

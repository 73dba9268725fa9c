package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/ops/audit"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// During the moves an operator damages counts of the town, and an audit repairs these counts while
// users act. The queue loses messages of new posts, and reconcile delivers these posts.

const (
	// townAuditEvery is the number of steps from one walk over a part of the town to the next, and townAudited
	// is the number of items of a walk.
	townAuditEvery, townAudited = 40, 40
	// reconcileAfter is longer than the time for which reconcile leaves a post to the workers.
	reconcileAfter = 20 * time.Minute
)

// damage sometimes makes a count of the town wrong.
func (m *moves) damage() {
	w := m.w
	w.aboutStep("damage")
	if w.rng.IntN(damageOdds) > 0 || len(m.damaged) >= mostDamages {
		return
	}
	user := townsfolk()[w.rng.IntN(len(townsfolk()))]
	post, known := m.aPost()
	wrong := func(key table.Key, attr string, by int64) {
		if w.items[key] != nil && !m.damaged[key] {
			m.damaged[w.change(table.UpdateInput{Key: key, Add: []table.Attr{{Name: attr, Value: table.N(by)}}})] = true
			w.note("damage %v", key)
		}
	}
	switch kind := w.rng.IntN(4); {
	case kind == 3:
		m.losePost()
	case kind == 0 && w.items[schema.ProfileKey(user)] != nil: // without a profile the audit rightly fails
		wrong(schema.CountsKey(user), schema.AttrFollowing, 2)
	case known && kind == 1:
		wrong(schema.PostKey(post.Author, post.ID), schema.AttrComments, 7)
	case known:
		w.book.broken[post.ID] = true // this damage is no violation
		wrong(schema.LikeCountKey(post.ID), schema.AttrLikes, 40)
	}
}

// losePost drops the message of a new post of the town, as a purge of the queue does.
func (m *moves) losePost() {
	if m.w.engine != nil { // the queue of the engine loses nothing
		return
	}
	q := m.w.queue(queue.TopicPosts)
	q.messages = slices.DeleteFunc(q.messages, func(msg *queued) bool {
		post, ok := decoded(msg.payload).(*messages.PostCreated)
		lost := ok && slices.Contains(townsfolk(), post.AuthorID) && m.w.running(msg) == 0
		if lost {
			m.w.note("lose the message of %s", post.PostID)
		}
		return lost
	})
}

// audit begins, from time to time, a walk that repairs a part of the town.
func (m *moves) audit() {
	w, l := m.w, m.w.load
	if w.steps%townAuditEvery > 0 || l.busy[auditor] != nil || !w.audited.up() {
		return
	}
	w.aboutStep("audit")
	pk := "u#" + townsfolk()[w.rng.IntN(len(townsfolk()))]
	if post, known := m.aPost(); known && w.rng.IntN(2) == 0 {
		pk = "p#" + post.ID
	}
	config := w.audits
	config.Store = part{steady{config.Store}, table.Key{PK: pk, SK: "!"}, townAudited}
	var found []audit.Finding
	l.run(&operation{
		name: "audit from " + pk, user: auditor,
		do: func(ctx context.Context, _ *domain) error {
			_, err := audit.New(config).Run(ctx, audit.Walk{Repair: true, Found: func(f audit.Finding) error { found = append(found, f); return nil }})
			return err
		},
		settle: func(error) { m.findings(found) },
	}, w.audited)
}

// findings checks that an audit finds exactly the counts that an operator has damaged.
func (m *moves) findings(found []audit.Finding) {
	m.w.load.findings(slices.DeleteFunc(found, func(f audit.Finding) bool {
		return m.damaged[table.Key{PK: f.PK, SK: f.SK}] && slices.Contains([]audit.Kind{audit.UserCount, audit.CommentCount, audit.LikeCount}, f.Kind)
	}))
}

// operated returns the table as an operator reaches it, and a domain on that table.
func (w *World) operated() (operator, *domain) {
	store := operator{w.store, w}
	return store, newDomain(true, access.Config{
		Store: store, Publisher: store, IDs: w.audits.IDs, Now: time.Now, Lifetimes: w.lifetimesNow(), Jitter: w.audits.Random,
	}, feed.Config{LikesByUser: w.seed%2 == 0}, home.Config{})
}

// mend lets an audit repair all damages that are left. Afterwards no count is wrong (I3, I4).
func (m *moves) mend(ctx context.Context) {
	w := m.w
	store, service := w.operated()
	for range mostWalks {
		found, _ := w.auditAll(ctx, store, service, audit.Walk{Repair: true})
		if len(found) == 0 {
			break
		}
		m.findings(found)
	}
	for key := range m.damaged {
		if post, ok := strings.CutSuffix(strings.TrimPrefix(key.PK, "p#"), "#likecount"); ok {
			delete(w.book.broken, post)
		}
	}
}

// reconcile runs the command, and returns the number of posts that the command published again.
func (m *moves) reconcile(ctx context.Context, service *domain) (published int) {
	for cursor, first := "", true; first || cursor != ""; first = false {
		done, err := service.Reconcile(ctx, time.Time{}, time.Now().Add(-10*time.Minute), cursor, 100)
		if err != nil {
			m.w.load.fail("I6", "reconcile: %v", err)
			return published
		}
		published, cursor = published+done.Published, done.Next
	}
	return published
}

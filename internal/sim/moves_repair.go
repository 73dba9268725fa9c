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
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Beside the moves an operator makes counts of the town wrong, and an audit of the town mends them while users act.

const (
	// townAuditEvery is the number of steps from one walk over a part of the town to the next, and townAudited the
	// number of its items.
	townAuditEvery, townAudited = 40, 40
)

// damage makes a count of the town wrong, now and then.
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
	switch kind := w.rng.IntN(3); {
	case kind == 0:
		wrong(schema.CountsKey(user), schema.AttrFollowing, 2)
	case known && kind == 1:
		wrong(schema.PostKey(post.Author, post.ID), schema.AttrComments, 7)
	case known:
		w.book.broken[post.ID] = true // a damage is no violation
		wrong(schema.LikeCountKey(post.ID), schema.AttrLikes, 40)
	}
}

// audit begins a walk that mends over a part of the town, now and then.
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

// findings checks that an audit finds what an operator has damaged, and nothing else.
func (m *moves) findings(found []audit.Finding) {
	m.w.load.findings(slices.DeleteFunc(found, func(f audit.Finding) bool {
		return m.damaged[table.Key{PK: f.PK, SK: f.SK}] && slices.Contains([]audit.Kind{audit.UserCount, audit.CommentCount, audit.LikeCount}, f.Kind)
	}))
}

// mend lets an audit mend all damages that are left. After it no count is wrong (I3, I4).
func (m *moves) mend(ctx context.Context) {
	w := m.w
	store := operator{w.store, w}
	service := newDomain(access.Config{
		Store: store, Publisher: store, IDs: w.audits.IDs, Now: time.Now, Lifetimes: w.lifetimesNow(), Jitter: w.audits.Random,
	}, feed.Config{LikesByUser: w.seed%2 == 0}, home.Config{})
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

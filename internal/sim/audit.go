package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/ops/audit"
	"fanfare/internal/table"
)

// The audit walks and repairs during the storms. Nobody damages the table, so each finding is a
// violation, and each repair that changes an item is a violation, too.

const (
	// auditor is the user of the walks, and the role of their process.
	auditor = "auditor"
	// auditEvery is the number of steps from one walk to the next, and auditedAtOnce is the number of items of
	// a walk. A walk over the whole table would take too many steps for one storm.
	auditEvery, auditedAtOnce = 50, 12
	// auditSkew is the maximum skew of an audit's clock. A clock with a larger skew is in doubt.
	auditSkew = 4 * time.Minute
)

// part is a table whose scan returns only a few items, starting at a drawn key.
type part struct {
	table.Store
	from  table.Key
	items int
}

func (s part) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	in.After, in.PageSize = s.from, s.items
	page, err := s.Store.Scan(ctx, in)
	page.Next = table.Key{}
	return page, err
}

// auditing is a process that only runs audits.
func (w *World) auditing(p *Proc) {
	service := w.service(p)
	w.load.serve[p] = service
	w.audits = audit.Config{
		Store: p.Store(), Feed: service, IDs: id.NewSeededGenerator(p.Now, entropy(w.rng.Uint64())), Now: p.Now,
		Lifetimes: p.lifetimes, LikesByUser: w.seed%2 == 0, Random: jitter(w.rng.Uint64()),
	}
}

// audit sometimes begins a walk over a part of the table.
func (w *World) audit() {
	l := w.load
	if w.steps%auditEvery == 0 && l.busy[auditor] == nil && w.audited.up() {
		l.run(l.audit(draws(w.seed, w.steps, 5)), w.audited)
	}
}

// audit walks over a part of the table, and repairs a follow, a block or a post that
// nobody damaged.
func (l *workload) audit(r *rand.Rand) *operation {
	// Most checks of counts begin at a user or a post, and a few posts get most of the likes.
	pk := "u#" + l.users[r.IntN(len(l.users))] + []string{"", "", "", "#block", "#follower", "#following", "#home", "#post", "#timeline"}[r.IntN(9)]
	if posts := l.posts[:min(len(l.posts), 6)]; len(posts) > 0 && r.IntN(2) == 0 {
		pk = "p#" + posts[r.IntN(len(posts))] + []string{"", "", "", "#comment", "#delivery", "#likelist"}[r.IntN(6)]
	}
	config := l.w.audits
	config.Store = part{config.Store, table.Key{PK: pk, SK: "!"}, auditedAtOnce}
	var found []audit.Finding
	var mended string
	return &operation{
		name: "audit from " + pk, user: auditor,
		do: func(ctx context.Context, s *domain) (err error) {
			_, err = audit.New(config).Run(ctx, audit.Walk{Repair: true, Found: func(f audit.Finding) error { found = append(found, f); return nil }})
			if err == nil {
				mended, err = l.mend(ctx, r, s)
			}
			return err
		},
		settle: func(error) {
			l.findings(found)
			if mended != "" {
				l.fail("audit", "a repair changed the %s, which nobody damaged", mended)
			}
		},
	}
}

// mend makes one drawn repair. It returns the name of the item that the repair must not change. The
// repair of a follow may write a mark without a follow: the checks of follows read only the edges.
func (l *workload) mend(ctx context.Context, r *rand.Rand, s *domain) (mended string, err error) {
	user := l.users[r.IntN(len(l.users))]
	other := l.other(r, user)
	changed := false
	switch r.IntN(4) {
	case 0:
		mended = "block of " + other + " by " + user
		changed, err = s.MendBlock(ctx, user, other)
	case 1:
		if len(l.posts) == 0 {
			return "", nil
		}
		mended = l.posts[r.IntN(len(l.posts))]
		changed, err = s.BuryLost(ctx, mended)
	default:
		_, err = s.MendFollow(ctx, user, other)
	}
	if !changed {
		mended = ""
	}
	return mended, err
}

func (l *workload) findings(found []audit.Finding) {
	for _, f := range found {
		if f.Kind == audit.LikeUncounted && (l.w.book.abandoned(f.PK) || f.Mended && l.w.aged) {
			continue // the like's aggregator died, and the like's message grew too old
		}
		l.fail("audit", "a finding on a sound table: %s of %s / %s: %s, mended: %v", f.Kind, f.PK, f.SK, f.Detail, f.Mended)
	}
}

// checkAudit walks over the whole table of a quiet world. The walk must find nothing and decide every check.
func (w *World) checkAudit(ctx context.Context) {
	found, sum := w.auditAll(ctx, w.store, nil, audit.Walk{})
	w.load.findings(found)
	if sum.Undecided > 0 {
		w.load.fail("audit", "%d checks of a quiet table are undecided", sum.Undecided)
	}
}

// auditAll walks over the whole table with a right clock.
func (w *World) auditAll(ctx context.Context, store table.Store, feed audit.Feed, walk audit.Walk) (found []audit.Finding, sum audit.Summary) {
	config := w.audits
	config.Store, config.Local, config.Feed, config.Now = store, true, feed, time.Now
	config.Lifetimes = w.lifetimesNow()
	walk.Found = func(f audit.Finding) error { found = append(found, f); return nil }
	sum, err := audit.New(config).Run(ctx, walk)
	if err != nil {
		w.load.fail("audit", "%v", err)
	}
	return found, sum
}

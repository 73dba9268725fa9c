// Package audit checks the stored items against each other while the system runs, and repairs
// the damage that it finds: a lost or foreign item, a wrong count, an entry that a follower
// should have or should not have. fanfare verify uses it to walk over the whole table, and
// the auditor of a process does so all the time, slowly.
//
// # No false finding
//
// The first read of a check is cheap and may be stale: it only names suspects. A second read
// of a state of one moment makes a finding. It is a transaction of checks only, which succeeds
// if the table holds exactly the broken state. Every writer of the product changes such items
// in one transaction, or in an order without any state that counts as broken here. So a worker
// in the middle of its work makes no broken state. A count is compared with a list that is the
// same before and after the check of the count, and a like count with a ledger that is. If
// traffic changes the items of a check for too long, the check is undecided.
// docs/decisions/0027-audit.md has the argument for each kind.
//
// # It must never
//
//   - Write without a condition on the broken state, or in another way than the protocols do:
//     package feed makes follows, backfills, tombstones and removals (I1, I2).
//   - Set a count: it adds the difference once. Traffic changes a count and its list alike,
//     so the difference stays the same (I3, I4). A post's number of comments is removed
//     instead, because package feed counts the comments of a post without a number.
//   - Hold a list in memory (I9), or decide by age while the clock is in doubt.
//
// A repair may be repeated, and two verifications may run at once.
package audit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Finding is one damage.
type Finding struct {
	Kind Kind `json:"kind"`
	// PK and SK are the key of the wrong or missing item.
	PK string `json:"pk"`
	SK string `json:"sk"`
	// Detail describes the damage, Advice names the remedy.
	Detail string `json:"detail"`
	Advice string `json:"advice"`
	// Mended means that the damage was repaired.
	Mended bool `json:"mended"`
}

// Summary is the result of a walk, so far or of the whole walk.
type Summary struct {
	// Items is the number of items that were looked at. Undecided is the number of checks
	// that traffic or a conflict prevented.
	Items     int `json:"items"`
	Undecided int `json:"undecided"`
	// Found and Mended count the findings by kind.
	Found  map[Kind]int `json:"found"`
	Mended map[Kind]int `json:"mended"`
	// Left is the number of findings that were not mended.
	Left       int     `json:"left"`
	ReadUnits  float64 `json:"read_units"`
	WriteUnits float64 `json:"write_units"`
}

// Feed has the repairs that are flows of package feed.
type Feed interface {
	MendFollow(ctx context.Context, follower, author string) (bool, error)
	MendBlock(ctx context.Context, user, other string) (bool, error)
	BuryLost(ctx context.Context, post string) (bool, error)
	// EndKeptBlock and EndKeptMute end a user's block or mute of a user who has neither a
	// profile nor a note.
	EndKeptBlock(ctx context.Context, user, other string) (bool, error)
	EndKeptMute(ctx context.Context, user, author string) (bool, error)
	AskToPurge(ctx context.Context, author, post string)
}

// Config configures an Audit. Store, Feed, IDs, Now and Lifetimes are required.
type Config struct {
	Store table.Store
	// Local is true if the store is in this process: it shows all items of a transaction at once.
	Local bool
	Feed  Feed
	// IDs names repairs.
	IDs *id.Generator
	Now func() time.Time
	// Clock, if not nil, reports when Now is too uncertain to decide by age.
	Clock *clock.Clock
	// Lifetimes are how long homes show posts.
	Lifetimes *lifetime.View
	// LikesByUser means that likes are in the index of likes by user.
	LikesByUser bool
	// Most bounds the followers, likes and edges that one check looks at, 0 for no bound.
	// It checks a random part of the followers of a post, and skips other lists that are
	// longer.
	Most int
	// Random returns numbers from 0 up to 1, for waits and for Most. Default math/rand.
	Random func() float64
	// Log takes the failures of repairs. Default none.
	Log *zap.Logger
}

// Audit checks one table.
type Audit struct{ cfg Config }

// New returns an Audit.
func New(cfg Config) *Audit {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	return &Audit{cfg}
}

// Walk is one walk over the table.
type Walk struct {
	// Repair mends the findings.
	Repair bool
	// RestoredTo is the time that the table was restored to, zero for never. Nobody will do the
	// open work from before this time.
	RestoredTo time.Time
	// Tidy ends kept blocks and mutes whose time is over, removes actions that no longer hold from
	// notifications, and requests purges again whose event was lost. These are no findings, because a
	// late worker leaves the same state.
	Tidy bool
	// Spend is called after each call with its units, and waits as long as the walk should
	// wait. A nil Spend does not wait.
	Spend func(context.Context, table.Units) error
	// Found is called with each finding, and Progress after each page with the sum so far.
	// Both may be nil.
	Found    func(Finding) error
	Progress func(Summary) error
}

// pageSize is the number of items of a page of the walk.
const pageSize = 250

// Run walks over the whole table once. It fails if the clock is in doubt.
func (a *Audit) Run(ctx context.Context, w Walk) (Summary, error) {
	r := &run{Audit: a, walk: w, sum: Summary{Found: map[Kind]int{}, Mended: map[Kind]int{}}}
	for in := (table.ScanInput{PageSize: pageSize}); ; {
		if err := a.cfg.Clock.Doubt(); err != nil {
			return r.sum, fmt.Errorf("audit: %w", err)
		}
		page, err := a.cfg.Store.Scan(ctx, in)
		if err := r.spend(ctx, page.Units, err); err != nil {
			return r.sum, err
		}
		r.modes = map[string]schema.Mode{}
		for _, it := range page.Items {
			if table.Expired(it, a.cfg.Now().Add(margin)) { // it may expire at any moment
				continue
			}
			if err := r.item(ctx, it); err != nil {
				return r.sum, err
			}
			if err := r.judge(ctx, false); err != nil {
				return r.sum, err
			}
			r.sum.Items++
		}
		last := page.Next == table.Key{}
		if err := r.judge(ctx, last); err != nil {
			return r.sum, err
		}
		if w.Progress != nil {
			if err := w.Progress(r.sum); err != nil {
				return r.sum, err
			}
		}
		if in.After = page.Next; last {
			return r.sum, nil
		}
	}
}

// margin is how long before its expiry an item is no longer checked, because clocks
// differ.
const margin = 10 * time.Minute

// run is a running walk.
type run struct {
	*Audit
	walk Walk
	sum  Summary
	// user is the last user whose counts were checked. modes are the modes of the page's
	// authors.
	user  string
	modes map[string]schema.Mode
	// suspects are the counts that judge has not decided yet, the oldest first.
	suspects []suspect
}

// item makes the checks that begin with an item. It skips items of other kinds, and items
// that a later version wrote.
func (r *run) item(ctx context.Context, it table.Item) error {
	pk, sk := it.Key.PK, it.Key.SK
	rest, isUser := strings.CutPrefix(pk, "u#")
	owner, list, _ := strings.Cut(rest, "#")
	switch {
	case isUser && list == "":
		return r.userItem(ctx, owner)
	case isUser && list == "follower":
		return r.followerItem(ctx, owner, it)
	case isUser && list == "following":
		return r.followingItem(ctx, owner, it)
	case isUser && list == "post":
		return r.postItem(ctx, it)
	case isUser && list == "timeline":
		return r.entryItem(ctx, owner, it)
	case isUser && list == "block":
		if err := r.keptBlock(ctx, it); err != nil {
			return err
		}
		return r.blockItem(ctx, it)
	case isUser && list == "notif":
		return r.noticeItem(ctx, it)
	case isUser && list == "home":
		if err := r.keptMute(ctx, it); err != nil {
			return err
		}
		return r.markItem(ctx, owner, it)
	case isUser || !strings.HasPrefix(pk, "p#"):
		return nil
	}
	_, list, _ = strings.Cut(strings.TrimPrefix(pk, "p#"), "#") // the post itself has no list
	switch {
	case list == "" && sk == schema.SortInfo:
		return r.refItem(ctx, it)
	case list == "comment":
		return r.commentItem(ctx, it)
	case strings.HasPrefix(list, "likelist"):
		return r.likeItem(ctx, it)
	case list == "delivery" && sk == schema.SortPlan:
		return r.planItem(ctx, it)
	}
	return nil
}

// found makes a finding and repairs it. mend reports whether it made the repair; it is
// nil if there is no repair.
func (r *run) found(ctx context.Context, kind Kind, key table.Key, detail string, mend func() (bool, error)) error {
	f := Finding{Kind: kind, PK: key.PK, SK: key.SK, Detail: detail, Advice: kind.advice()}
	if r.walk.Repair && mend != nil {
		var err error
		if f.Mended, err = mend(); err != nil {
			if ctx.Err() != nil {
				return err
			}
			f.Advice = "the repair failed, run it again: " + err.Error()
			r.cfg.Log.Warn("a repair failed", zap.String("kind", string(kind)), zap.String("pk", key.PK), zap.String("sk", key.SK), zap.Error(err))
		}
	}
	r.sum.Found[kind]++
	if f.Mended {
		r.sum.Mended[kind]++
	} else {
		r.sum.Left++
	}
	if r.walk.Found != nil {
		return r.walk.Found(f)
	}
	return nil
}

// spend adds up the units of a call and returns its error.
func (r *run) spend(ctx context.Context, units table.Units, err error) error {
	r.sum.ReadUnits += units.Read
	r.sum.WriteUnits += units.Write
	if err != nil || r.walk.Spend == nil {
		return err
	}
	return r.walk.Spend(ctx, units)
}

// get reads items by key.
func (r *run) get(ctx context.Context, consistent bool, keys ...table.Key) (map[table.Key]table.Item, error) {
	res, err := r.cfg.Store.BatchGet(ctx, table.BatchGetInput{Keys: keys, Consistent: consistent})
	found := make(map[table.Key]table.Item, len(res.Items))
	for _, it := range res.Items {
		found[it.Key] = it
	}
	return found, r.spend(ctx, res.Units, err)
}

// each calls do for each item of a query.
func (r *run) each(ctx context.Context, q table.Query, do func(table.Item) error) error {
	for page, err := range r.cfg.Store.Query(ctx, q) {
		if err := r.spend(ctx, page.Units, err); err != nil {
			return err
		}
		for _, it := range page.Items {
			if err := do(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostConflicts is how often a transaction is tried when it conflicts.
const mostConflicts = 5

// transact makes all of ops, and returns false if a condition does not hold. If the
// transaction conflicts too often, the check is undecided.
func (r *run) transact(ctx context.Context, ops ...table.TransactOp) (bool, error) {
	waits := backoff.Exponential{First: 20 * time.Millisecond, Most: time.Second}
	for attempt := 1; ; attempt++ {
		res, err := r.cfg.Store.Transact(ctx, table.TransactInput{Ops: ops})
		cancelled, ok := errors.AsType[*table.CancelledError](err)
		if !ok {
			return err == nil, r.spend(ctx, res.Units, err)
		}
		if err := r.spend(ctx, cancelled.Units, nil); err != nil || !cancelled.Retryable() {
			return false, err
		}
		if attempt == mostConflicts {
			r.sum.Undecided++
			return false, nil
		}
		if err := backoff.Wait(ctx, waits.Jittered(attempt, r.cfg.Random())); err != nil {
			return false, err
		}
	}
}

// check returns a condition on an item, for transact.
func check(key table.Key, cond table.Cond) table.TransactOp {
	return table.TransactOp{Check: &table.CheckInput{Key: key, If: cond}}
}

// same holds while an attribute of an item is unchanged since the read.
func same(it table.Item, name string) table.Cond {
	if !it.Has(name) {
		return table.All{table.Exists{}, table.AttrAbsent{Name: name}}
	}
	return table.Equal{Name: name, Value: it.Get(name)}
}

// living holds for a post by id that was not deleted.
func living() table.Cond {
	return table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrDeleted}}
}

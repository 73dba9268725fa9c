// Package audit checks the stored items against each other while the system runs, and repairs
// damage: a lost or foreign item, a wrong count, an entry that a follower should have or
// should not have. fanfare verify walks over the whole table with package audit, and the
// auditor of a process walks all the time, slowly.
//
// # No false finding
//
// The first read of a check is cheap and may be stale, so it only names suspects. A transaction
// of checks then confirms a finding: it succeeds only if, at one moment, the table holds exactly
// the broken state. Every writer of the product changes such items in one transaction, or in an
// order in which no state between two writes counts as broken. So the unfinished work of a
// worker is never a broken state. A count is compared with a list that is the same before and
// after the check of the count. A like count is compared with a ledger that is the same before
// and after the read of the likes. If traffic changes the items of a check for too long, the
// check is undecided. docs/decisions/0027-audit.md has the argument for each kind.
//
// # Package audit must never
//
//   - Write without a condition on the broken state, or in another way than the protocols do:
//     package feed makes follows, backfills, tombstones and removals (I1, I2).
//   - Set a count. A repair adds the difference once: traffic changes a count and its list by
//     the same number, so the difference stays the same (I3, I4).
//   - Hold a list in memory (I9), or decide by age while the clock is in doubt.
//
// A repair may be repeated, and two verifications may run at the same time.
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

// Finding describes one damage.
type Finding struct {
	Kind Kind `json:"kind"`
	// PK and SK are the key of the wrong or missing item.
	PK string `json:"pk"`
	SK string `json:"sk"`
	// Detail describes the damage, and Advice names the remedy.
	Detail string `json:"detail"`
	Advice string `json:"advice"`
	// Mended means that the damage was repaired.
	Mended bool `json:"mended"`
}

// Summary has the results of a walk. During the walk it has the results so far.
type Summary struct {
	// Items is the number of checked items. Undecided is the number of checks that traffic
	// or a conflict prevented.
	Items     int `json:"items"`
	Undecided int `json:"undecided"`
	// Found and Mended count the findings by kind.
	Found  map[Kind]int `json:"found"`
	Mended map[Kind]int `json:"mended"`
	// Left is the number of findings that were not repaired.
	Left       int     `json:"left"`
	ReadUnits  float64 `json:"read_units"`
	WriteUnits float64 `json:"write_units"`
}

// Feed has the repairs that package feed makes.
type Feed interface {
	MendFollow(ctx context.Context, follower, author string) (bool, error)
	MendBlock(ctx context.Context, user, other string) (bool, error)
	BuryLost(ctx context.Context, post string) (bool, error)
	// EndKeptBlock and EndKeptMute end the block or the mute that user made against other,
	// if other has neither a profile nor a note.
	EndKeptBlock(ctx context.Context, user, other string) (bool, error)
	EndKeptMute(ctx context.Context, user, author string) (bool, error)
	AskToPurge(ctx context.Context, author, post string)
	AskToCount(ctx context.Context, repost schema.Post)
}

// Config configures an Audit. Store, Feed, IDs, Now and Lifetimes are required.
type Config struct {
	Store table.Store
	// Local is true if the store is in this process: it shows all items of a transaction at once.
	Local bool
	Feed  Feed
	// IDs makes the names of repairs.
	IDs *id.Generator
	Now func() time.Time
	// Clock, if not nil, reports when Now is too uncertain to decide by age.
	Clock *clock.Clock
	// Lifetimes is the time for which homes show posts.
	Lifetimes *lifetime.View
	// LikesByUser means that the index of likes by user is on.
	LikesByUser bool
	// Most is the maximum number of followers, likes or edges that one check reads, 0 for
	// no limit. A check reads a random part of a post's followers, and skips other lists
	// that are longer than Most.
	Most int
	// Random returns numbers from 0 up to 1, for waits and for random parts of lists. The
	// default is math/rand.
	Random func() float64
	// Log gets the failures of repairs. The default logs nothing.
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

// Walk has the settings of one walk over the table.
type Walk struct {
	// Repair means that the walk repairs the findings.
	Repair bool
	// RestoredTo is the time to which the table was restored, zero if it never was. Nobody will
	// do work that was unfinished at this time.
	RestoredTo time.Time
	// Tidy ends kept blocks and mutes whose time is over, removes actions that no longer hold from
	// notifications, and requests a purge again if its event was lost. None of these states is a
	// finding, because a late worker leaves the same state.
	Tidy bool
	// Spend is called after each call with the units of the call, and delays the walk as
	// long as necessary. If Spend is nil, the walk never waits.
	Spend func(context.Context, table.Units) error
	// Found is called with each finding. Progress is called after each page with the
	// summary so far. Both functions may be nil.
	Found    func(Finding) error
	Progress func(Summary) error
}

// pageSize is the number of items of a page of the walk.
const pageSize = 250

// Run walks over the whole table once. It returns an error if the clock is in doubt.
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
			if table.Expired(it, a.cfg.Now().Add(margin)) { // the item may expire at any moment
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

// margin is the time before its expiry in which an item is not checked, because clocks differ.
const margin = 10 * time.Minute

// run is a walk in progress.
type run struct {
	*Audit
	walk Walk
	sum  Summary
	// user is the last user whose counts were checked. modes are the modes of the authors
	// on the current page.
	user  string
	modes map[string]schema.Mode
	// suspects are the counts that judge has not decided yet, the oldest first.
	suspects []suspect
}

// item makes the checks that begin with an item. It skips items of other kinds, and items
// that a later version has written.
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
	_, list, _ = strings.Cut(strings.TrimPrefix(pk, "p#"), "#") // the post by id has no list
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

// found reports a finding, and repairs the damage. mend makes the repair, and reports
// whether it did. A nil mend means that there is no repair.
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

// spend adds the units of a call to the sum, and returns the error of the call.
func (r *run) spend(ctx context.Context, units table.Units, err error) error {
	r.sum.ReadUnits += units.Read
	r.sum.WriteUnits += units.Write
	if err != nil || r.walk.Spend == nil {
		return err
	}
	return r.walk.Spend(ctx, units)
}

// get reads the items with the given keys.
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

// mostConflicts is the maximum number of attempts of a transaction that conflicts with other writes.
const mostConflicts = 5

// transact executes ops as one transaction, and returns false if a condition does not hold.
// If the transaction conflicts too often, transact counts an undecided check.
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

// check returns an operation of transact that checks a condition on an item.
func check(key table.Key, cond table.Cond) table.TransactOp {
	return table.TransactOp{Check: &table.CheckInput{Key: key, If: cond}}
}

// same returns a condition that holds while the attribute name of an item is unchanged
// since the item was read.
func same(it table.Item, name string) table.Cond {
	if !it.Has(name) {
		return table.All{table.Exists{}, table.AttrAbsent{Name: name}}
	}
	return table.Equal{Name: name, Value: it.Get(name)}
}

// living returns a condition that holds for a post by id that was not deleted.
func living() table.Cond {
	return table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrDeleted}}
}

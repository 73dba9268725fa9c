// Package lifetime gives a process its view of the time for which homes show posts. The table
// stores this time as a decision, and every process uses the decision in place of its own setting.
// The package must never decide for a process that only reads, or let a process act by a view that
// is older than viewUsable (I2).
package lifetime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

const (
	// viewFresh is the age at which a view is due to be read again. So the lifetimes cost a process
	// one read unit a minute, however many requests it serves.
	viewFresh = time.Minute
	// viewUsable is the maximum age of a view in use, for times when reads of the item fail. It is
	// far shorter than the time from a decision until the decision is in force.
	viewUsable = 15 * time.Minute
	// viewRetry is the time between a failed read and the next one.
	viewRetry = 5 * time.Second
)

// Config holds the parts of a View. Store, Now and TTL are required.
type Config struct {
	Store table.Store
	Now   func() time.Time
	// Clock, if not nil, reports when Now is too uncertain to decide.
	Clock *clock.Clock
	// TTL is the process's own setting, which Decide stores. It counts as decided while the
	// table has no decision.
	TTL time.Duration
	// Log gets the changes. By default nothing is logged.
	Log *zap.Logger
}

// View is a process's view of the lifetimes. Its methods may be called at the same time.
type View struct {
	cfg Config
	// reading has a value while a request reads the item.
	reading chan struct{}
	seen    atomic.Pointer[seen]
}

// seen holds the lifetimes of the last successful read, and the time of a later failed
// read.
type seen struct {
	lifetimes    schema.Lifetimes
	read, failed time.Time
}

// New returns a View. It reads nothing yet.
func New(cfg Config) *View {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &View{cfg: cfg, reading: make(chan struct{}, 1)}
}

// Fixed returns a View with one TTL that never changes, for a table of one process.
func Fixed(ttl time.Duration) *View {
	v := New(Config{TTL: ttl})
	v.seen.Store(&seen{lifetimes: schema.Lifetimes{}.Decided(ttl, time.Time{})})
	return v
}

// Current returns the lifetimes. Once a minute one request reads the item, while other requests
// use the previous view. If that view is too old to be used, for example after a sleep of the
// process, all requests wait.
func (v *View) Current(ctx context.Context) (schema.Lifetimes, error) {
	if known, usable, due := v.known(); usable {
		if !due {
			return known, nil
		}
		select {
		case v.reading <- struct{}{}:
		default:
			return known, nil
		}
	} else {
		select {
		case v.reading <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer func() { <-v.reading }()
	if known, usable, due := v.known(); usable && !due {
		return known, nil // another request has read the item
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return nil, context.DeadlineExceeded // this request timed out together with the request that read
	}
	_, err := v.read(ctx)
	known, usable, _ := v.known()
	if err != nil && usable {
		v.cfg.Log.Warn("the TTL of homes was not read: the former one is used", zap.Error(err))
		return known, nil
	}
	return known, err
}

// known returns the present view. It reports whether the view may be used, and whether it should be read
// again.
func (v *View) known() (l schema.Lifetimes, usable, due bool) {
	at := v.seen.Load()
	if at == nil {
		return nil, false, true
	}
	if v.cfg.Store == nil {
		return at.lifetimes, true, false
	}
	now := v.cfg.Now()
	age := now.Sub(at.read)
	usable = age >= 0 && age < viewUsable // a negative age means that the clock was set back
	return at.lifetimes, usable, age < 0 || age >= viewFresh && now.Sub(at.failed) >= viewRetry
}

// read reads the item and uses it as the view. The read is consistent, because a stale item
// could be very old. stored reports whether the item exists.
func (v *View) read(ctx context.Context) (stored bool, err error) {
	began := v.cfg.Now()
	res, err := v.cfg.Store.Get(ctx, table.GetInput{Key: schema.LifetimesKey(), Consistent: true})
	lifetimes := schema.Lifetimes{}.Decided(v.cfg.TTL, began)
	if err == nil && res.Item != nil {
		lifetimes, err = schema.ParseLifetimes(*res.Item)
	}
	if err != nil {
		if at := v.seen.Load(); at != nil {
			v.seen.Store(&seen{at.lifetimes, at.read, began})
		}
		return false, fmt.Errorf("read the TTL of homes: %w", err)
	}
	v.seen.Store(&seen{lifetimes: lifetimes, read: began})
	return res.Item != nil, nil
}

// Keep stores the process's own setting if the table has no decision. A process that writes entries
// beside the daemons calls Keep.
func (v *View) Keep(ctx context.Context) error {
	return v.store(ctx, func(schema.Lifetimes) bool { return false })
}

// Decide stores the process's own setting as the last decision, before the process serves.
// If the clock is in doubt, it decides nothing.
func (v *View) Decide(ctx context.Context) error {
	return v.store(ctx, func(stored schema.Lifetimes) bool {
		if err := v.cfg.Clock.Doubt(); err != nil {
			v.cfg.Log.Warn("FANFARE_TIMELINE_TTL was not compared with the table", zap.Stringer("stored", stored), zap.Error(err))
			return false
		}
		return true
	})
}

// store stores the process's own setting if the table has no decision, or if mayChange allows the
// process to replace the decision.
func (v *View) store(ctx context.Context, mayChange func(schema.Lifetimes) bool) error {
	for {
		stored, err := v.read(ctx)
		if err != nil {
			return err
		}
		now, same := v.seen.Load().lifetimes, table.Cond(table.Absent{})
		next := now
		if stored {
			if !mayChange(now) {
				return nil
			}
			next, same = now.Decided(v.cfg.TTL, v.cfg.Now()), table.Equal{Name: schema.AttrLifetimes, Value: table.S(now.String())}
			if next.String() == now.String() {
				return nil
			}
		}
		began := v.cfg.Now() // another process may decide between the put and its answer
		_, err = v.cfg.Store.Put(ctx, table.PutInput{Item: next.Item(), If: same})
		if _, other := errors.AsType[*table.ConditionError](err); other {
			continue // another process has decided, or an earlier try of this write had an effect
		}
		if err != nil {
			return fmt.Errorf("store the TTL of homes: %w", err)
		}
		if stored {
			last := next[len(next)-1]
			v.cfg.Log.Info("the TTL of homes changes", zap.Duration("ttl", last.TTL), zap.Time("from", last.From))
		}
		v.seen.Store(&seen{lifetimes: next, read: began})
		return nil
	}
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/awsclient"
	"fanfare/internal/backoff"
	"fanfare/internal/lifetime"
	"fanfare/internal/obs"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

// waitLogged is the time between two log lines of a start that waits.
const waitLogged = time.Minute

// noteTime is the timeout for the note of a process's settings.
const noteTime = 5 * time.Second

// startRetries returns the waits between two checks of the dependencies at a start.
func startRetries() backoff.Exponential {
	return backoff.Exponential{First: 250 * time.Millisecond, Most: 5 * time.Second}
}

// awaitDependencies runs all checks, and returns when the needed dependencies answer
// (admin.Check). It waits for a needed dependency that is away: a process that ended would be
// restarted, and a process that served could only refuse requests. It does not wait for other
// dependencies. Its error names the dependencies that only an operator can repair, and the
// needed dependencies that were away when ctx ended.
func awaitDependencies(ctx context.Context, health *admin.Health, log *zap.Logger) error {
	// reasons has the last real failure of each dependency, because a timeout hides the cause.
	reasons := map[string]error{}
	var logged time.Time
	for looks := 1; ; looks++ {
		var needed, rest, refused []string
		for _, f := range health.Failing(ctx) {
			if f.Warn {
				continue
			}
			if reasons[f.Name] == nil || !errors.Is(f.Err, context.DeadlineExceeded) && !errors.Is(f.Err, context.Canceled) {
				reasons[f.Name] = f.Err
			}
			switch {
			case isPermanent(f.Err):
				refused = append(refused, f.Name)
			case f.Needed:
				needed = append(needed, f.Name)
			default:
				rest = append(rest, f.Name)
			}
		}
		if len(refused) > 0 {
			return unusable(refused, reasons)
		}
		if len(needed) == 0 {
			for _, name := range rest {
				log.Warn("started without a dependency that does not answer", zap.String("dependency", name), zap.Error(reasons[name]))
			}
			return nil
		}
		if logged.IsZero() || time.Since(logged) >= waitLogged {
			logged = time.Now()
			for _, name := range needed {
				log.Warn("waiting for a dependency", zap.String("dependency", name), zap.Error(reasons[name]))
			}
		}
		if backoff.Wait(ctx, startRetries().Bound(looks)) != nil {
			return unusable(needed, reasons)
		}
	}
}

// decideLifetimes reads the time for which homes show posts, before the process serves. A
// process that writes entries stores its own setting as the newest decision.
func (p *process) decideLifetimes(ctx context.Context) error {
	p.lifetimes = lifetime.New(lifetime.Config{
		Store: table.Measure(p.eng.store, p.metrics.Table(obs.FlowFanout)), Now: p.opt.Now, Clock: p.clock, TTL: p.cfg.TimelineTTL, Log: p.work,
	})
	for tries := 1; ; tries++ {
		var err error
		if p.opt.Roles.API || p.opt.Roles.Fanout {
			err = p.lifetimes.Decide(ctx)
		} else {
			_, err = p.lifetimes.Current(ctx)
		}
		if err == nil || isPermanent(err) {
			return err
		}
		p.work.Warn("waiting for the TTL of homes", zap.Error(err))
		if backoff.Wait(ctx, startRetries().Bound(tries)) != nil {
			return err
		}
	}
}

// noteSettings stores the settings that all daemons must share, for fanfare doctor. A process on the embedded engine
// shares its settings with no other process. Nothing depends on the note, so the start does not wait for the note.
func (p *process) noteSettings(ctx context.Context) {
	if p.eng.local {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	store := table.Measure(p.eng.store, p.metrics.Table(obs.FlowFanout))
	for _, role := range p.opt.Roles.Names() {
		note := schema.Settings{Role: role, At: p.opt.Now(), Values: p.cfg.Shared(role)}
		if _, err := store.Put(ctx, table.PutInput{Item: note.Item()}); err != nil {
			p.work.Warn("the settings of this process are not known to fanfare doctor", zap.Error(err))
			return
		}
	}
}

// unusable returns the error of a start that cannot use the named dependencies.
func unusable(names []string, reasons map[string]error) error {
	var errs []error
	for _, name := range names {
		err := reasons[name]
		if !strings.HasPrefix(err.Error(), name+": ") {
			err = fmt.Errorf("%s: %w", name, err)
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("%s cannot be used: %w", strings.Join(names, " and "), errors.Join(errs...))
}

// isPermanent reports whether only an operator can end a failure at the start.
func isPermanent(err error) bool {
	_, shaped := errors.AsType[*dynamo.SchemaError](err)
	_, formatted := errors.AsType[*dynamo.FormatError](err)
	return shaped || formatted || awsclient.Refused(err)
}

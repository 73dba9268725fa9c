package daemon

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/internal/admin"
	"fanfare/internal/id"
	"fanfare/internal/obs"
	"fanfare/internal/ops/audit"
	"fanfare/internal/table"
)

// verifier is a walk of package audit as the admin address offers it.
type verifier struct{ audit *audit.Audit }

func (v verifier) Verify(ctx context.Context, in admin.Verification, event func(admin.VerifyEvent) error) (admin.Verified, error) {
	sum, err := v.audit.Run(ctx, audit.Walk{
		Repair: in.Repair, Spend: audit.Rate(in.Rate),
		Found: func(f audit.Finding) error {
			return event(admin.VerifyEvent{Finding: &admin.Finding{
				Kind: string(f.Kind), PK: f.Key.PK, SK: f.Key.SK, Detail: f.Detail, Advice: f.Advice, Mended: f.Mended,
			}})
		},
		Progress: func(sum audit.Summary) error { return event(admin.VerifyEvent{Progress: new(verified(sum))}) },
	})
	return verified(sum), err
}

func verified(sum audit.Summary) admin.Verified {
	v := admin.Verified{
		Items: sum.Items, Undecided: sum.Undecided, Found: map[string]int{}, Mended: map[string]int{}, Left: sum.Left(),
		ReadUnits: sum.Units.Read, WriteUnits: sum.Units.Write,
	}
	for kind, n := range sum.Found {
		v.Found[string(kind)] = n
	}
	for kind, n := range sum.Mended {
		v.Mended[string(kind)] = n
	}
	return v
}

// auditOf returns the configuration of the audits of a process. Their calls are a flow of
// their own, and their writes wait like those of backfills.
func (p *process) auditOf(eng *engine, metrics *obs.Metrics, ids *id.Generator) audit.Config {
	store := p.pace.Store(table.Measure(eng.store, metrics.Table(obs.FlowAudit)), table.UrgencyBackfills)
	return audit.Config{
		Store: store, Feed: p.newFeed(eng, store, metrics, ids), IDs: ids, Now: p.opt.Now, Clock: p.clock,
		TimelineTTL: p.cfg.TimelineTTL, LikesByUser: bool(p.cfg.LikesByUser), Log: p.log.Named("audit"),
	}
}

// startAuditor starts the auditor of a process, if the configuration asks for one.
func (p *process) startAuditor(roots *roots, cfg audit.Config, reg prometheus.Registerer, metrics *obs.Metrics) error {
	if !p.cfg.HasAuditor() {
		return nil
	}
	kinds := make([]string, 0, len(audit.Kinds()))
	for _, kind := range audit.Kinds() {
		kinds = append(kinds, string(kind))
	}
	seen, err := obs.NewAudit(reg, kinds)
	if err != nil {
		return err
	}
	a := &audit.Auditor{
		Config: cfg, Used: metrics.Units, Looked: seen.Looked,
		Found: func(f audit.Finding) { seen.Found(string(f.Kind)) },
		Ended: func(audit.Summary) { seen.Ended(p.opt.Now()) },
	}
	roots.start("auditor", a.Run)
	return nil
}

package daemon

import (
	"fanfare/internal/obs"
	"fanfare/internal/ops/audit"
	"fanfare/internal/table"
	"fanfare/internal/throttle"
)

// auditOf returns the configuration of the audits of a process. The calls of the audits are a flow
// of their own, and the writes of the audits wait in the same way as the writes of backfills.
func (p *process) auditOf() audit.Config {
	store := p.shares.Store(table.Measure(p.eng.store, p.metrics.Table(obs.FlowAudit)), throttle.Backfills)
	return audit.Config{
		Store: store, Local: p.eng.local, Feed: p.newDomain(store).feed, IDs: p.ids, Now: p.opt.Now, Clock: p.clock,
		Lifetimes: p.lifetimes, LikesByUser: bool(p.cfg.LikesByUser), Log: p.work.Named("audit"),
	}
}

// startAuditor starts the auditor of a process, if the configuration enables it.
func (p *process) startAuditor(cfg audit.Config) error {
	if !p.cfg.Auditor {
		return nil
	}
	kinds := make([]string, 0, len(audit.Kinds()))
	for _, kind := range audit.Kinds() {
		kinds = append(kinds, string(kind))
	}
	seen, err := obs.NewAudit(p.reg, kinds)
	if err != nil {
		return err
	}
	a := &audit.Auditor{
		Config: cfg, Used: p.metrics.Units, Looked: seen.Looked,
		Found: func(f audit.Finding) { seen.Found(string(f.Kind)) },
		Ended: func(audit.Summary) { seen.Ended(p.opt.Now()) },
	}
	p.roots.start("auditor", a.Run)
	return nil
}

package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"fanfare/internal/id"
	"fanfare/internal/obs"
	"fanfare/internal/ops/canary"
	"fanfare/internal/table"
)

// startCanary starts the canary of an API, if the configuration asks for one. Its calls are
// counted with those of the API, and wait for nobody under throttling, as they do.
func (p *process) startCanary(roots *roots, eng *engine, reg prometheus.Registerer, metrics *obs.Metrics, ids *id.Generator) error {
	if !p.opt.Roles.API || !p.cfg.HasCanary() {
		return nil
	}
	seen, err := obs.NewCanary(reg, canary.Steps())
	if err != nil {
		return err
	}
	store := p.pace.Store(table.Measure(eng.store, metrics.Table(obs.FlowAPI)), table.UrgencyAPI)
	c := &canary.Canary{
		Feed: p.newFeed(eng, store, metrics, ids), Passed: seen.Passed, Failed: seen.Failed, Log: p.log.Named("canary"),
	}
	roots.start("canary", c.Run)
	return nil
}

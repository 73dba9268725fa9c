package daemon

import (
	"fanfare/internal/config"
	"fanfare/internal/obs"
	"fanfare/internal/ops/canary"
	"fanfare/internal/table"
	"fanfare/internal/throttle"
)

// startCanary starts the canary of an API, if the configuration enables the canary. The
// calls of the canary are counted with the API's calls, and like the API's calls they never
// wait under throttling.
func (p *process) startCanary() error {
	if !p.opt.Roles.API || !bool(p.cfg.Canary) {
		return nil
	}
	seen, err := obs.NewCanary(p.reg, canary.Steps())
	if err != nil {
		return err
	}
	store := p.shares.Store(table.Measure(p.eng.store, p.metrics.Table(obs.FlowAPI)), throttle.API)
	users := p.newDomain(store)
	c := &canary.Canary{
		Feed: users.feed, Homes: users.homes, Passed: seen.Passed, Failed: seen.Failed, Log: p.log.Named("canary"),
	}
	if p.cfg.Engine == config.EngineAWS { // the alarm of AWS counts the lines
		c.Alive = func() { p.log.Info(obs.CanaryPasses) }
	}
	p.roots.start("canary", c.Run)
	return nil
}

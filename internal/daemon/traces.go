package daemon

import (
	"context"

	"fanfare/internal/trace/otlp"
)

// openTraces opens the traces of the process, if the environment enables traces.
func (p *process) openTraces(ctx context.Context) (err error) {
	service := "fanfare"
	switch p.opt.Roles {
	case Roles{API: true}:
		service = "fanfare-api"
	case Roles{Fanout: true}:
		service = "fanfare-fanout"
	case Roles{Likes: true}:
		service = "fanfare-likeagg"
	}
	p.traces, err = otlp.Open(ctx, p.opt.Environ, service, p.opt.Version, p.log.Named("traces"))
	if p.traces != nil {
		p.cleanups.add("traces", p.traces.Close) // the traces need a part of the time for the stop
	}
	return err
}

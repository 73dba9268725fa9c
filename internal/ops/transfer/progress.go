package transfer

import (
	"context"
	"math"
	"sync"

	"golang.org/x/time/rate"

	"fanfare/internal/table"
)

// Progress is the state of one phase of a transfer.
type Progress struct {
	Phase string `json:"phase"`
	Done  int    `json:"done"`
	// Total is 0 if the number is unknown.
	Total int  `json:"total,omitempty"`
	Ended bool `json:"ended,omitempty"`
}

// meter sums the write units of an import.
type meter struct {
	mu    sync.Mutex
	write float64
}

func (m *meter) add(units float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write += units
}

func (m *meter) units() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.write
}

// pay returns a function that delays each caller for its write units, so that the import obeys Rate.
func (im *importer) pay(ctx context.Context) func(context.Context, table.Op, table.Units, error) {
	var limit *rate.Limiter
	if im.cfg.Rate > 0 {
		limit = rate.NewLimiter(rate.Limit(im.cfg.Rate), max(1, int(im.cfg.Rate)))
	}
	return func(_ context.Context, _ table.Op, u table.Units, _ error) {
		im.spent.add(u.Write)
		for units := int(math.Ceil(u.Write)); limit != nil && units > 0; units -= limit.Burst() {
			if limit.WaitN(ctx, min(units, limit.Burst())) != nil {
				return // the import was stopped
			}
		}
	}
}

// phase reports the progress of one phase of a transfer.
type phase struct {
	report func(Progress)
	mu     sync.Mutex
	state  Progress
}

func (im *importer) phase(k kind) *phase {
	return newPhase(im.cfg.Progress, string(k)+"s", im.index.counts[k])
}

func newPhase(report func(Progress), name string, total int) *phase {
	return &phase{report: report, state: Progress{Phase: name, Total: total}}
}

func (p *phase) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Done += n
	p.report(p.state)
}

func (p *phase) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Ended = true
	p.report(p.state)
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/table"
)

// command is a command that an operator repeats until it succeeds.
type command struct {
	p    *Proc
	name string
	runs int
	// running is closed at the end of the present run. It is nil between two runs.
	running chan struct{}
	err     error
	done    bool
}

// steady is a table whose client retries reads, as the client of AWS does. It sorts the keys of a
// batch, so that a command that collects keys in a map makes the same calls in each run.
type steady struct{ table.Store }

func (s steady) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	in.Keys = slices.Clone(in.Keys)
	slices.SortFunc(in.Keys, compareKeys)
	return again(ctx, func() (table.BatchGetResult, error) { return s.Store.BatchGet(ctx, in) })
}

func (s steady) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	return again(ctx, func() (table.GetResult, error) { return s.Store.Get(ctx, in) })
}

func (s steady) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	return again(ctx, func() (table.ScanPage, error) { return s.Store.Scan(ctx, in) })
}

// Query retries the read of a page that had no answer.
func (s steady) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for more := true; more; {
			page, err := again(ctx, func() (page table.Page, err error) {
				for page, err = range s.Store.Query(ctx, q) {
					break
				}
				return page, err
			})
			if more = err == nil && page.More && len(page.Items) > 0; more {
				q.After = page.Items[len(page.Items)-1].Key.SK
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

// again repeats a call until the table answers, five times at most.
func again[R any](ctx context.Context, do func() (R, error)) (res R, err error) {
	for try := range 5 {
		if res, err = do(); err == nil || !isUnavailable(err) {
			return res, err
		}
		select {
		case <-ctx.Done():
			return res, err
		case <-time.After(time.Second << try):
		}
	}
	return res, err
}

// transfers returns the settings of the commands of a process.
func (w *World) transfers(store table.Store, now func() time.Time) transfer.Config {
	var mu sync.Mutex
	drawn := random(w.rng.Uint64())
	return transfer.Config{
		Store: steady{store}, Now: now, TTL: timelineTTL, LikeWindow: likeWindow, LikesByUser: w.seed%2 == 0, PushLimit: w.pushLimit(),
		ActiveDays: w.activeDays(), Writers: 2, PageSize: w.shape.Page, AtOnce: 1, IDs: id.NewSeededGenerator(now, entropy(w.rng.Uint64())),
		Random: func() uint64 {
			mu.Lock()
			defer mu.Unlock()
			return drawn()
		},
	}
}

// operate handles the ends of commands, and runs failed commands again. It never repeats an export
// that succeeded. It does repeat an import that succeeded, because the repeated import must change
// nothing.
func (m *moves) operate() {
	w := m.w
	for _, c := range m.commands() {
		if m.ended(c); c.running != nil || !c.p.up() || c == m.exporter && c.done {
			continue
		}
		w.aboutStep("operate " + c.p.Name)
		if w.rng.IntN(100) > 0 {
			continue
		}
		switch c {
		case m.exporter:
			m.export(c)
		case m.reconciler: // reconcile also handles posts whose delivery is running
			service := m.service
			m.run(c, func(ctx context.Context) error {
				_, err := service.Reconcile(ctx, c.p.Now().Add(-2*time.Hour), c.p.Now().Add(time.Hour), "", 100)
				return err
			})
		default:
			m.runImport(c)
		}
	}
}

// ended handles the end of a run.
func (m *moves) ended(c *command) {
	if c.running == nil {
		return
	}
	select {
	case <-c.running:
	default:
		return
	}
	c.running, c.done = nil, c.err == nil
	text := "nil"
	if c.err != nil {
		text = strings.ReplaceAll(c.err.Error(), m.dir, "")
	}
	m.w.note("end %s of %s: %s", c.name, c.p.Name, text)
	if invalid, ok := errors.AsType[*transfer.InvalidError](c.err); ok {
		m.w.load.fail("I5", "an import refuses sound files: %s", strings.ReplaceAll(strings.Join(invalid.Faults, "; "), m.dir, ""))
	}
	if c == m.exporter && c.done {
		m.checkExportBeside()
	}
}

// run begins a run of a command in its process.
func (m *moves) run(c *command, do func(ctx context.Context) error) {
	c.runs++
	c.running, c.err = make(chan struct{}), nil
	name := fmt.Sprintf("%s-%s-%d", c.name, c.p.Name, c.runs)
	m.w.note("start %s", name)
	ended, ctx := c.running, withOp(c.p.life.ctx, name)
	c.p.run(func() {
		c.err = do(ctx)
		close(ended)
	})
	m.w.settle()
}

func (m *moves) runImport(c *command) {
	cfg := m.w.transfers(c.p.Store(), c.p.Now)
	m.run(c, func(ctx context.Context) error {
		_, err := transfer.Import(ctx, cfg, []string{m.file})
		return err
	})
}

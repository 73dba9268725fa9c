package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/obs"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
)

// engine is a table and a queue, with the settings of a process that uses them.
type engine struct {
	store  table.Store
	broker queue.Broker
	checks []admin.Check
	// stalls count the write stalls of each embedded store.
	stalls map[string]func() disk.Stalls
	// writers bounds the concurrent requests for one page of entries.
	writers int
	// pageSize is the number of followers that are read at once; 0 is the worker's default.
	pageSize int
	// workers bound the messages that the fan-out handles at once.
	workers fanoutWorkers
	// devSecret signs dev tokens.
	devSecret []byte
	// watch, if not nil, runs until ctx ends or the engine can no longer work.
	watch func(ctx context.Context) error
}

// register adds the engine's metrics to reg.
func (e *engine) register(reg prometheus.Registerer) error {
	if err := obs.RegisterDepth(reg, e.broker.Depth); err != nil {
		return err
	}
	for store, stalls := range e.stalls {
		if err := obs.RegisterStalls(reg, store, stalls); err != nil {
			return err
		}
	}
	return nil
}

// likesInFlight bounds the unanswered likes of an aggregator: some windows of the busiest
// posts.
const likesInFlight = 20_000

// fanoutWorkers are the numbers of workers of each topic of the fan-out. No topic takes
// the workers of another (I8).
type fanoutWorkers struct{ posts, backfills, chunks int }

func (w fanoutWorkers) maxInFlight() map[string]int {
	return map[string]int{
		queue.TopicPosts:     2 * w.posts,
		queue.TopicBackfills: 2 * w.backfills,
		queue.TopicChunks:    2 * w.chunks,
		queue.TopicLikes:     likesInFlight,
	}
}

func (p *process) openEngine(ctx context.Context) (*engine, error) {
	if p.cfg.Engine == config.EngineAWS {
		return p.openAWS(ctx)
	}
	return p.openEmbedded()
}

// openEmbedded opens the data directory. No other process can open it then.
func (p *process) openEmbedded() (*engine, error) {
	dir, err := datadir.Open(p.cfg.DataDir)
	if err != nil {
		return nil, err
	}
	p.cleanups.addCloser("data directory", dir.Close)
	e := &engine{writers: 1, workers: fanoutWorkers{posts: 16, backfills: 4, chunks: 4}, devSecret: []byte(p.cfg.DevSecret)}
	if len(e.devSecret) == 0 && p.cfg.Auth == config.AuthDev {
		if e.devSecret, err = dir.Secret(); err != nil {
			return nil, err
		}
	}
	store, err := tableembedded.Open(dir.Path("table"), tableembedded.Options{Now: p.opt.Now, Log: p.log})
	if err != nil {
		return nil, err
	}
	p.cleanups.addCloser("table", store.Close)
	broker, err := queueembedded.Open(dir.Path("queue"), queueembedded.Options{
		Now: p.opt.Now, Log: p.log, MaxInFlight: e.workers.maxInFlight(),
	})
	if err != nil {
		return nil, err
	}
	p.cleanups.addCloser("queue", broker.Close)
	e.store, e.broker = store, broker
	e.stalls = map[string]func() disk.Stalls{"table": store.Stalls, "queue": broker.Stalls}
	e.checks = []admin.Check{
		{Name: "table", Ask: func(context.Context) error { return store.Health() }},
		{Name: "queue", Ask: func(context.Context) error { return broker.Health() }},
	}
	e.watch = func(ctx context.Context) error { return watchDisk(ctx, store.Health, broker.Health) }
	return e, nil
}

// diskLook is the time between two checks of the disk.
const diskLook = time.Second

// watchDisk returns an error when the disk has failed. From then on nothing can be
// written; a new start finds everything that was answered.
func watchDisk(ctx context.Context, health ...func() error) error {
	tick := time.NewTicker(diskLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			for _, ask := range health {
				if err := ask(); errors.Is(err, disk.ErrFailed) {
					return err
				}
			}
		}
	}
}

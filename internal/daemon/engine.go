package daemon

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/events"
	"fanfare/internal/feed"
	"fanfare/internal/live"
	"fanfare/internal/notify"
	"fanfare/internal/obs"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/stream"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
	"fanfare/messages"
)

// engine is a table and a queue, with the settings of a process that uses them.
type engine struct {
	store table.Store
	// local means that the table is in this process.
	local bool
	// authors are the known authors, if this process alone writes the table. Otherwise authors is nil.
	authors *feed.Authors
	// wakes wake the streams of homes that this process changes.
	wakes  *live.Wakes
	broker queue.Broker
	checks []admin.Check
	// stats returns the figures of an embedded store, by the name of the store.
	stats map[string]func() disk.Stats
	// writers is the maximum number of concurrent requests for one page of entries.
	writers int
	// pageSize is the number of followers that are read at once; 0 is the default of the worker.
	pageSize int
	// likesEach is the time between two looks at the like counts of a live home; 0 is the default of package live.
	likesEach time.Duration
	// workers are the numbers of workers of the fan-out.
	workers fanoutWorkers
	// items estimates the number of items of the table.
	items func(context.Context) (int64, error)
	// backups makes backups. It is nil if the engine has no backups.
	backups *backups
	// devSecret signs dev tokens.
	devSecret []byte
	// events sends the events of applied work to other programs, and notices sends events to
	// the topic of notifications. A nil function means that nothing is sent.
	events, notices func(ctx context.Context, events ...messages.Event) error
	// log has the log of events, nil on AWS. kept reads the log for other programs.
	log  *queueembedded.Broker
	kept *events.Reader
	// watch runs until ctx ends or until the engine can no longer work. It may be nil.
	watch func(ctx context.Context) error
	// archived runs until ctx ends or until this process must not write to its archive. It is nil without an archive.
	archived func(ctx context.Context) error
}

// register adds the engine's metrics to reg.
func (e *engine) register(reg prometheus.Registerer) error {
	if err := obs.RegisterDepth(reg, e.broker.Depth); err != nil {
		return err
	}
	if e.authors != nil {
		if err := obs.RegisterAuthors(reg, e.authors.Bytes); err != nil {
			return err
		}
	}
	if e.log != nil {
		if err := obs.RegisterEvents(reg, e.log.OldestEvent); err != nil {
			return err
		}
	}
	for store, stats := range e.stats {
		if err := obs.RegisterStore(reg, store, stats); err != nil {
			return err
		}
	}
	return nil
}

// likesInFlight is the maximum number of unanswered likes of an aggregator. This is enough
// for some windows of the most liked posts.
const likesInFlight = 20_000

// localLikes is the likesEach of the embedded engine, where a look costs no units.
const localLikes = 2 * time.Second

// fanoutWorkers has the number of workers for each topic of the fan-out. Each topic has its own workers, so no
// topic takes workers from another topic (I8). Mark walks use some workers of the backfills.
type fanoutWorkers struct{ posts, backfills, walks, chunks, notices int }

// embeddedWorkers returns the numbers of workers of a process on the embedded engine, which
// waits for the disk and shares its processors with the API.
func embeddedWorkers() fanoutWorkers {
	return fanoutWorkers{posts: 16, backfills: 4, walks: 1, chunks: 4, notices: 4}
}

func (w fanoutWorkers) maxInFlight() map[string]int {
	return map[string]int{
		queue.TopicPosts:     2 * w.posts,
		queue.TopicBackfills: 2 * w.backfills,
		queue.TopicChunks:    2 * w.chunks,
		queue.TopicLikes:     likesInFlight,
		queue.TopicNotices:   notify.MaxMessages,
	}
}

// openLog opens the log of events for other programs, if the operator keeps events.
func (p *process) openLog(e *engine) {
	switch {
	case e.log == nil:
		e.kept = events.NewReader(nil, "on FANFARE_ENGINE=aws the events go to a queue: set FANFARE_EVENTS_QUEUE, and read the queue (docs/PRODUCERS.md, Events for others)")
		return
	case p.cfg.EventsKept == 0:
		e.kept = events.NewReader(nil, "this server keeps no events: set FANFARE_EVENTS_KEPT (docs/PRODUCERS.md, Events for others)")
		return
	}
	e.kept = events.NewReader(e.log, "")
	sender := events.New(e.log.Log, "log of events", messages.GroupOf, p.log.Named("events"))
	e.events = each(e.events, sender.Send)
	e.checks = append(e.checks, admin.Check{Name: "events are not kept", Ask: func(context.Context) error { return sender.Failing() }, Warn: true})
}

// openNotices opens the sender of events to the topic of notifications, if notifications are on.
func (p *process) openNotices(e *engine) {
	if !p.cfg.Notifications {
		return
	}
	sender := events.New(e.broker.Publish, queue.TopicNotices, notify.Recipient, p.log.Named("notices"))
	e.notices = notify.Sender(sender.Send)
	e.checks = append(e.checks, admin.Check{Name: "notices are not sent", Ask: func(context.Context) error { return sender.Failing() }, Warn: true})
}

// openDirectory opens the data directory, so that no other process can open it. On AWS
// openDirectory returns nil.
func (p *process) openDirectory() (*datadir.Dir, error) {
	if p.cfg.Engine == config.EngineAWS {
		return nil, nil //nolint:nilnil // on AWS there is no data directory
	}
	dir, err := datadir.Open(p.cfg.DataDir)
	if err == nil {
		p.cleanups.addCloser("data directory", dir.Close)
	}
	return dir, err
}

func (p *process) openEngine(ctx context.Context, dir *datadir.Dir) (err error) {
	if dir == nil {
		p.eng, err = p.openAWS(ctx)
	} else {
		p.eng, err = p.openEmbedded(ctx, dir)
	}
	if err != nil {
		return err
	}
	if err := p.openEvents(ctx, p.eng); err != nil {
		return err
	}
	p.openLog(p.eng)
	p.openNotices(p.eng)
	p.eng.wakes = new(live.Wakes)
	if p.opt.Roles.API {
		p.eng.store = p.eng.wakes.Store(p.eng.store)
	}
	return nil
}

// openEmbedded opens the stores. If the disk is full, openEmbedded waits for room until ctx ends.
func (p *process) openEmbedded(ctx context.Context, dir *datadir.Dir) (_ *engine, err error) {
	e := &engine{local: true, authors: feed.NewAuthors(), writers: 1, likesEach: localLikes, workers: embeddedWorkers(), devSecret: []byte(p.cfg.DevSecret)}
	if len(e.devSecret) == 0 && p.cfg.Auth == config.AuthDev {
		if e.devSecret, err = dir.Secret(); err != nil {
			return nil, err
		}
	}
	// If a process died during a backup, the directory is still there and takes room.
	if err := os.RemoveAll(dir.Path(checkpoint)); err != nil {
		return nil, err
	}
	if p.pairing, err = p.openPrimary(ctx, dir); err != nil {
		return nil, err
	}
	kept, err := p.openArchive(ctx, dir)
	if err != nil {
		return nil, err
	}
	files := func(store stream.Store) vfs.FS {
		switch {
		case p.pairing != nil:
			return p.pairing.tapped(store)
		case kept != nil:
			return kept.Tapped(store)
		default: // no write is copied
			return nil
		}
	}
	openTable, openQueue := tableembedded.Open, queueembedded.Open
	if dir.IsNew() {
		openTable, openQueue = tableembedded.Create, queueembedded.Create
	}
	store, err := openTable(dir.Path(datadir.Table), tableembedded.Options{FS: files(stream.Table), Now: p.opt.Now, Doubt: p.clock.Doubt, Log: p.work, Stop: ctx.Done()})
	if err != nil {
		return nil, err
	}
	p.cleanups.addCloser("table", store.Close)
	broker, err := openQueue(dir.Path(datadir.Queue), queueembedded.Options{
		FS: files(stream.Queue), Now: p.opt.Now, Doubt: p.clock.Doubt, Log: p.work, MaxInFlight: e.workers.maxInFlight(), EventsKept: p.cfg.EventsKept, Stop: ctx.Done(),
	})
	if err != nil {
		return nil, err
	}
	p.cleanups.addCloser("queue", broker.Close)
	if err := dir.Made(); err != nil {
		return nil, err
	}
	e.store, e.broker, e.log, e.items = store, broker, broker, store.Items
	p.shares.Yield.Rest = true // docs/decisions/0036-large-work-yields.md
	made := &backups{dir: dir, table: store, queue: broker, now: p.opt.Now, version: p.opt.Version}
	e.backups = made
	e.stats = map[string]func() disk.Stats{"table": store.Stats, "queue": broker.Stats}
	e.checks = []admin.Check{
		{Name: "table", Ask: func(context.Context) error { return store.Health() }},
		{Name: "queue", Ask: func(context.Context) error { return broker.Health() }},
		{Name: "damaged data in the table", Ask: func(context.Context) error { return store.Damage() }, Warn: true},
		{Name: "damaged data in the queue", Ask: func(context.Context) error { return broker.Damage() }, Warn: true},
		{Name: "little room on the disk", Ask: func(context.Context) error { return store.Room() }, Warn: true},
	}
	if kept != nil {
		kept.start(ctx, p.log, made)
		e.checks = append(e.checks, kept.checks()...)
		e.archived = kept.watch
	}
	if p.pairing != nil {
		p.pairing.start(made)
		e.checks = append(e.checks, p.pairing.checks()...)
	}
	e.watch = func(ctx context.Context) error { return watchDisk(ctx, p.log, store.Room, store.Health, broker.Health) }
	return e, nil
}

// diskLook is the time between two checks of the disk.
const diskLook = time.Second

// watchDisk returns an error when the disk has failed. After a failure the stores write nothing; a
// new start finds all answered writes. watchDisk logs a warning when the disk becomes nearly full.
func watchDisk(ctx context.Context, log *zap.Logger, room func() error, health ...func() error) error {
	tick := time.NewTicker(diskLook)
	defer tick.Stop()
	low := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err := room()
			if err != nil && !low {
				log.Warn("the disk is nearly full", zap.Error(err))
			}
			low = err != nil
			for _, ask := range health {
				if err := ask(); errors.Is(err, disk.ErrFailed) {
					return err
				}
			}
		}
	}
}

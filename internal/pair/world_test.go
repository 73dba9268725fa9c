package pair_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/pair"
	"fanfare/internal/stream"
)

var stores = []stream.Store{stream.Queue, stream.Table}

func other(store stream.Store) stream.Store { return stream.Queue + stream.Table - store }

func nameOf(store stream.Store) string { return []string{"", "queue", "table"}[store] }

func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time

var timing = pair.Timing{Heartbeat: 500 * time.Millisecond, Patience: 2 * time.Second, Lease: 3 * time.Second}

// world is two machines and the writes that were answered.
type world struct {
	*testing.T
	seed     uint64
	rng      *rand.Rand
	faults   *rand.Rand // of the disks
	start    time.Time
	network  *network
	machines [2]*machine
	log      *zap.Logger
	logs     *observer.ObservedLogs

	mu       sync.Mutex
	last     map[stream.Store]int            // the number of the last write
	answered map[stream.Store]map[string]int // the number of the last answered write of a key
	dead     map[*process]bool

	promotions, switches, failovers, spoiled int

	bucket        *bucket // nil without a register
	failoverAfter time.Duration
	alone         bool // a primary may go alone

	spool int64        // the size of a primary's spool
	low   bool         // the disks of both machines are nearly full
	idle  stream.Store // the store that nobody writes to
}

// machine is a machine with a disk. Its role is on another file system, on which a rename survives a crash.
type machine struct {
	*world
	name string
	mem  *vfs.MemFS
	disk *disktest.FS // the mem of a standby's process, with faults
	dir  string
	// forced means that the next process gives up the answered writes that it lacks.
	forced bool
	// unregistered means that the machine is not configured with the register.
	unregistered bool
	// slow is the time of each read of the tail, in nanoseconds.
	slow atomic.Int64
	// address is the address of the register that the machine is configured with.
	address string
	// mute means that the machine cannot connect with the other one.
	mute bool
	*process
}

// process is a process on a machine.
type process struct {
	ctx     context.Context
	end     context.CancelCauseFunc
	work    sync.WaitGroup
	primary *pair.Primary
	standby *pair.Standby
	ran     chan outcome
	role    *pair.Role
	began   chan error // has the end of pair.Begin; nil when the machine's side is open
	dbs     map[stream.Store]*disk.DB
	trouble *trouble
	closing sync.Mutex
	// started means that the start has ended, and serving that the process answers. The mu of the world guards both.
	started, serving bool
	writers          sync.WaitGroup
	stop             chan struct{}                   // ends the writers
	turns            [stream.Table + 1]chan struct{} // makes a store begin its next log
	over             chan struct{}                   // closed when no caller waits for an answer any more
}

type outcome struct {
	pair.Outcome
	error
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	core, logs := observer.New(zap.InfoLevel)
	w := &world{
		T: t, seed: seed, rng: rng, faults: rand.New(rand.NewPCG(seed, 4)), start: time.Now(), log: zap.New(core), logs: logs,
		network: &network{rng: rand.New(rand.NewPCG(seed, 1)), delay: time.Duration(rng.IntN(20)) * time.Duration(rng.IntN(10)+1) * time.Millisecond},
		last:    map[stream.Store]int{}, answered: map[stream.Store]map[string]int{stream.Queue: {}, stream.Table: {}}, dead: map[*process]bool{},
		spool: 1 << 30,
	}
	for i := range w.machines {
		w.machines[i] = &machine{world: w, name: string(rune('a' + i))}
		w.machines[i].replace([]string{pair.RolePrimary, pair.RoleStandby}[i])
	}
	return w
}

// replace gives the machine an empty disk.
func (m *machine) replace(role string) {
	m.Helper()
	m.mem, m.dir = vfs.NewCrashableMem(), m.TempDir()
	require.NoError(m, disk.MakeDir(m.mem, "data"))
	require.NoError(m, pair.NewRole(m.dir, role).Save())
}

func (w *world) peer(m *machine) *machine {
	if w.machines[0] == m {
		return w.machines[1]
	}
	return w.machines[0]
}

func (m *machine) loadRole() *pair.Role {
	m.Helper()
	role, err := pair.LoadRole(m.dir)
	require.NoError(m, err)
	return role
}

func (m *machine) timing() pair.Timing {
	t := timing
	t.Now = func() time.Duration { return time.Since(m.start) }
	return t
}

// files returns the file system of the machine's disk.
func (m *machine) files() vfs.FS {
	if m.low {
		return lowFS{m.mem}
	}
	return m.mem
}

// lowFS is a disk of which less than a tenth is free.
type lowFS struct{ vfs.FS }

func (lowFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: 9 << 30, TotalBytes: 100 << 30}, nil
}

func options(fs vfs.FS) *pebble.Options {
	return &pebble.Options{FS: fs, MemTableSize: 64 << 10, MemTableStopWritesThreshold: 4, L0StopWritesThreshold: 1000, FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}}
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

var format = disk.Format{Key: []byte("format"), Known: 1}

func path(store stream.Store) string { return filepath.Join("data", nameOf(store)) }

// boot starts a process.
func (m *machine) boot() {
	m.Helper()
	m.begin()
	switch role := m.loadRole(); {
	case m.register() != nil:
		m.bootWithRegister(role)
	case role.Role == pair.RolePrimary:
		m.bootPrimary(role)
	default:
		m.bootStandby(role)
	}
}

func (m *machine) begin() {
	p := &process{ran: make(chan outcome, 1), stop: make(chan struct{}), over: make(chan struct{})}
	for _, store := range stores {
		p.turns[store] = make(chan struct{}, 1)
	}
	p.ctx, p.end = context.WithCancelCause(context.Background())
	p.trouble = &trouble{rng: rand.New(rand.NewPCG(m.faults.Uint64(), 4)), lost: map[string]bool{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process, m.disk = p, disktest.New(m.mem)
	m.disk.Set(p.trouble.fault)
}

func (m *machine) bootPrimary(role *pair.Role) {
	m.Helper()
	if role.Mode == pair.ModeAlone && m.register() == nil {
		ctx, cancel := context.WithTimeout(m.ctx, 2*time.Second)
		defer cancel()
		peer, err := m.asks(role)(ctx)
		if err == nil && peer.Role == pair.RolePrimary && peer.Term > role.Term {
			m.submit()
			return
		}
	}
	primary, err := pair.OpenPrimary(pair.PrimaryConfig{
		Role: role, FS: m.files(), Stream: "data/stream", Seeds: "data/seeds", Tail: "data/tail", Queue: path(stream.Queue), Table: path(stream.Table),
		Spool: m.spool, SeedRate: 1 << 30, LogSpan: 100 << 10, Timing: m.timing(), DataFormat: 2, Version: "v", Log: m.log.Named(m.name), Dial: m.dial(),
		Register: m.register(), Alone: m.alone,
	})
	require.NoError(m, err)
	p := m.process
	m.mu.Lock()
	p.primary = primary
	m.mu.Unlock()
	p.work.Go(func() { primary.Run(p.ctx) })
	p.work.Go(func() { m.serve(p, role) })
}

// submit makes a machine the standby of the new primary, with an empty disk.
func (m *machine) submit() {
	role := pair.NewRole(m.dir, pair.RoleStandby)
	require.NoError(m, role.Save())
	m.bootStandby(role)
}

// serve waits for the standby of a paired primary, opens the stores, and answers until the process ends.
func (m *machine) serve(p *process, role *pair.Role) {
	if err := p.primary.Paired(p.ctx); err != nil {
		return
	}
	dbs := map[stream.Store]*disk.DB{}
	for _, store := range stores {
		fs := disk.TappedFS{FS: m.mem, Tap: p.primary.Tap(store), Confirmed: p.confirmed(store), Patience: timing.Patience}
		db, err := disk.Open(p.ctx.Done(), path(store), zap.NewNop(), options(fs), format)
		if !assert.NoError(m, err) {
			return
		}
		dbs[store] = db
	}
	p.closing.Lock()
	p.dbs = dbs
	p.closing.Unlock()
	for _, store := range stores { // a start writes, too
		if !assert.NoError(m, dbs[store].Set([]byte("start"), []byte("done"), pebble.Sync)) {
			return
		}
	}
	m.mu.Lock()
	p.started = true
	m.mu.Unlock()
	if p.primary.Serves() != nil || p.ctx.Err() != nil {
		return
	}
	p.primary.SetBeginLog(func(store stream.Store) error {
		select {
		case p.turns[store] <- struct{}{}:
		default:
		}
		return nil
	})
	p.primary.SetCheckpoint(func(_ context.Context, dir string) error { return m.checkpoint(p, dir) })
	m.mu.Lock()
	p.serving = true
	if m.forced {
		m.forced = false
		m.excuse(dbs)
	}
	m.checkAnswered(dbs, fmt.Sprintf("%s, primary of term %d", m.name, role.Term))
	m.mu.Unlock()
	for _, store := range stores {
		p.writers.Go(func() { m.write(p, store) })
	}
	p.writers.Go(func() { m.read(p) })
}

// serves reports whether the machine answers.
func (m *machine) serves() bool { return m.served(m.process) }

// served reports whether a process has answered.
func (w *world) served(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.serving
}

// set sets a flag of a machine that its goroutines read.
func (w *world) set(flag *bool, value bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*flag = value
}

func (m *machine) checkpoint(p *process, dir string) error {
	p.closing.Lock()
	defer p.closing.Unlock()
	if p.dbs == nil || p.ctx.Err() != nil {
		return errors.New("the stores are closed")
	}
	err := disk.MakeDir(m.mem, dir)
	for _, store := range stores {
		err = errors.Join(err, p.dbs[store].Checkpoint(m.mem.PathJoin(dir, nameOf(store))))
	}
	return err
}

// confirmed returns the function with which a store waits for the standby. When the process is dead, it does not
// wait, because its disk does not count any more.
func (p *process) confirmed(store stream.Store) func(log, offset uint64) <-chan struct{} {
	return func(log, offset uint64) <-chan struct{} {
		standby := p.primary.Confirmed(store, stream.Place{Log: log, Offset: offset})
		if standby == nil {
			return nil
		}
		either := make(chan struct{})
		go func() { // ends with the process
			select {
			case <-standby:
			case <-p.over:
			case <-p.ctx.Done():
			}
			close(either)
		}()
		return either
	}
}

// write writes to a store until the process ends.
func (m *machine) write(p *process, store stream.Store) {
	rng := rand.New(rand.NewPCG(m.seedOf(store), 2))
	for {
		select {
		case <-p.stop:
			return
		case <-p.ctx.Done():
			return
		case <-p.turns[store]: // by the writer, because time does not pass while a goroutine waits for a mutex of Pebble
			_, err := p.dbs[store].AsyncFlush()
			assert.NoError(m, err)
			continue
		case <-time.After(time.Duration(rng.IntN(50)) * time.Millisecond):
		}
		if store == m.idle {
			continue
		}
		m.mu.Lock()
		m.last[store]++
		n, saw := m.last[store], m.answered[other(store)]["count"]
		m.mu.Unlock()
		batch := p.dbs[store].NewBatch()
		entries := map[string]int{"count": n, fmt.Sprint("key", n%97): n, "saw": saw}
		for key, value := range entries {
			text := strconv.Itoa(value)
			if key != "count" && key != "saw" {
				text += fmt.Sprint(" ", string(make([]byte, rng.IntN(2000))))
			}
			assert.NoError(m, batch.Set([]byte(key), []byte(text), nil))
		}
		sync := rng.IntN(3) > 0
		if !assert.NoError(m, batch.Commit(&pebble.WriteOptions{Sync: sync})) {
			return
		}
		m.mu.Lock()
		if sync && !m.dead[p] {
			for key := range entries {
				if key != "saw" {
					m.answered[store][key] = n
				}
			}
		}
		m.mu.Unlock()
	}
}

func (m *machine) seedOf(store stream.Store) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(m.last[store])<<8 + uint64(store)
}

// read answers reads while it may. Beside a primary of a later term, it must not.
func (m *machine) read(p *process) {
	for {
		select {
		case <-p.stop:
			return
		case <-p.ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
		m.mu.Lock()
		if peer := m.world.peer(m).process; p.primary.Promised() && !m.dead[p] && peer != nil && !m.dead[peer] && peer.serving {
			mine, theirs := p.primary.Status().Term, peer.primary.Status().Term
			assert.GreaterOrEqual(m, mine, theirs, "%s answers a read beside a primary of a later term", m.name)
		}
		m.mu.Unlock()
	}
}

// checkAnswered expects all answered writes in the stores. The caller holds mu.
func (w *world) checkAnswered(dbs map[stream.Store]*disk.DB, what string) {
	got := map[stream.Store]map[string]string{}
	for _, store := range stores {
		got[store] = dump(w, dbs[store].DB)
		for key, least := range w.answered[store] {
			n := 0
			_, err := fmt.Sscan(got[store][key], &n)
			assert.True(w, err == nil && n >= least, "%s: %s of the %s is %q, but %d was answered", what, key, nameOf(store), got[store][key], least)
		}
	}
	for _, store := range stores {
		saw, _ := strconv.Atoi(got[store]["saw"])
		has, _ := strconv.Atoi(got[other(store)]["count"])
		assert.LessOrEqual(w, saw, has, "%s: the %s is ahead of the other store", what, nameOf(store))
	}
}

func dump(t assert.TestingT, db *pebble.DB) map[string]string {
	got := map[string]string{}
	it, err := db.NewIter(nil)
	if !assert.NoError(t, err) {
		return got
	}
	for valid := it.First(); valid; valid = it.Next() {
		got[string(it.Key())] = string(it.Value())
	}
	assert.NoError(t, errors.Join(it.Error(), it.Close()))
	return got
}

// dial returns how a machine reaches the other one.
func (m *machine) dial() func(context.Context) (net.Conn, error) {
	return m.network.dialer(func(far net.Conn) error {
		m.mu.Lock()
		defer m.mu.Unlock() // a process that is dead waits for its work
		peer := m.world.peer(m).process
		if m.mute || peer == nil || m.dead[peer] || peer.primary == nil && peer.standby == nil {
			return errors.New("connection refused")
		}
		peer.work.Go(func() {
			serve := peer.standby.Answer
			if peer.primary != nil {
				serve = peer.primary.Serve
			}
			if err := serve(peer.ctx, far); err != nil {
				m.log.Info("session ended", zap.Error(err))
			}
		})
		return nil
	})
}

func (m *machine) bootStandby(role *pair.Role) {
	m.Helper()
	p := m.process
	standby, err := pair.OpenStandby(pair.StandbyConfig{
		Role: role, FS: slowFS{m.disk, &m.slow}, Dir: "data", Stream: "data/stream", TailSize: 100 << 10, Timing: m.timing(), Dial: m.dial(), DataFormat: 2, Version: "v", Log: m.log.Named(m.name),
		Register: m.register(), FailoverAfter: m.failoverAfter,
		Open: func(_ stream.Store, dir string) (*disk.DB, error) {
			return disk.Open(nil, dir, zap.NewNop(), options(m.disk), format)
		},
	})
	require.NoError(m, err)
	m.mu.Lock()
	p.standby = standby
	m.mu.Unlock()
	p.work.Go(func() {
		o, err := standby.Run(p.ctx)
		p.ran <- outcome{o, err}
	})
}

// slowFS is a disk from which each read of a tail takes some time, so that its standby applies slowly.
type slowFS struct {
	vfs.FS

	each *atomic.Int64
}

func (s slowFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.Open(name, opts...)
	if err == nil && strings.HasSuffix(name, ".tail") {
		f = slowFile{f, s.each}
	}
	return f, err
}

type slowFile struct {
	vfs.File

	each *atomic.Int64
}

func (f slowFile) ReadAt(p []byte, at int64) (int, error) {
	pass(time.Duration(f.each.Load()))
	return f.File.ReadAt(p, at)
}

// die ends the process. Of the bytes that were not synced, the disk keeps a part; after kill -9 all of them.
func (m *machine) die(kept int) {
	m.Helper()
	p := m.process
	// From before the copy of the disk to its end, the process must confirm nothing, because the copy would lack it.
	defer m.network.isolate()()
	m.mu.Lock()
	before := map[string]bool{}
	list(m.mem, before, "data")
	after := m.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: m.rng})
	if kept == 100 {
		forget(m, m.mem, after, before, "data")
	}
	m.dead[p] = true
	role, err := os.ReadFile(filepath.Join(m.dir, pair.RoleFile))
	m.mu.Unlock()
	require.NoError(m, err)
	p.end(errors.New("killed"))
	m.wait(p)
	dir := m.TempDir() // the old process may have stored a role after its death
	require.NoError(m, os.WriteFile(filepath.Join(dir, pair.RoleFile), role, 0o600))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mem, m.dir, m.process = after, dir, nil
}

// list adds the paths in a directory to paths. The files, and the directory itself, may go meanwhile.
func list(mem *vfs.MemFS, paths map[string]bool, dir string) {
	names, err := mem.List(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		name = mem.PathJoin(dir, name)
		paths[name] = true
		if info, err := mem.Stat(name); err == nil && info.IsDir() {
			list(mem, paths, name)
		}
	}
}

// forget removes from a clone of a file system what the file system itself no longer had when it was cloned. The process still removes
// files, so a path in before, which was there just before the clone, stays.
func forget(t require.TestingT, mem, clone *vfs.MemFS, before map[string]bool, dir string) {
	names, err := clone.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		name = clone.PathJoin(dir, name)
		info, err := mem.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !before[name]:
			require.NoError(t, clone.RemoveAll(name))
		case err == nil && info.IsDir():
			forget(t, mem, clone, before, name)
		}
	}
}

// wait waits for the end of a process.
func (m *machine) wait(p *process) {
	m.Helper()
	p.work.Wait()
	p.writers.Wait()
	synctest.Wait() // the waiting syncs have returned
	p.closing.Lock()
	defer p.closing.Unlock()
	for _, db := range p.dbs {
		require.NoError(m, db.Close(func() {}))
	}
	p.dbs = nil
	if p.primary != nil {
		require.NoError(m, p.primary.Close())
	}
	if p.standby != nil {
		require.NoError(m, p.standby.Close())
	}
}

// exit ends the process in order.
func (m *machine) exit() {
	m.Helper()
	p := m.process
	m.mu.Lock()
	m.dead[p] = true
	m.mu.Unlock()
	p.end(errors.New("stopped"))
	m.wait(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process = nil
}

// handOver makes the standby of the machine the primary.
func (m *machine) handOver() error {
	m.Helper()
	p := m.process
	p.closing.Lock()
	if p.dbs == nil {
		p.closing.Unlock()
		return errors.New("the stores are not open")
	}
	close(p.stop)
	p.closing.Unlock()
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	stopped := make(chan struct{})
	go func() { p.writers.Wait(); close(stopped) }()
	select {
	case <-stopped:
	case <-ctx.Done():
		return errors.New("the last writes are not confirmed")
	}
	close(p.over)
	synctest.Wait()
	p.closing.Lock()
	defer p.closing.Unlock()
	for _, db := range p.dbs {
		require.NoError(m, db.Close(func() {}))
	}
	p.dbs = nil
	return p.primary.HandOver(ctx)
}

// promote makes the standby the primary.
func (m *machine) promote() error {
	if err := m.standby.Promote(m.ctx, false); err != nil {
		return err
	}
	m.process.end(errors.New("promoted")) // a planted bug may have kept Run
	m.work.Wait()
	m.boot()
	return nil
}

// until waits for a condition, at most two minutes.
func (w *world) until(holds func() bool) {
	w.Helper()
	require.True(w, w.within(2*time.Minute, holds), "the condition does not hold in two minutes")
}

// within waits for a condition. It reports whether the condition holds in time.
func (w *world) within(most time.Duration, holds func() bool) bool {
	for end := time.Now().Add(most); time.Now().Before(end); pass(time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// same expects the same data in the stores of both machines, whose processes have ended.
func (w *world) same() {
	w.Helper()
	for _, store := range stores {
		var got [2]map[string]string
		for i, m := range w.machines {
			db, err := pebble.Open(path(store), options(m.mem))
			require.NoError(w, err)
			got[i] = dump(w, db)
			require.NoError(w, db.Close())
		}
		require.Truef(w, maps.Equal(got[0], got[1]), "the %s differs: count is %s and %s", nameOf(store), got[0]["count"], got[1]["count"])
	}
}

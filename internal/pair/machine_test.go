package pair_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/pair"
	"fanfare/internal/stream"
)

// replace gives the machine an empty disk.
func (m *machine) replace(role string) {
	m.Helper()
	m.mem, m.dir, m.made = vfs.NewCrashableMem(), m.TempDir(), false
	require.NoError(m, disk.MakeDir(m.mem, "data"))
	require.NoError(m, pair.NewRole(m.dir, role).Save())
}

func (m *machine) loadRole() *pair.Role {
	m.Helper()
	role, err := pair.LoadRole(m.dir)
	require.NoError(m, err)
	if m.cloned != datadir.Original {
		role.Cloned(m.cloned)
	}
	return role
}

func (m *machine) timing() pair.Timing {
	t := timing
	t.Now = func() time.Duration { return time.Since(m.start) }
	t.Lease = max(t.Lease, m.lease)
	return t
}

// files returns the file system of the machine's disk.
func (m *machine) files() vfs.FS {
	if m.low {
		return lowFS{m.tracked()}
	}
	return m.tracked()
}

// beginConfig returns the configuration of a start with the register, which does not ask the other machine.
func (m *machine) beginConfig(role *pair.Role) pair.BeginConfig {
	address := role.RegisterFor(m.address)
	var former pair.Register
	if leaves := role.Leaves(address); leaves != "" {
		former = m.registerAt(leaves)
	}
	return pair.BeginConfig{
		Role: role, Address: address, Register: m.registerAt(address), Former: former, FS: m.files(), Queue: path(stream.Queue), Table: path(stream.Table), Timing: m.timing(), Log: m.log.Named(m.name),
	}
}

// tracked returns the file system of the machine's disk for a process.
func (m *machine) tracked() vfs.FS { return entriesFS{m.mem, &m.entries} }

// lowFS is a disk of which less than a tenth is free.
type lowFS struct{ vfs.FS }

func (m *machine) begin() {
	p := &process{ran: make(chan outcome, 1), stop: make(chan struct{}), over: make(chan struct{})}
	for _, store := range stores {
		p.turns[store], p.turning[store] = make(chan struct{}, 1), make(chan struct{}, 1)
	}
	p.ctx, p.end = context.WithCancelCause(context.Background())
	p.trouble = &trouble{rng: rand.New(rand.NewPCG(m.faults.Uint64(), 4)), lost: map[string]bool{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process, m.disk = p, disktest.New(m.tracked())
	m.processes = append(m.processes, p)
	m.disk.Set(p.trouble.fault)
}

func (m *machine) bootPrimary(role *pair.Role) {
	m.Helper()
	primary, err := pair.OpenPrimary(pair.PrimaryConfig{
		Role: role, FS: m.files(), Stream: "data/stream", Seeds: "data/seeds", Tail: "data/tail", Queue: path(stream.Queue), Table: path(stream.Table),
		Spool: m.spool, SeedRate: 1 << 30, LogSpan: 100 << 10, Timing: m.timing(), DataFormat: 2, Version: "v", Log: m.log.Named(m.name), Dial: m.dial(),
		Register: m.register(), Archive: true,
	})
	if m.refuses(err) {
		return
	}
	p, own := m.process, role.Disk
	m.mu.Lock()
	p.primary = primary
	m.mu.Unlock()
	p.work.Go(func() { primary.Run(p.ctx) })
	p.work.Go(func() { m.serve(p, role) })
	p.work.Go(func() { m.archives(p, own) })
}

// serve waits for the standby of a paired primary, opens the stores, and answers until the process ends.
func (m *machine) serve(p *process, role *pair.Role) {
	if err := p.primary.Paired(p.ctx); err != nil {
		return
	}
	dbs := map[stream.Store]*disk.DB{}
	m.mu.Lock()
	made := m.made
	m.mu.Unlock()
	for _, store := range stores {
		fs := disk.TappedFS{FS: m.tracked(), Tap: p.primary.Tap(store), Confirmed: p.confirmed(store), Patience: timing.Patience}
		o := options(fs)
		o.ErrorIfNotExists = made
		db, err := disk.Open(p.ctx.Done(), path(store), zap.NewNop(), o, format)
		if err != nil {
			p.primary.StopWaiting() // else a close waits for the standby, and holds a mutex
			for _, opened := range dbs {
				err = errors.Join(err, opened.Close(func() {}))
			}
		}
		if m.refuses(err) {
			return
		}
		dbs[store] = db
	}
	m.mu.Lock()
	m.made = made || !m.dead[p]
	m.mu.Unlock()
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
		m.forced, m.succession = false, nil
		m.excuse(dbs)
	}
	m.checkArchived()
	m.checkAnswered(dbs, fmt.Sprintf("%s, primary of term %d", m.name, role.Term))
	m.mu.Unlock()
	for _, store := range stores {
		p.writers.Go(func() { m.write(p, store) })
	}
	p.writers.Go(func() { m.read(p) })
}

// serves reports whether the machine answers.
func (m *machine) serves() bool { return m.served(m.process) }

func (m *machine) checkpoint(p *process, dir string) error {
	for _, store := range stores {
		p.turning[store] <- struct{}{}
		defer func() { <-p.turning[store] }()
	}
	p.closing.Lock()
	defer p.closing.Unlock()
	if p.dbs == nil || p.ctx.Err() != nil {
		return errors.New("the stores are closed")
	}
	err := disk.MakeDir(m.tracked(), dir)
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

// dial returns how a machine reaches the other one.
func (m *machine) dial() func(context.Context) (net.Conn, error) {
	return m.network.dialer(func(far net.Conn) error {
		m.mu.Lock()
		defer m.mu.Unlock() // a process that is dead waits for its work
		peer := m.world.peer(m).process
		if m.itself {
			peer = m.process
		}
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
	m.set(&m.made, true)
	standby, err := pair.OpenStandby(pair.StandbyConfig{
		Role: role, FS: slowFS{m.disk, &m.slow}, Dir: "data", Stream: "data/stream", TailSize: 100 << 10, Timing: m.timing(), Dial: m.dial(), DataFormat: 2, Version: "v", Log: m.log.Named(m.name),
		Configured: m.address, Register: m.register(), FailoverAfter: m.failoverAfter, Succeeded: m.succeeded,
		Open: func(_ stream.Store, dir string) (*disk.DB, error) {
			o := options(m.disk)
			o.ErrorIfNotExists = true
			return disk.Open(nil, dir, zap.NewNop(), o, format)
		},
	})
	if m.refuses(err) {
		return
	}
	m.mu.Lock()
	m.succession = nil
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

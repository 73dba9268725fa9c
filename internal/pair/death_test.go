package pair_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// die ends the process. Of the bytes that were not synced, the disk keeps a part; after kill -9 all of them.
func (m *machine) die(kept int) {
	m.Helper()
	p := m.process
	// From before the copy of the disk to its end, the process must confirm and claim nothing, because the copy would lack it.
	defer m.network.isolate()()
	defer m.bucket.isolate(m.number())()
	m.mu.Lock()
	var after *vfs.MemFS
	role, copied := m.roleText(), ""
	for role != copied { // the copy of the disk and the role are of one moment
		after, role, copied = m.clone(kept), m.roleText(), role
	}
	m.dead[p] = true
	m.mu.Unlock()
	p.end(errors.New("killed"))
	m.wait(p)
	dir := m.TempDir() // the old process may have stored a role after its death
	require.NoError(m, os.WriteFile(filepath.Join(dir, pair.RoleFile), []byte(role), 0o600))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mem, m.dir, m.process = after, dir, nil
}

func (m *machine) roleText() string {
	m.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, pair.RoleFile))
	require.NoError(m, err)
	return string(text)
}

// wait waits for the end of a process.
func (m *machine) wait(p *process) {
	m.Helper()
	require.NoError(m, p.wait())
}

// wait waits for the end of a process, and closes the files and stores of the process. The second call does nothing.
func (p *process) wait() (err error) {
	p.work.Wait()
	p.writers.Wait()
	synctest.Wait() // the waiting syncs have returned
	p.closing.Lock()
	defer p.closing.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	for _, db := range p.dbs {
		err = errors.Join(err, db.Close(func() {}))
	}
	p.dbs = nil
	if p.primary != nil {
		err = errors.Join(err, p.primary.Close())
	}
	if p.standby != nil {
		err = errors.Join(err, p.standby.Close())
	}
	return err
}

// abandon ends all processes of a test that has failed. Otherwise the bubble has goroutines at its end, and ends the other tests of the package.
func (w *world) abandon() {
	for _, p := range w.processes {
		p.end(errors.New("the test has failed"))
	}
	for _, p := range w.processes {
		if err := p.wait(); err != nil {
			w.Log("a process of the failed test:", err)
		}
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

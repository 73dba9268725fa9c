package pair_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/datadir"
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
	// processes are all processes that have begun.
	processes []*process

	mu       sync.Mutex
	last     map[stream.Store]int            // the number of the last write
	answered map[stream.Store]map[string]int // the number of the last answered write of a key
	dead     map[*process]bool
	archived map[string]stream.Position // how far the archive has the logs of a disk

	successions, completed int // the checked changes of the primary, and how often the tail had the frames that the archive lacked

	promotions, switches, failovers, spoiled int
	interrupted, stopped, copied             int            // promotions and standbys; copies of a data directory that have started
	harmed                                   map[string]int // the ends of starts with a damaged disk

	bucket        *bucket
	used          string // the address of the register that the pair uses
	failoverAfter time.Duration

	spool int64        // the size of a primary's spool
	low   bool         // the disks of both machines are nearly full
	idle  stream.Store // the store that nobody writes to
}

// machine is a machine with a disk. Its role is on another file system, on which a rename survives a crash.
type machine struct {
	*world
	name string
	mem  *vfs.MemFS
	// entries is held for a change of a directory of mem.
	entries sync.Mutex
	disk    *disktest.FS // the mem of a standby's process, with faults
	dir     string
	// forced means that the next process gives up the answered writes that it lacks.
	forced     bool
	succession *pair.Succession // the place at which the machine has become the primary; guarded by the mu of the world
	// breaks is the error that ends a promotion when the stores have everything, and before the role is stored. The mu of the world guards it.
	breaks error
	// slow is the time of each read of the tail, in nanoseconds.
	slow atomic.Int64
	// address is the address of the register that the machine is configured with.
	address string
	// lease is the lease that the machine is configured with; 0 for the one of timing.
	lease time.Duration
	// itself means that the machine is configured with its own address.
	itself bool
	// mute means that the machine cannot connect with the other one.
	mute bool
	// made means that the disk has stores, as FORMAT of a data directory has it. The mu of the world guards it.
	made bool
	harm harm
	// cloned is how the disk differs from its original; Original for a disk of its own.
	cloned datadir.Likeness
	// reaches is the other machine for a machine beside the two; nil for one of the two.
	reaches *machine
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
	closed  bool // everything is closed; guarded by closing
	// started means that the start has ended, and serving that the process answers. The mu of the world guards both.
	started, serving bool
	writers          sync.WaitGroup
	stop             chan struct{}                   // ends the writers
	turns            [stream.Table + 1]chan struct{} // makes a store begin its next log
	// turning is full while a write, which may begin a log, or a checkpoint may hold a mutex of a store of Pebble: the other one waits
	// here, because time does not pass while a goroutine waits for a mutex.
	turning [stream.Table + 1]chan struct{}
	over    chan struct{} // closed when no caller waits for an answer any more
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
		network: newNetwork(rand.New(rand.NewPCG(seed, 1)), time.Duration(rng.IntN(20))*time.Duration(rng.IntN(10)+1)*time.Millisecond),
		last:    map[stream.Store]int{}, answered: map[stream.Store]map[string]int{stream.Queue: {}, stream.Table: {}}, dead: map[*process]bool{}, archived: map[string]stream.Position{},
		spool: 1 << 30, harmed: map[string]int{}, failoverAfter: never, bucket: &bucket{rng: rand.New(rand.NewPCG(seed, 3))},
	}
	for i := range w.machines {
		w.machines[i] = &machine{world: w, name: string(rune('a' + i)), address: home}
		w.machines[i].replace([]string{pair.RolePrimary, pair.RoleStandby}[i])
	}
	return w
}

func (w *world) peer(m *machine) *machine {
	switch m {
	case w.machines[0]:
		return w.machines[1]
	case w.machines[1]:
		return w.machines[0]
	default:
		return m.reaches
	}
}

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

// write writes to a store until the process ends.
func (m *machine) write(p *process, store stream.Store) {
	rng := rand.New(rand.NewPCG(m.seedOf(store), 2))
	for {
		select {
		case <-p.stop:
			return
		case <-p.ctx.Done():
			return
		case <-p.turns[store]:
			p.turning[store] <- struct{}{}
			_, err := p.dbs[store].AsyncFlush()
			<-p.turning[store]
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
		p.turning[store] <- struct{}{}
		err := batch.Commit(&pebble.WriteOptions{Sync: sync})
		<-p.turning[store]
		if !assert.NoError(m, err) {
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

// until waits for a condition, at most two minutes.
func (w *world) until(holds func() bool) {
	w.Helper()
	require.True(w, w.within(2*time.Minute, holds), "the condition does not hold in two minutes")
}

// names waits until a machine shows a reason with a text: each try of a standby begins without a reason.
func (w *world) names(status func() pair.Status, text string) {
	w.Helper()
	w.until(func() bool { return strings.Contains(status().Reason, text) })
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
			o := options(m.mem)
			o.ReadOnly = true // the machine may start again
			db, err := pebble.Open(path(store), o)
			require.NoError(w, err)
			got[i] = dump(w, db)
			require.NoError(w, db.Close())
		}
		require.Truef(w, maps.Equal(got[0], got[1]), "the %s differs: count is %s and %s", nameOf(store), got[0]["count"], got[1]["count"])
	}
}

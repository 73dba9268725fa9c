package pair_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/disk"
	"fanfare/internal/objects"
	"fanfare/internal/pair"
	"fanfare/internal/stream"
)

// bucket is a store on condition, in memory. Each of the two machines reaches it in a way of its own.
type bucket struct {
	stored

	mu      sync.Mutex
	rng     *rand.Rand
	others  map[string]*stored // the objects at addresses to which a pair moves
	ways    [3]way             // of the two machines, and of a copy beside them
	dies    [3]bool            // the machine dies, and its requests have no effect
	pending atomic.Int64       // the swaps that have their effect later
}

// stored is an object.
type stored struct {
	content []byte
	version int // 0 for no object
}

const (
	// home is the address of the register with which the machines are configured.
	home = "home"
	// moveTo begins the addresses to which a pair moves.
	moveTo = "to/"
)

// at returns the object at an address. The caller holds mu.
func (b *bucket) at(address string) *stored {
	if !strings.HasPrefix(address, moveTo) {
		return &b.stored
	}
	if b.others == nil {
		b.others = map[string]*stored{}
	}
	if b.others[address] == nil {
		b.others[address] = &stored{}
	}
	return b.others[address]
}

// empty takes the object away.
func (b *bucket) empty() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.content, b.version = nil, 0
}

// way is how a machine reaches the bucket.
type way struct {
	away  bool
	slow  time.Duration // the longest time of a call
	late  time.Duration // the time between the effect of a call and its answer
	after time.Duration // the time after which a swap has its effect, whose caller gets an error at once
	lossy bool          // some answers are lost, and some requests arrive late
	blind bool          // no read is answered
}

// reached is the bucket as a machine reaches it.
type reached struct {
	*bucket
	machine int
	address string
}

var _ objects.Conditional = reached{}

// fate draws what happens to a call: its time, and a number from 0 to 9, or -1 if the bucket is away.
func (r reached) fate(ctx context.Context) (int, error) {
	r.mu.Lock()
	w := r.ways[r.machine]
	number, took := 9, time.Duration(0)
	if w.slow > 0 {
		took = time.Duration(r.rng.Int64N(int64(w.slow)))
	}
	if w.lossy {
		number = r.rng.IntN(10)
	}
	r.mu.Unlock()
	if err := backoff.Wait(ctx, took); err != nil {
		return 0, err
	}
	if w.away {
		return -1, nil
	}
	return number, nil
}

func (r reached) Fetch(ctx context.Context, _ string, _ int64) ([]byte, objects.Version, error) {
	number, err := r.fate(ctx)
	r.mu.Lock()
	blind := r.ways[r.machine].blind
	r.mu.Unlock()
	if err != nil || number < 2 || blind {
		return nil, "", fmt.Errorf("fetch: %w %w", objects.ErrAway, context.Cause(ctx))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.at(r.address)
	if o.version == 0 {
		return nil, "", objects.ErrNotThere
	}
	return o.content, o.tag(), nil
}

// now returns the version that a request would find now.
func (b *bucket) now() objects.Version {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tag()
}

// tag returns the version of the content.
func (o *stored) tag() objects.Version {
	if o.version == 0 {
		return ""
	}
	return objects.Version(strconv.Itoa(o.version))
}

func (r reached) swap(old objects.Version, content []byte) (objects.Version, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.at(r.address)
	if o.tag() != old {
		return "", objects.ErrChanged
	}
	o.version++
	o.content = content
	return o.tag(), nil
}

func (r reached) Swap(ctx context.Context, _ string, old objects.Version, body objects.Body) (objects.Version, error) {
	content := make([]byte, body.Size)
	if _, err := body.From.ReadAt(content, 0); err != nil {
		return "", err
	}
	dies := r.dying()
	number, err := r.fate(ctx)
	lost := fmt.Errorf("swap: %w %w", objects.ErrAway, context.Cause(ctx))
	switch {
	case err != nil || number < 1 || dies:
		return "", lost
	case number == 1: // the answer is lost
		_, _ = r.swap(old, content) // nobody learns the result
		return "", lost
	case number == 2: // the answer is lost, and the repeated request finds the first one
		_, _ = r.swap(old, content) // nobody learns the result
		return "", objects.ErrChanged
	case number == 3: // the request arrives late
		r.mu.Lock()
		late := time.Duration(r.rng.IntN(6000)) * time.Millisecond
		r.mu.Unlock()
		time.AfterFunc(late, func() { _, _ = r.swap(old, content) }) // nobody learns the result
		return "", lost
	}
	r.mu.Lock()
	late, after := r.ways[r.machine].late, r.ways[r.machine].after
	r.mu.Unlock()
	if after > 0 {
		time.AfterFunc(after, func() { _, _ = r.swap(old, content) }) // nobody learns the result
		r.pending.Add(1)
		return "", lost
	}
	version, err := r.swap(old, content)
	if err := backoff.Wait(ctx, late); err != nil {
		return "", fmt.Errorf("swap: %w %w", objects.ErrAway, err)
	}
	return version, err
}

// isolate lets the requests of a machine have no effect until the caller ends the isolation.
func (b *bucket) isolate(machine int) (end func()) {
	set := func(dies bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dies[machine] = dies
	}
	set(true)
	return func() { set(false) }
}

func (r reached) dying() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dies[r.machine]
}

// set sets how a machine reaches the bucket.
func (b *bucket) set(machine int, w way) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ways[machine] = w
}

// draws lets the standby take over by itself, or leaves that to an operator.
func (w *world) draws() {
	if w.rng.IntN(2) == 0 {
		w.failoverAfter = failoverAfter
	}
}

// register returns the register as the machine reaches it.
func (m *machine) register() pair.Register {
	return m.registerAt(m.loadRole().RegisterFor(m.address))
}

// registerAt returns the register at an address as the machine reaches it.
func (m *machine) registerAt(address string) pair.Register {
	return pair.StoreRegister(reached{m.bucket, m.number(), address}, address)
}

func (m *machine) number() int { return int(m.name[0] - 'a') }

// entry returns the entry of the register.
func (w *world) entry() pair.Entry {
	w.Helper()
	w.bucket.mu.Lock()
	now := &bucket{stored: *w.bucket.at(w.used)}
	w.bucket.mu.Unlock()
	entry, _, err := pair.StoreRegister(reached{now, 0, ""}, "").Read(w.Context())
	require.NoError(w, err)
	return entry
}

// boot starts a process: it asks the register for the role of the machine.
func (m *machine) boot() {
	m.Helper()
	m.begin()
	p, role := m.process, m.loadRole()
	p.role, p.began = role, make(chan error, 1)
	config := m.beginConfig(role)
	config.Ask = func(ctx context.Context) (pair.Hello, error) {
		return pair.Ask(ctx, m.dial(), pair.AskingHello(role, 1, "v"))
	}
	p.work.Go(func() {
		p.began <- pair.Begin(p.ctx, config)
	})
	m.open(time.Second)
}

// open opens the machine's side of the pair when the register has answered.
func (m *machine) open(patience time.Duration) {
	m.Helper()
	p := m.process
	if p.began == nil {
		return
	}
	if patience > 0 {
		pass(patience)
	}
	select {
	case err := <-p.began:
		p.began = nil
		if m.refuses(err) {
			return
		}
		if p.role.Role == pair.RolePrimary {
			m.bootPrimary(p.role)
		} else {
			m.bootStandby(p.role)
		}
	default:
	}
}

// disturb changes how the machines reach the register.
func (w *world) disturb() {
	drawn := way{lossy: w.rng.IntN(2) == 0}
	switch w.rng.IntN(4) {
	case 0:
		drawn.away = true
	case 1:
		drawn.slow = time.Duration(w.rng.IntN(8000)+1) * time.Millisecond
	default:
	}
	if w.rng.IntN(3) > 0 {
		w.bucket.set(w.rng.IntN(2), drawn)
		return
	}
	w.bucket.set(0, drawn)
	w.bucket.set(1, drawn)
}

// calm lets both machines reach the register.
func (w *world) calm() {
	w.bucket.set(0, way{})
	w.bucket.set(1, way{})
}

// force promotes the standby of a primary that answers by itself. The writes that the standby lacks are given up.
func (w *world) force() {
	w.Helper()
	primary := w.primary()
	if primary == nil {
		return
	}
	standby := w.peer(primary)
	if standby.process == nil || standby.process.standby == nil {
		return
	}
	if w.rng.IntN(2) == 0 {
		w.network.set(true)
	}
	if w.rng.IntN(2) == 0 {
		w.bucket.set(primary.number(), way{away: true})
	}
	err := standby.standby.Promote(standby.ctx, true)
	w.log.Info("forced promotion", zap.Error(err))
	standby.exit()
	// After an unclear answer, the swap may have had its effect, or may have it later.
	w.set(&standby.forced, !errors.Is(err, pair.ErrNotPaired) && !errors.Is(err, pair.ErrSeeding))
	standby.boot()
}

// excuse gives up the answered writes that the stores lack. The caller holds mu.
func (w *world) excuse(dbs map[stream.Store]*disk.DB) {
	for _, store := range stores {
		got := dump(w, dbs[store].DB)
		w.answered[store] = map[string]int{}
		for key := range got {
			n := 0
			if _, err := fmt.Sscan(got[key], &n); err == nil && key != "saw" && n > 0 {
				w.answered[store][key] = n
			}
		}
	}
}

// agree expects that the register and the roles of both machines agree.
func (w *world) agree(primary, standby *machine) {
	w.Helper()
	entry, role, other := w.entry(), primary.loadRole(), standby.loadRole()
	assert.Equal(w, []any{role.Lineage, role.Disk, other.Disk, role.Term, pair.ModePaired}, []any{entry.Lineage, entry.Primary, entry.Standby, entry.Term, entry.Mode})
	assert.Equal(w, []any{role.Disk, role.Term, pair.ModeFollowing, pair.RoleStandby}, []any{other.Peer, other.Term, other.Mode, other.Role})
	synctest.Wait()
}

package likeagg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// A world is one seeded run: a table in memory, a queue and some aggregators, in
// virtual time. What happens to a call depends on the seed, the call and how often
// it was made, not on the order of goroutines.
type world struct {
	seed   uint64
	faulty bool
	// script and tune, if set, decide the fate of calls and the configuration.
	script func(op string, key table.Key) fate
	tune   func(*Config)
	mem    *tabletest.Memory

	mu    sync.Mutex
	calls map[string]int
	calm  bool
	fired map[string]int
	out   []Outcome
	// writes counts write units, countWrites the writes of count items.
	writes      float64
	countWrites int
	// calling counts the calls that are out, mostCalling is the highest it was.
	calling, mostCalling int
	lates                sync.WaitGroup

	queue *fakeQueue
	procs []*proc
	// started counts the processes there have been.
	started int
	posts   []string
	ids     *id.Generator
}

// bubble runs f in virtual time and on one thread: the timers of a bubble share one
// context of the race detector (runtime/time.go, unlockAndRun), and two of them run
// at once by two threads end the process with a failed CHECK of ThreadSanitizer.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}

func (w *world) fire(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired[kind]++
}

// begin counts the calls that are out.
func (w *world) begin(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calling += n
	w.mostCalling = max(w.mostCalling, w.calling)
}

func (w *world) outcomes() []Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.out)
}

// dice returns the random source of the nth call of a kind.
func (w *world) dice(call string) *rand.Rand {
	w.mu.Lock()
	n := w.calls[call]
	w.calls[call]++
	w.mu.Unlock()
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, []uint64{w.seed, uint64(n)}) // a hash's Write never fails
	_, _ = h.Write([]byte(call))                                          // the same
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

func (w *world) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm || !w.faulty
}

// proc is one process: an aggregator and its connections.
type proc struct {
	table.Store // nothing but Get, Put and Update is used
	w           *world
	name        string
	skew        time.Duration
	connection  *connection
	stop        context.CancelFunc
	ended       chan struct{}
	err         error // of Run, once it ended
	dead        chan struct{}

	mu     sync.Mutex
	paused chan struct{} // closed when it may go on, nil while it runs
	asleep bool          // a pause in which connections die
}

func (w *world) start() *proc {
	w.started++
	name := fmt.Sprintf("process %d", w.started)
	p := &proc{w: w, name: name, dead: make(chan struct{}), ended: make(chan struct{})}
	p.connection = &connection{p: p, broken: make(chan struct{})}
	dice := w.dice("start " + name)
	if w.faulty {
		p.skew = time.Duration(dice.Int64N(int64(4*time.Minute))) - time.Minute
	}
	cfg := Config{
		Store: p, Broker: p.connection, Now: func() time.Time { return time.Now().Add(p.skew) },
		Window: time.Second, MaxMessages: 40, PutConcurrency: 4, IndexLikes: w.seed%2 == 0,
		Random: dice.Uint64, Grace: 10 * time.Second,
		Observe: func(o Outcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.out = append(w.out, o)
		},
	}
	if w.tune != nil {
		w.tune(&cfg)
	}
	agg := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { defer close(p.ended); p.err = agg.Run(ctx) }()
	return p
}

// crash ends p without another effect.
func (p *proc) crash() {
	p.w.fire("crash")
	close(p.dead)
	p.stop()
	<-p.ended
}

func (p *proc) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func (p *proc) pause(asleep bool) (resume func()) {
	ch := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused, p.asleep = ch, asleep
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.paused, p.asleep = nil, false
		close(ch)
	}
}

var errDead = errors.New("the process is dead")

// gate blocks while p is paused.
func (p *proc) gate() error {
	p.mu.Lock()
	paused, asleep := p.paused, p.asleep
	p.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-p.dead:
		}
	}
	if p.isDead() {
		return errDead
	}
	if paused != nil && asleep {
		return &table.UnavailableError{Op: "sim", Err: errors.New("the connection died in the sleep")}
	}
	return nil
}

func (p *proc) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.dead:
	}
}

// fate is what becomes of a call.
type fate int

const (
	fine   fate = iota
	failed      // an error, no effect
	lost        // the effect, but an error
	late        // an error, the effect up to two minutes later
	slow        // the effect up to ten seconds late, and then the answer
)

func (w *world) fate(dice *rand.Rand, op string, key table.Key) fate {
	if w.script != nil {
		return w.script(op, key)
	}
	x := dice.Float64()
	if w.quiet() {
		return fine
	}
	for i, below := range []float64{0.03, 0.06, 0.09, 0.11} {
		if x < below {
			w.fire([]string{"failed", "lost answer", "late effect", "slow"}[i])
			return fate(i + 1)
		}
	}
	return fine
}

// call makes one call to the table, with what the seed holds for it.
func call[R any](p *proc, op string, key table.Key, effect func() (R, error)) (none R, _ error) {
	p.w.begin(1)
	defer p.w.begin(-1)
	dice := p.w.dice(p.name + op + key.PK + key.SK)
	way := time.Duration(1+dice.IntN(20_000_000)) * time.Nanosecond
	fate := p.w.fate(dice, op, key)
	p.wait(way)
	if err := p.gate(); err != nil {
		return none, err
	}
	if fate == slow {
		p.wait(time.Duration(dice.Int64N(int64(10 * time.Second))))
	}
	var res R
	var err error
	switch fate {
	case late:
		after := time.Duration(dice.Int64N(int64(2 * time.Minute)))
		p.w.lates.Go(func() {
			pass(after)
			_, _ = effect() // nobody waits for its answer
		})
	case fine, slow, lost:
		res, err = effect()
	case failed:
	}
	p.wait(way)
	if gone := p.gate(); gone != nil {
		return none, gone
	}
	if fate == failed || fate == lost || fate == late {
		return none, &table.UnavailableError{Op: op, Err: errors.New("planned")}
	}
	return res, err
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

func (p *proc) Get(_ context.Context, in table.GetInput) (table.GetResult, error) {
	return call(p, "get", in.Key, func() (table.GetResult, error) { return p.w.mem.Get(context.Background(), in) })
}

func (p *proc) write(op string, key table.Key, write func() (table.WriteResult, error)) (table.WriteResult, error) {
	return call(p, op, key, func() (table.WriteResult, error) {
		res, err := write()
		units := res.Units
		if failed, ok := errors.AsType[*table.ConditionError](err); ok {
			units = failed.Units
		}
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.w.writes += units.Write
		if op == "update" {
			p.w.countWrites++
		}
		return res, err
	})
}

func (p *proc) Put(_ context.Context, in table.PutInput) (table.WriteResult, error) {
	return p.write("put", in.Item.Key, func() (table.WriteResult, error) { return p.w.mem.Put(context.Background(), in) })
}

func (p *proc) Update(_ context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return p.write("update", in.Key, func() (table.WriteResult, error) { return p.w.mem.Update(context.Background(), in) })
}

// newWorld returns a world with posts and three processes.
func newWorld(seed uint64, faulty bool) *world {
	w := &world{
		seed: seed, faulty: faulty, mem: tabletest.NewMemory(),
		calls: map[string]int{}, fired: map[string]int{},
		queue: &fakeQueue{changed: make(chan struct{})},
	}
	w.ids = id.NewSeededGenerator(time.Now, rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}))
	for i := range 4 {
		post := w.newID()
		w.posts = append(w.posts, post)
		ref := schema.PostRef{ID: post, Author: "author", LikeShards: 1 + i%2*2, Deleted: i == 3}
		if _, err := w.mem.Put(context.Background(), table.PutInput{Item: ref.Item()}); err != nil {
			panic(err)
		}
	}
	return w
}

func (w *world) newID() string {
	made, err := w.ids.New()
	if err != nil {
		panic(err)
	}
	return made
}

func encode(version, post, user string, liked bool) []byte {
	like := messages.Like{Header: messages.Header{EventID: version, Time: time.Now()}, PostID: post, UserID: user}
	var event messages.Event = &messages.Liked{Like: like}
	if !liked {
		event = &messages.Unliked{Like: like}
	}
	payload, err := messages.Encode(event)
	if err != nil {
		panic(err)
	}
	return payload
}

// settle waits until the queue is empty and every late effect happened.
func (w *world) settle() string {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calm = false
	}()
	for range 2000 {
		pass(3 * time.Second)
		if w.queue.len() == 0 {
			w.lates.Wait()
			pass(time.Minute)
			return ""
		}
	}
	return fmt.Sprintf("%d messages never settle", w.queue.len())
}

// end stops all processes.
func (w *world) end() {
	for _, p := range w.procs {
		p.stop()
		<-p.ended
	}
	w.lates.Wait()
}

// count reads a post's count item.
func (w *world) count(t *testing.T, post int) schema.LikeCount {
	t.Helper()
	res, err := w.mem.Get(t.Context(), table.GetInput{Key: schema.LikeCountKey(w.posts[post]), Consistent: true})
	if err != nil {
		t.Fatal(err)
	}
	return schema.ParseLikeCount(res.Item)
}

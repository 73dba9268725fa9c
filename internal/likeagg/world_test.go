package likeagg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// world is a table in memory, a queue and some aggregators, in virtual time.
type world struct {
	t     *testing.T
	post  string // the post that send likes
	mem   *tabletest.Memory
	queue *fakeQueue
	ids   *id.Generator
	procs []*proc
	tune  func(*Config)
	// hint sets Stored in the messages.
	hint  bool
	lates sync.WaitGroup
	// fault decides the fault of a request. ended, if set, is called after the effect of a request.
	fault func(r request) fault
	ended func(r request, met fault, err error)

	mu        sync.Mutex
	faults    map[string]fault // by operation and number: "put1"
	requested map[string]int   // by operation
	units     float64          // write units of likes and counts
	out       []Outcome
	// calling is the number of requests in progress. mostCalling is its maximum so far.
	calling, mostCalling int
}

// request is one call of the table.
type request struct {
	p *proc
	// op is "post", "like", "ledger", "user" or "ends", which read, or "put", "flush", "fence",
	// "end" (notes one) or "prune".
	op   string
	key  table.Key
	in   table.UpdateInput // the update of a flush, a fence or a prune
	keys []table.Key       // the keys of a read of ends
}

// fault is the fault of a request.
type fault int

const (
	none     fault = iota
	failed         // an error, and no effect
	lost           // the effect, and an error
	late           // an error, and the effect two minutes later
	slow           // the effect and the answer after ten seconds
	crashed        // the death of the process before the effect
	denied         // an error of an unknown kind, and no effect
	invalid        // an error that means that nothing was written
	panicked       // the effect, and then a panic
	short          // an error that means no capacity and no effect
)

// step runs f in virtual time and on one thread: the timers of a bubble share one context of
// the race detector (runtime/time.go, unlockAndRun). If two threads run two of these timers at
// once, a failed CHECK of ThreadSanitizer ends the process.
func step(t *testing.T, f func(w *world)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, mem: tabletest.NewMemory(), queue: newFakeQueue(), requested: map[string]int{}}
		w.ids = id.NewSeededGenerator(time.Now, rand.NewChaCha8([32]byte{1}))
		w.fault = w.planned
		w.post = w.newPost(schema.PostRef{LikeShards: 1})
		defer w.end()
		f(w)
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

func (w *world) newID() string {
	made, err := w.ids.New()
	require.NoError(w.t, err)
	return made
}

func (w *world) newPost(ref schema.PostRef) string {
	ref.ID, ref.Author = w.newID(), "author"
	_, err := w.mem.Put(w.t.Context(), table.PutInput{Item: ref.Item()})
	require.NoError(w.t, err)
	return ref.ID
}

// planned returns the fault that faults names for a request.
func (w *world) planned(r request) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults[fmt.Sprint(r.op, w.requested[r.op])]
}

// proc is one process: an aggregator and its table.
type proc struct {
	table.Store // only Get, BatchGet, Put and Update are called
	w           *world
	name        string
	skew        atomic.Int64 // the difference between the process's clock and the right time
	stop        context.CancelFunc
	dead        chan struct{}
	ended       chan struct{}
	err         error // the error of Run, once Run has ended
}

func (w *world) run() *proc {
	return w.start("", w.queue, rand.New(rand.NewPCG(uint64(len(w.procs)), 1)).Uint64)
}

func (w *world) start(name string, broker broker, random func() uint64) *proc {
	p := &proc{w: w, name: name, dead: make(chan struct{}), ended: make(chan struct{})}
	cfg := Config{
		Store: p, Broker: broker, Window: time.Second, MaxMessages: 40, PutConcurrency: 4, IndexLikes: true,
		Random: random, Grace: 10 * time.Second,
		Now: func() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) },
		Observe: func(o Outcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.out = append(w.out, o)
		},
	}
	if w.tune != nil {
		w.tune(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	w.procs = append(w.procs, p)
	agg := New(cfg)
	go func() { defer close(p.ended); p.err = agg.Run(ctx) }()
	return p
}

// end stops all processes.
func (w *world) end() {
	for _, p := range w.procs {
		p.stop()
		<-p.ended
	}
	w.lates.Wait()
}

var errDead = errors.New("the process is dead")

func (p *proc) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// call makes one request and applies the request's fault.
func call[R any](r request, effect func() (R, error)) (nothing R, _ error) {
	w := r.p.w
	w.mu.Lock()
	w.requested[r.op]++
	w.calling++
	w.mostCalling = max(w.mostCalling, w.calling)
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.calling--; w.mu.Unlock() }()
	if r.p.isDead() {
		return nothing, errDead
	}
	if r.p.name == "" { // in a scenario a request takes no time
		pass(10 * time.Millisecond)
	}
	met := w.fault(r)
	apply := func() (R, error) {
		res, err := effect()
		if w.ended != nil {
			w.ended(r, met, err)
		}
		return res, err
	}
	unknown := &table.UnavailableError{Op: r.op, Err: errors.New("planned")}
	switch met {
	case failed:
		return nothing, unknown
	case lost:
		_, _ = apply() // the caller does not get this result
		return nothing, unknown
	case late:
		w.lates.Go(func() { pass(2 * time.Minute); _, _ = apply() })
		return nothing, unknown
	case slow:
		pass(10 * time.Second)
	case crashed:
		close(r.p.dead)
		r.p.stop()
		return nothing, errDead
	case denied:
		return nothing, errors.New("access denied")
	case invalid:
		return nothing, &table.InvalidError{Problem: "planned"}
	case short:
		return nothing, &table.UnavailableError{Op: r.op, Err: errors.New("planned"), Reason: table.ShortUnknown, Undone: true}
	case panicked:
		_, _ = apply() // the caller does not get this result
		panic("boom")
	case none:
	}
	return apply()
}

func (p *proc) Get(_ context.Context, in table.GetInput) (table.GetResult, error) {
	op := "post"
	if strings.HasSuffix(in.Key.PK, "#likecount") {
		op = "ledger"
	} else if strings.Contains(in.Key.PK, "#likelist") {
		op = "like"
	}
	return call(request{p: p, op: op, key: in.Key}, func() (table.GetResult, error) { return p.w.mem.Get(context.Background(), in) })
}

// billed adds the units of a write.
func (w *world) billed(res table.WriteResult, err error) (table.WriteResult, error) {
	units := res.Units
	if refusal, ok := errors.AsType[*table.ConditionError](err); ok {
		units = refusal.Units
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.units += units.Write
	return res, err
}

func (p *proc) BatchGet(_ context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	op := "ends"
	if in.Keys[0].SK == schema.SortInfo {
		op = "user"
	}
	return call(request{p: p, op: op, key: in.Keys[0], keys: in.Keys}, func() (table.BatchGetResult, error) {
		return p.w.mem.BatchGet(context.Background(), in)
	})
}

func (p *proc) Put(_ context.Context, in table.PutInput) (table.WriteResult, error) {
	op := "put"
	if in.Item.Key.SK == schema.SortEnd {
		op = "end"
	}
	return call(request{p: p, op: op, key: in.Item.Key}, func() (table.WriteResult, error) {
		res, err := p.w.mem.Put(context.Background(), in)
		if op != "put" {
			return res, err
		}
		return p.w.billed(res, err)
	})
}

func (p *proc) Update(_ context.Context, in table.UpdateInput) (table.WriteResult, error) {
	op := "fence"
	if len(in.Add) > 0 {
		op = "flush"
	} else if len(in.Remove) > 0 {
		op = "prune"
	}
	return call(request{p: p, op: op, key: in.Key, in: in}, func() (table.WriteResult, error) {
		return p.w.billed(p.w.mem.Update(context.Background(), in))
	})
}

func encode(version, post, user, kind string) []byte {
	like := messages.Like{Header: messages.Header{EventID: version, Time: time.Now()}, PostID: post, UserID: user}
	return encodeAction(like, kind)
}

func encodeAction(like messages.Like, kind string) []byte {
	return encodeEvent(messages.Action(like, kind))
}

func encodeEvent(e messages.Event) []byte {
	payload, err := messages.Encode(e)
	if err != nil {
		panic(err)
	}
	return payload
}

// send publishes a like, or an unlike, and returns its version.
func (w *world) send(user string, liked bool) string {
	return w.react(user, map[bool]string{true: schema.KindLike}[liked])
}

// react publishes a reaction of a kind, "" for none, and returns its version.
func (w *world) react(user, kind string) string {
	version := w.newID()
	like := messages.Like{Header: messages.Header{EventID: version, Time: time.Now()}, PostID: w.post, UserID: user, Stored: w.hint}
	w.queue.publish(encodeAction(like, kind))
	return version
}

// settle waits until the queue is empty and every late effect has happened.
func (w *world) settle() {
	w.t.Helper()
	for range 2000 {
		pass(3 * time.Second)
		if w.queue.len() == 0 {
			w.lates.Wait()
			pass(time.Minute)
			return
		}
	}
	w.t.Fatalf("%d messages never settle", w.queue.len())
}

// store puts a like with the stamp of another aggregator.
func (w *world) store(l schema.Like) {
	w.t.Helper()
	l.Post = w.post
	_, err := w.mem.Put(w.t.Context(), table.PutInput{Item: l.Item()})
	require.NoError(w.t, err)
}

// setCount changes the count item.
func (w *world) setCount(attrs ...table.Attr) {
	w.t.Helper()
	_, err := w.mem.Update(w.t.Context(), table.UpdateInput{Key: schema.LikeCountKey(w.post), Set: attrs})
	require.NoError(w.t, err)
}

// likes returns the likes of the post, ordered by user.
func (w *world) likes(shards int) []schema.Like {
	w.t.Helper()
	var all []schema.Like
	for shard := range shards {
		items, _, err := table.Collect(w.mem.Query(w.t.Context(), table.Query{PK: schema.LikesPK(w.post, shard, shards), Consistent: true}), 0)
		require.NoError(w.t, err)
		for _, it := range items {
			l, err := schema.ParseLike(it)
			require.NoError(w.t, err)
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b schema.Like) int { return strings.Compare(a.User, b.User) })
	return all
}

// count reads the post's count item.
func (w *world) count() schema.LikeCount {
	w.t.Helper()
	res, err := w.mem.Get(w.t.Context(), table.GetInput{Key: schema.LikeCountKey(w.post), Consistent: true})
	require.NoError(w.t, err)
	return schema.ParseLikeCount(res.Item)
}

// endOf reads the note of an incarnation's end, nil for none.
func (w *world) endOf(inc string) *schema.LikeEnd {
	w.t.Helper()
	res, err := w.mem.Get(w.t.Context(), table.GetInput{Key: schema.LikeEndKey(inc), Consistent: true})
	if err != nil || res.Item == nil {
		return nil
	}
	end, err := schema.ParseLikeEnd(*res.Item)
	require.NoError(w.t, err)
	return &end
}

func (w *world) wantCount(likes int64) schema.LikeCount {
	w.t.Helper()
	count := w.count()
	assert.Equal(w.t, likes, count.Likes())
	return count
}

// wantKinds compares the counts of kinds with want.
func (w *world) wantKinds(want map[string]int64) {
	w.t.Helper()
	counts := w.count().Kinds
	maps.DeleteFunc(counts, func(_ string, n int64) bool { return n == 0 })
	assert.Equal(w.t, want, counts)
}

// wantWrites compares the number of writes of likes, and the number of flushes and fences of the count item.
func (w *world) wantWrites(puts, updates int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.requested["flush"] + w.requested["fence"]; w.requested["put"] != puts || got != updates {
		w.t.Errorf("%d puts and %d updates, want %d and %d", w.requested["put"], got, puts, updates)
	}
}

func (w *world) wantDead(n int, reason string) {
	w.t.Helper()
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	if len(w.queue.dead) != n || n > 0 && !strings.Contains(w.queue.dead[n-1], reason) {
		w.t.Errorf("dead letters %q, want %d, the last with %q", w.queue.dead, n, reason)
	}
}

func (w *world) outcomes() []Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.out)
}

// others returns the flush with number n of another aggregator that began today.
func others(n uint64) schema.Flush {
	return schema.Flush{Inc: newIncarnation(dayOf(time.Now()), n), Seq: 3}
}

// leftBy stores the items of a dead aggregator. In its flush g it counted the likes of a number of users: fan0,
// fan1 and so on. It died before it flushed the like of orphan.
func (w *world) leftBy(g schema.Flush, users int) {
	w.t.Helper()
	w.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(int64(users))}, table.Attr{Name: schema.AttrFlushed(g.Inc), Value: table.N(g.Seq)})
	for i := range users {
		w.store(schema.Like{User: fmt.Sprint("fan", i), Kind: schema.KindLike, Version: w.newID(), Flush: g})
	}
	w.store(schema.Like{User: "orphan", Kind: schema.KindLike, Version: w.newID(), Flush: schema.Flush{Inc: g.Inc, Seq: g.Seq + 1}})
}

// noteEnd notes the clean end of an incarnation.
func (w *world) noteEnd(inc string, lost ...string) {
	w.t.Helper()
	end := schema.LikeEnd{Inc: inc, Lost: map[string]bool{}}
	for _, post := range lost {
		end.Lost[post] = true
	}
	_, err := w.mem.Put(w.t.Context(), table.PutInput{Item: end.Item()})
	require.NoError(w.t, err)
}

// large makes the count item so large that a flush costs three units, by entries of other
// incarnations. If noted, these incarnations have noted their end.
func (w *world) large(noted bool) {
	w.t.Helper()
	var attrs []table.Attr
	for i := range 150 {
		inc := newIncarnation(dayOf(time.Now())-int64(i%40), uint64(1000+i))
		attrs = append(attrs, table.Attr{Name: schema.AttrFlushed(inc), Value: table.N(1)})
		if noted {
			w.noteEnd(inc)
		}
	}
	w.setCount(attrs...)
}

// unlikeAll makes the users of leftBy take their likes back.
func (w *world) unlikeAll(users int) {
	for i := range users {
		w.send(fmt.Sprint("fan", i), false)
	}
	w.settle()
}

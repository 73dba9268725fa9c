package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/planttest"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// plant builds this package's tests with edits of one of the package's files.
func plant(t *testing.T, file string, edits ...planttest.Edit) (binary string) {
	t.Helper()
	for i := range edits {
		edits[i].File = "internal/table/embedded/" + file
	}
	return planttest.Build(t, planttest.Overlay(t, planttest.Root(t), edits))
}

// The durability tests must find a store that answers before its log is synced.
func TestACrashShowsWritesWithoutSync(t *testing.T) {
	t.Parallel()
	binary := plant(t, "durable.go",
		planttest.Edit{Old: "write: db.ApplyNoSyncWait,", New: "write: func(b *pebble.Batch, _ *pebble.WriteOptions) error { return db.Apply(b, pebble.NoSync) },"},
		planttest.Edit{Old: "next.err = next.batch.SyncWait()", New: "next.err = nil"},
	)
	planttest.MustFail(t, binary, "TestAnsweredWritesSurviveACrash", "(-answered +there)", 1)
	planttest.MustFail(t, binary, "TestWritesSeenUnderLoadSurviveACrash", "had been seen", 1)
}

// I5: answered writes survive a crash that loses all unsynced data.
func TestAnsweredWritesSurviveACrash(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		if lost := lostByCrashes(t, seed); lost != "" {
			t.Errorf("seed %d: %s", seed, lost)
		}
	}
}

// lostByCrashes makes random writes. After each write it copies the file system as after a crash, and returns
// the writes that the copy lost, "" for none.
func lostByCrashes(t *testing.T, seed uint64) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	fs := vfs.NewCrashableMem()
	s := open(t, "some/dir", Options{FS: fs, SweepEvery: -1})
	want := tabletest.NewMemory()
	for i := range 80 {
		op := randomWrite(rng)
		require.Equalf(t, op(t.Context(), want), op(t.Context(), s), "operation %d answered", i)
		// A part of the unsynced data may survive a crash, and must do no harm.
		cfg := vfs.CrashCloneCfg{}
		if rng.IntN(2) == 0 {
			cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(100), RNG: rand.New(rand.NewPCG(seed, uint64(i)))}
		}
		after, err := Create("some/dir", Options{FS: fs.CrashClone(cfg), SweepEvery: -1})
		if err != nil {
			return fmt.Sprintf("after operation %d: %v", i, err)
		}
		diff := cmp.Diff(contents(t, want), contents(t, after), cmp.AllowUnexported(table.Value{}))
		require.NoError(t, after.Close())
		if diff != "" {
			return fmt.Sprintf("after operation %d (-answered +there):\n%s", i, diff)
		}
	}
	return ""
}

// The random writes use this number of partitions and of sort keys.
const crashPartitions, crashSorts = 3, 4

func crashKey(rng *rand.Rand) table.Key {
	return table.Key{PK: fmt.Sprint("p", rng.IntN(crashPartitions)), SK: fmt.Sprint("s", rng.IntN(crashSorts))}
}

// randomWrite returns a write that has the same answer on every correct store.
func randomWrite(rng *rand.Rand) func(context.Context, table.Store) string {
	attrs := func() []table.Attr {
		a := []table.Attr{{Name: "n", Value: table.N(rng.Int64N(1000))}, {Name: "pad", Value: table.S(strings.Repeat("x", rng.IntN(3000)))}}
		if rng.IntN(2) == 0 {
			a = append(a, table.Attr{Name: table.AttrGSI1PK, Value: table.S(fmt.Sprint("g", rng.IntN(2)))},
				table.Attr{Name: table.AttrGSI1SK, Value: table.S(fmt.Sprint("h", rng.IntN(3)))})
		}
		return a
	}
	cond := []table.Cond{nil, nil, table.Absent{}, table.Exists{}}[rng.IntN(4)]
	key := crashKey(rng)
	switch rng.IntN(5) {
	case 0:
		in := table.PutInput{Item: table.Item{Key: key, Attrs: attrs()}, If: cond}
		return func(ctx context.Context, s table.Store) string { return outcome(s.Put(ctx, in)) }
	case 1:
		in := table.UpdateInput{Key: key, Set: attrs()[1:], Add: []table.Attr{{Name: "n", Value: table.N(1)}}, If: cond}
		return func(ctx context.Context, s table.Store) string { return outcome(s.Update(ctx, in)) }
	case 2:
		return func(ctx context.Context, s table.Store) string {
			return outcome(s.Delete(ctx, table.DeleteInput{Key: key, If: cond}))
		}
	}
	var writes []table.BatchWrite
	var in table.TransactInput
	seen := map[table.Key]bool{}
	for range 1 + rng.IntN(6) {
		key := crashKey(rng)
		if seen[key] {
			continue
		}
		seen[key] = true
		if rng.IntN(4) == 0 {
			writes = append(writes, table.BatchWrite{Delete: key})
			in.Ops = append(in.Ops, table.TransactOp{Delete: &table.DeleteInput{Key: key}})
			continue
		}
		it := table.Item{Key: key, Attrs: attrs()}
		writes = append(writes, table.BatchWrite{Put: &it})
		in.Ops = append(in.Ops, table.TransactOp{Put: &table.PutInput{Item: it, If: cond}})
	}
	if rng.IntN(2) == 0 {
		return func(ctx context.Context, s table.Store) string { return outcome(s.BatchWrite(ctx, writes)) }
	}
	return func(ctx context.Context, s table.Store) string { return outcome(s.Transact(ctx, in)) }
}

func outcome(_ table.WriteResult, err error) string {
	if _, ok := errors.AsType[*table.ConditionError](err); ok {
		return "condition"
	}
	if _, ok := errors.AsType[*table.CancelledError](err); ok {
		return "cancelled"
	}
	return fmt.Sprint(err)
}

// contents returns all items of the random writes, by partition and by partition of the index.
func contents(t *testing.T, s table.Store) map[string][]table.Item {
	t.Helper()
	out := map[string][]table.Item{}
	read := func(name string, q table.Query) {
		items, _, err := table.Collect(s.Query(t.Context(), q), 0)
		require.NoError(t, err)
		for i := range items {
			out[name] = append(out[name], sorted(items[i]))
		}
	}
	for i := range crashPartitions {
		pk := fmt.Sprint("p", i)
		read(pk, table.Query{PK: pk, Consistent: true})
	}
	for i := range 2 {
		pk := fmt.Sprint("g", i)
		read(pk, table.Query{PK: pk, Index: true})
	}
	return out
}

// Under load, a write that any caller has seen must survive a crash: the caller's own write, a write that
// the caller read, and a write that made the caller's condition fail.
func TestWritesSeenUnderLoadSurviveACrash(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, "data", Options{FS: fs})
	const writers = 4
	var seen [writers]atomic.Int64 // the highest number of each writer that any caller saw
	saw := func(w int, n int64) {
		for old := seen[w].Load(); n > old && !seen[w].CompareAndSwap(old, n); old = seen[w].Load() {
		}
	}
	key := func(w int) table.Key { return table.Key{PK: fmt.Sprint("p", w), SK: "s"} }
	stop := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(call func() error) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := call(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for w := range writers {
		n := int64(0)
		loop(func() error {
			n++
			it := table.Item{Key: key(w), Attrs: []table.Attr{{Name: "n", Value: table.N(n)}}}
			var err error
			switch n % 3 {
			case 0:
				_, err = s.Put(t.Context(), table.PutInput{Item: it})
			case 1:
				_, err = s.BatchWrite(t.Context(), []table.BatchWrite{{Put: &it}})
			default:
				_, err = s.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{{Put: &table.PutInput{Item: it}}}})
			}
			saw(w, n)
			return err
		})
		loop(func() error {
			res, err := s.Get(t.Context(), table.GetInput{Key: key(w), Consistent: true})
			if err == nil && res.Item != nil {
				saw(w, res.Item.Int("n"))
			}
			return err
		})
		loop(func() error {
			items, _, err := table.Collect(s.Query(t.Context(), table.Query{PK: key(w).PK, Consistent: true}), 0)
			if len(items) > 0 {
				saw(w, items[0].Int("n"))
			}
			return err
		})
		loop(func() error {
			_, err := s.Delete(t.Context(), table.DeleteInput{Key: key(w), If: table.Equal{Name: "n", Value: table.N(-1)}})
			failed, ok := errors.AsType[*table.ConditionError](err)
			if !ok {
				return fmt.Errorf("error = %w, want a ConditionError", err)
			}
			if failed.Old != nil {
				saw(w, failed.Old.Int("n"))
			}
			return nil
		})
	}
	defer wg.Wait()
	defer close(stop)
	for crash := range 30 {
		disktest.Until(t, func() bool { return seen[crash%writers].Load() >= int64(crash) })
		var before [writers]int64
		for w := range before {
			before[w] = seen[w].Load()
		}
		after := open(t, "data", Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
		for w := range before {
			res, err := after.Get(t.Context(), table.GetInput{Key: key(w), Consistent: true})
			if err != nil {
				t.Fatal(err)
			}
			got := int64(0)
			if res.Item != nil {
				got = res.Item.Int("n")
			}
			if got < before[w] {
				t.Fatalf("crash %d: writer %d's number is %d, but %d had been seen", crash, w, got, before[w])
			}
		}
	}
}

// TestConcurrentDecisionsAreSerial must find decisions without locks. A single run may miss them by chance.
func TestConcurrencyShowsDecisionsWithoutLocks(t *testing.T) {
	t.Parallel()
	binary := plant(t, "durable.go",
		planttest.Edit{Old: "stripe := &l.stripes[hash%lockCount]", New: "stripe := new(sync.RWMutex)"},
		planttest.Edit{Old: "func (s *lockSet) add(hash uint64, alone bool) {", New: "func (s *lockSet) add(hash uint64, alone bool) {\n\treturn"},
	)
	planttest.MustFail(t, binary, "TestConcurrentDecisionsAreSerial", "creations won", 1000)
}

// Transactions and conditional puts raise counters at the same time, and no raise is lost.
func TestConcurrentDecisionsAreSerial(t *testing.T) {
	t.Parallel()
	s := open(t, "data", Options{FS: vfs.NewMem()})
	const workers, rounds = 8, 50
	a, b := table.Key{PK: "p", SK: "a"}, table.Key{PK: "q", SK: "b"}
	var wg sync.WaitGroup
	var won atomic.Int64
	for range workers {
		wg.Go(func() {
			for i := range rounds {
				ops := []table.TransactOp{
					{Update: &table.UpdateInput{Key: a, Add: []table.Attr{{Name: "n", Value: table.N(1)}}}},
					{Update: &table.UpdateInput{Key: b, Add: []table.Attr{{Name: "n", Value: table.N(-1)}}}},
				}
				if i%2 == 1 {
					ops[0], ops[1] = ops[1], ops[0]
				}
				if _, err := s.Transact(t.Context(), table.TransactInput{Ops: ops}); err != nil {
					t.Error(err)
				}
				first := table.Item{Key: table.Key{PK: "first", SK: fmt.Sprint(i)}}
				_, err := s.Put(t.Context(), table.PutInput{Item: first, If: table.Absent{}})
				if err == nil {
					won.Add(1)
				}
			}
		})
	}
	wg.Wait()
	got, err := s.BatchGet(t.Context(), table.BatchGetInput{Keys: []table.Key{a, b}, Consistent: true})
	if err != nil || len(got.Items) != 2 {
		t.Fatalf("BatchGet: %d items, %v", len(got.Items), err)
	}
	up, down := got.Items[0].Int("n"), got.Items[1].Int("n")
	if up != workers*rounds || down != -workers*rounds || won.Load() != rounds {
		t.Errorf("counters are %d and %d, and %d creations won; want ±%d and %d", up, down, won.Load(), workers*rounds, rounds)
	}
}

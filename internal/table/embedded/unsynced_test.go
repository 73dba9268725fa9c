package embedded

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/planttest"
	"fanfare/internal/table"
)

// In these tests the disk does not sync, so a write is visible but not durable. A read that saw the write has
// to wait, because a crash may take the write back (I5).

// unsynced is a store whose syncs wait until synced is closed.
type unsynced struct {
	*Store
	fs     *disktest.FS
	synced chan struct{}
}

func newUnsynced(t *testing.T, items ...table.Item) *unsynced {
	t.Helper()
	s := &unsynced{fs: disktest.New(vfs.NewMem()), synced: make(chan struct{})}
	s.Store = open(t, "data", Options{FS: s.fs, SweepEvery: -1})
	putAll(t, s.Store, items...)
	return s
}

// shown begins a write, and returns once reads see the write.
func (s *unsynced) shown(t *testing.T, key table.Key, write func(context.Context, table.Store) error) (written chan error) {
	t.Helper()
	before, _, err := s.read(key)
	require.NoError(t, err)
	s.fs.Set(func(op, _ string, _ int) error {
		if op == "sync" {
			<-s.synced
		}
		return nil
	})
	written = make(chan error, 1)
	go func() { written <- write(t.Context(), s.Store) }()
	disktest.Until(t, func() bool {
		now, _, err := s.read(key)
		require.NoError(t, err)
		return !assert.ObjectsAreEqual(before, now)
	})
	return written
}

// waits fails if a read is answered before the write that it saw is durable.
func (s *unsynced) waits(t *testing.T, read, written chan error) {
	t.Helper()
	disktest.Until(t, func() bool { return len(read) > 0 || calls("(*Store).settle(") })
	assert.Empty(t, read, "answered by a write that is not durable")
	close(s.synced)
	require.NoError(t, <-read)
	require.NoError(t, <-written)
}

// calls reports whether a goroutine is running a function of this package.
func calls(function string) bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "embedded."+function)
}

// The read checks its slot first, and then the write is made.
func TestAReadWaitsForAWriteThatItMeets(t *testing.T) {
	t.Parallel()
	key := table.Key{PK: "p", SK: "s"}
	item := func(n int64) table.Item {
		return table.Item{Key: key, Attrs: []table.Attr{{Name: "n", Value: table.N(n)}}}
	}
	for name, read := range map[string]func(context.Context, table.Store) error{
		"get": func(ctx context.Context, s table.Store) error {
			_, err := s.Get(ctx, table.GetInput{Key: key})
			return err
		},
		"batch get": func(ctx context.Context, s table.Store) error {
			_, err := s.BatchGet(ctx, table.BatchGetInput{Keys: []table.Key{key}})
			return err
		},
		"query": func(ctx context.Context, s table.Store) error {
			_, _, err := table.Collect(s.Query(ctx, table.Query{PK: key.PK}), 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUnsynced(t, item(1))
			for i := range s.recent.shards {
				s.recent.shards[i].mu.Lock() // the read stops at this lock, after the check of its slot
			}
			answered := make(chan error, 1)
			go func() { answered <- read(t.Context(), s.Store) }()
			disktest.Until(t, func() bool { return calls("(*recent).get(") })
			written := s.shown(t, key, func(ctx context.Context, store table.Store) error {
				_, err := store.Put(ctx, table.PutInput{Item: item(2)})
				return err
			})
			for i := range s.recent.shards {
				s.recent.shards[i].mu.Unlock()
			}
			s.waits(t, answered, written)
		})
	}
}

// A write changes a partition of the index. A query of that partition waits for the write.
func TestAQueryOfTheIndexWaitsForEachWrite(t *testing.T) {
	t.Parallel()
	key := table.Key{PK: "p", SK: "s"}
	in := func(partition string, n int64) table.Item {
		return table.Item{Key: key, Attrs: []table.Attr{
			{Name: "n", Value: table.N(n)}, {Name: table.AttrGSI1PK, Value: table.S(partition)}, {Name: table.AttrGSI1SK, Value: table.S("h")},
		}}
	}
	plain := table.Item{Key: key, Attrs: []table.Attr{{Name: "n", Value: table.N(3)}}}
	put := func(it table.Item) func(context.Context, table.Store) error {
		return func(ctx context.Context, s table.Store) error {
			_, err := s.Put(ctx, table.PutInput{Item: it})
			return err
		}
	}
	batch := func(w table.BatchWrite) func(context.Context, table.Store) error {
		return func(ctx context.Context, s table.Store) error {
			_, err := s.BatchWrite(ctx, []table.BatchWrite{w})
			return err
		}
	}
	transact := func(lazy bool, op table.TransactOp) func(context.Context, table.Store) error {
		return func(ctx context.Context, s table.Store) error {
			_, err := s.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{op}, Lazy: lazy})
			return err
		}
	}
	elsewhere := in("other", 2)
	for name, c := range map[string]struct {
		before table.Item
		write  func(context.Context, table.Store) error
	}{
		"put out of the index":       {in("g", 1), put(plain)},
		"put into another partition": {in("g", 1), put(elsewhere)},
		"put into this one":          {elsewhere, put(in("g", 1))},
		"put in place":               {in("g", 1), put(in("g", 2))},
		"delete": {in("g", 1), func(ctx context.Context, s table.Store) error {
			_, err := s.Delete(ctx, table.DeleteInput{Key: key})
			return err
		}},
		"update out of the index": {in("g", 1), func(ctx context.Context, s table.Store) error {
			_, err := s.Update(ctx, table.UpdateInput{Key: key, Remove: []string{table.AttrGSI1PK}})
			return err
		}},
		"batch delete":                    {in("g", 1), batch(table.BatchWrite{Delete: key})},
		"batch put into another":          {in("g", 1), batch(table.BatchWrite{Put: &elsewhere})},
		"batch put out of the index":      {in("g", 1), batch(table.BatchWrite{Put: &plain})},
		"transaction":                     {in("g", 1), transact(false, table.TransactOp{Delete: &table.DeleteInput{Key: key}})},
		"transaction that waits for none": {in("g", 1), transact(true, table.TransactOp{Put: &table.PutInput{Item: elsewhere}})},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUnsynced(t, c.before)
			written := s.shown(t, key, c.write)
			answered := make(chan error, 1)
			go func() {
				_, _, err := table.Collect(s.Query(t.Context(), table.Query{Index: true, PK: "g"}), 0)
				answered <- err
			}()
			s.waits(t, answered, written)
		})
	}
}

// The tests of this file must find each read and each write that forgets a slot.
func TestAnAnswerThatIsNotDurableIsFound(t *testing.T) {
	t.Parallel()
	const folder = "internal/table/embedded/"
	edits := map[string]planttest.Edit{
		"TestAReadWaitsForAWriteThatItMeets/get": {
			File: folder + "recent.go", Old: "now, _ := s.commits.last(slot); !settled || now != seq", New: "now, _ := s.commits.last(slot); !settled && now == now",
		},
		"TestAReadWaitsForAWriteThatItMeets/query": {
			File: folder + "recent.go", Old: "now, _ := s.commits.last(slotOf(partition)); !settled || now != seq", New: "now, _ := s.commits.last(slotOf(partition)); !settled && now == now",
		},
		"TestAQueryOfTheIndexWaitsForEachWrite/delete": {
			File: folder + "write.go", Old: "	if was {\n		st.addSlot(old.Str(table.AttrGSI1PK))\n	}\n",
		},
		"TestAQueryOfTheIndexWaitsForEachWrite/put_into_this_one": {
			File: folder + "write.go", Old: "		st.addSlot(after.Str(table.AttrGSI1PK))\n",
		},
		"TestAQueryOfTheIndexWaitsForEachWrite/batch_put_out_of_the_index": {
			File: folder + "read.go", Old: "		p.passBy(key)\n		return nil\n", New: "		return nil\n",
		},
	}
	binary := planttest.Build(t, planttest.Overlay(t, planttest.Root(t), slices.Collect(maps.Values(edits)))) // each test finds one edit
	for test := range edits {
		planttest.MustFail(t, binary, test, "not durable", 1)
	}
}

package embedded

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/planttest"
	"fanfare/internal/table"
)

// Readers read items from memory while writers change the items in every way. A read shows at
// least the writes that were answered before the read began, and at most the writes that had
// begun when the read ended. So a reader never sees an older state after a newer state.
func TestItemsInMemoryAreAsNewAsTheTable(t *testing.T) {
	t.Parallel()
	const writes, readers = 400, 4
	s := open(t, "data", Options{FS: vfs.NewMem(), SweepEvery: -1})
	keys := []table.Key{{PK: "p", SK: "0"}, {PK: "p", SK: "1"}, {PK: "q", SK: "0"}}
	begun, answered := make([]atomic.Int64, len(keys)), make([]atomic.Int64, len(keys))
	write := func(key table.Key, n int64) error {
		it := table.Item{Key: key, Attrs: []table.Attr{{Name: "n", Value: table.N(n)}}}
		var err error
		switch n % 4 {
		case 0:
			_, err = s.Put(t.Context(), table.PutInput{Item: it})
		case 1:
			_, err = s.BatchWrite(t.Context(), []table.BatchWrite{{Put: &it}})
		case 2:
			_, err = s.Update(t.Context(), table.UpdateInput{Key: key, Add: []table.Attr{{Name: "n", Value: table.N(1)}}})
		case 3:
			_, err = s.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{{Put: &table.PutInput{Item: it}}}})
		}
		return err
	}
	var writing, reading sync.WaitGroup
	var done atomic.Bool
	for k, key := range keys {
		writing.Go(func() {
			for n := int64(1); n <= writes && !t.Failed(); n++ {
				begun[k].Store(n)
				assert.NoError(t, write(key, n))
				answered[k].Store(n)
			}
		})
	}
	for reader := range readers {
		reading.Go(func() {
			seen := map[table.Key]int64{}
			for last := false; !last && !t.Failed(); {
				last = done.Load()
				for k, key := range keys {
					seen[key] = max(seen[key], answered[k].Load())
				}
				got := map[table.Key]int64{}
				if byKey := reader%2 == 0; byKey {
					res, err := s.BatchGet(t.Context(), table.BatchGetInput{Keys: keys})
					assert.NoError(t, err)
					for _, it := range res.Items {
						got[it.Key] = it.Int("n")
					}
				}
				for _, pk := range []string{"p", "q"} {
					items, _, err := table.Collect(s.Query(t.Context(), table.Query{PK: pk}), 0)
					assert.NoError(t, err)
					for _, it := range items {
						assert.GreaterOrEqual(t, it.Int("n"), got[it.Key], "at least the number that was seen before")
						got[it.Key] = it.Int("n")
					}
				}
				for k, key := range keys {
					assert.GreaterOrEqual(t, got[key], seen[key], "at least the number that was answered or seen before")
					assert.LessOrEqual(t, got[key], begun[k].Load())
				}
				seen = got
			}
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
}

func TestConcurrencyShowsItemsInMemoryThatAreOld(t *testing.T) {
	t.Parallel()
	binary := plant(t, "recent.go", planttest.Edit{Old: "return it, ok && it.seq == seq", New: "return it, ok"})
	planttest.MustFail(t, binary, "TestItemsInMemoryAreAsNewAsTheTable", "at least", 100)
}

// The test reads more items than the memory has room for, and reads each item repeatedly. It also reads absent
// items, which take no room.
func TestItemsInMemoryStayWithinTheirBytes(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	s := open(t, "data", Options{FS: vfs.NewMem(), SweepEvery: -1, MemoryBytes: most * recentShare})
	get := func(pk string) *table.Item {
		res, err := s.Get(t.Context(), table.GetInput{Key: table.Key{PK: pk, SK: "s"}})
		require.NoError(t, err)
		return res.Item
	}
	for range 2 {
		assert.Nil(t, get("nobody"))
	}
	assert.Zero(t, s.Stats().ItemBytes, "an absent item is not kept")
	putAll(t, s, table.Item{Key: table.Key{PK: "once", SK: "s"}})
	get("once")
	assert.Positive(t, s.Stats().ItemBytes, "an item is kept when it is read")
	for i := range 600 {
		pk := fmt.Sprint("p", i)
		it := table.Item{Key: table.Key{PK: pk, SK: "s"}, Attrs: []table.Attr{{Name: "text", Value: table.S(strings.Repeat("x", 10*(i%200)))}}}
		putAll(t, s, it)
		for range 2 {
			assert.Equal(t, &it, get(pk))
			assert.Nil(t, get("absent"+pk))
		}
		require.LessOrEqual(t, s.Stats().ItemBytes, int64(most))
	}
	assert.Greater(t, s.Stats().ItemBytes, int64(most/2))
}

// One store keeps its reads in memory, and the other store keeps none. Both stores return the same answers
// and units, even while bounds rise, and items are added and removed.
func TestPagesInMemoryAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	with := open(t, "data", Options{FS: vfs.NewMem(), SweepEvery: -1})
	without := open(t, "data", Options{FS: vfs.NewMem(), SweepEvery: -1, MemoryBytes: 1 << 20})
	without.recent = newRecent(0)
	sk := func() string { return fmt.Sprintf("%02d", rng.IntN(30)) }
	for range 300 {
		pk := fmt.Sprint(rng.IntN(2))
		if rng.IntN(6) == 0 {
			w := table.BatchWrite{Delete: table.Key{PK: pk, SK: sk()}}
			if rng.IntN(2) == 0 {
				w = table.BatchWrite{Put: &table.Item{Key: w.Delete, Attrs: []table.Attr{{Name: "text", Value: table.S(strings.Repeat("x", rng.IntN(1000)))}}}}
			}
			for _, s := range []*Store{with, without} {
				_, err := s.BatchWrite(t.Context(), []table.BatchWrite{w})
				require.NoError(t, err)
			}
		}
		q := table.Query{PK: pk, Descending: rng.IntN(2) == 0, PageSize: rng.IntN(4)}
		if rng.IntN(2) == 0 {
			q.Low = sk()
		}
		read := func(s *Store) (pages []table.Page) {
			for page, err := range s.Query(t.Context(), q) {
				require.NoError(t, err)
				pages = append(pages, page)
			}
			return pages
		}
		require.Empty(t, cmp.Diff(read(without), read(with), cmp.AllowUnexported(table.Value{}), cmpopts.EquateEmpty()), "%+v", q)
	}
	assert.Zero(t, without.Stats().ItemBytes)
}

package embedded

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

const benchBatch = 1000

// benchEntries returns a batch of timeline entries of one post, in the order of the followers'
// names, as a fan-out writes them.
func benchEntries(post, batch int) []table.BatchWrite {
	writes := make([]table.BatchWrite, benchBatch)
	items := make([]table.Item, benchBatch)
	sk := fmt.Sprintf("p#01K9Z%021d#u#author", post)
	attrs := []table.Attr{{Name: table.AttrTTL, Value: table.N(1_800_000_000)}}
	for i := range items {
		items[i] = table.Item{Key: table.Key{PK: fmt.Sprintf("u#user%07d#timeline", batch*benchBatch+i), SK: sk}, Attrs: attrs}
		writes[i].Put = &items[i]
	}
	return writes
}

// benchFanout writes posts to 100,000 homes with four workers at the same time, and reports the rate.
func benchFanout(b *testing.B, write func([]table.BatchWrite) error) {
	b.Helper()
	const workers, homes = 4, 100
	batches := make([][]table.BatchWrite, homes)
	for i := range batches {
		batches[i] = benchEntries(0, i)
	}
	var next atomic.Int64
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		// One iteration is one post to 100,000 homes.
		post := int(next.Add(1))
		sk := fmt.Sprintf("p#01K9Z%021d#u#author", post)
		var at atomic.Int64
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for i := int(at.Add(1)) - 1; i < homes; i = int(at.Add(1)) - 1 {
					for j := range batches[i] {
						batches[i][j].Put.Key.SK = sk
					}
					if err := write(batches[i]); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.N)*homes*benchBatch/b.Elapsed().Seconds(), "items/s")
	b.ReportMetric(float64(b.N)*homes*benchBatch/(cpuTime(b)-before).Seconds(), "items/CPU-s")
}

// cpuTime returns the CPU time that the process has used. On a busy machine CPU time varies less than wall time.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func BenchmarkBatchWrite(b *testing.B) {
	s, err := Create(b.TempDir(), Options{})
	require.NoError(b, err)
	benchFanout(b, func(writes []table.BatchWrite) error {
		_, err := s.BatchWrite(b.Context(), writes)
		return err
	})
	require.NoError(b, s.Close())
}

// BenchmarkBarePebble is the baseline of BenchmarkBatchWrite: the same records in synced
// batches of Pebble with its own settings.
func BenchmarkBarePebble(b *testing.B) {
	db, err := pebble.Open(b.TempDir(), &pebble.Options{Logger: quiet{}})
	require.NoError(b, err)
	benchFanout(b, func(writes []table.BatchWrite) error {
		batch := db.NewBatch()
		for i := range writes {
			it := writes[i].Put
			op := batch.SetDeferred(keyLen(it.Key), valueLen(it.Attrs))
			appendKey(op.Key[:0], it.Key)
			appendValue(op.Value[:0], it.Attrs)
			if err := op.Finish(); err != nil {
				return err
			}
		}
		if err := batch.Commit(pebble.Sync); err != nil {
			return err
		}
		return batch.Close()
	})
	require.NoError(b, db.Close())
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func benchParallel(b *testing.B, call func(i int64) error) {
	b.Helper()
	var next atomic.Int64
	b.SetParallelism(64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := call(next.Add(1)); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Create(b.TempDir(), Options{})
	require.NoError(b, err)
	b.Cleanup(func() {
		assert.NoError(b, s.Close())
	})
	return s
}

// BenchmarkTransactPost writes a post: four items in one transaction with conditions.
func BenchmarkTransactPost(b *testing.B) {
	s := benchStore(b)
	benchParallel(b, func(i int64) error {
		user, post := fmt.Sprint("user", i%1000), fmt.Sprintf("01K9Z%021d", i)
		put := func(key table.Key, attrs ...table.Attr) table.TransactOp {
			return table.TransactOp{Put: &table.PutInput{Item: table.Item{Key: key, Attrs: attrs}, If: table.Absent{}}}
		}
		_, err := s.Transact(b.Context(), table.TransactInput{Ops: []table.TransactOp{
			put(schema.PostKey(user, post), table.Attr{Name: "text", Value: table.S("a text of some hundred characters that says nothing of interest to anybody who reads it, as is usual")}),
			put(schema.PostByIDKey(post), table.Attr{Name: "author", Value: table.S(user)}),
			put(table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(post, user)}, table.Attr{Name: table.AttrTTL, Value: table.N(1_800_000_000)}),
			{Update: &table.UpdateInput{Key: schema.CountsKey(user), Add: []table.Attr{{Name: "posts", Value: table.N(1)}}}},
		}})
		return err
	})
}

// BenchmarkPutLike writes a like, which is one conditional put of an indexed item.
func BenchmarkPutLike(b *testing.B) {
	s := benchStore(b)
	benchParallel(b, func(i int64) error {
		user := fmt.Sprint("user", i)
		_, err := s.Put(b.Context(), table.PutInput{
			Item: table.Item{Key: schema.LikeKey("post", user, 8), Attrs: []table.Attr{
				{Name: table.AttrGSI1PK, Value: table.S(schema.UserLikesPK(user))},
				{Name: table.AttrGSI1SK, Value: table.S(schema.PostSK("post"))},
				{Name: "st", Value: table.N(1)}, {Name: "base", Value: table.N(0)}, {Name: "f", Value: table.S("20251120abcd#17")},
			}},
			If: table.Absent{},
		})
		return err
	})
}

// BenchmarkQueryFollowers reads 100,000 followers in pages: with the attribute that the worker
// of a chunk needs, and with only the ends of pages, as a planner does.
func BenchmarkQueryFollowers(b *testing.B) {
	const followers = 100_000
	s := benchStore(b)
	var writes []table.BatchWrite
	for i := range followers {
		it := schema.DatedFollowerItem("author", fmt.Sprintf("user%07d", i), time.UnixMilli(1_763_700_000_123+int64(i)), 20_301)
		writes = append(writes, table.BatchWrite{Put: &it})
	}
	_, err := s.BatchWrite(b.Context(), writes)
	require.NoError(b, err)
	for name, q := range map[string]table.Query{
		"page": {PageSize: 1024, Consistent: true, Project: []string{schema.AttrUntil}},
		"ends": {PageSize: 4000, EndsOnly: true},
	} {
		q.PK, q.Low = schema.FollowersPK("author"), schema.UserSK("")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range s.Query(b.Context(), q) {
					require.NoError(b, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*followers), "ns/follower")
		})
	}
}

// BenchmarkQueryHome reads a page of 20 entries from a timeline of 1,000 entries.
func BenchmarkQueryHome(b *testing.B) {
	s := benchStore(b)
	var writes []table.BatchWrite
	for i := range 1000 {
		writes = append(writes, table.BatchWrite{Put: &table.Item{
			Key:   table.Key{PK: schema.TimelinePK("reader"), SK: fmt.Sprintf("p#01K9Z%021d#u#author", i)},
			Attrs: []table.Attr{{Name: table.AttrTTL, Value: table.N(1_800_000_000)}},
		}})
	}
	_, err := s.BatchWrite(b.Context(), writes)
	require.NoError(b, err)
	benchParallel(b, func(int64) error {
		for page, err := range s.Query(b.Context(), table.Query{PK: schema.TimelinePK("reader"), Descending: true, PageSize: 20, Consistent: true}) {
			if err != nil || len(page.Items) != 20 {
				return fmt.Errorf("%d items, %w", len(page.Items), err)
			}
			break
		}
		return nil
	})
}

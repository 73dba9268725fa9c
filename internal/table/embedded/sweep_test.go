package embedded

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/table"
)

// clock is a clock that tests set.
type clock struct{ second atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(c.second.Load(), 0) }

func expiring(pk string, ttl int64) table.Item {
	return table.Item{Key: table.Key{PK: pk, SK: "s"}, Attrs: []table.Attr{{Name: table.AttrTTL, Value: table.N(ttl)}}}
}

func putAll(t *testing.T, s *Store, items ...table.Item) {
	t.Helper()
	writes := make([]table.BatchWrite, len(items))
	for i := range items {
		writes[i].Put = &items[i]
	}
	_, err := s.BatchWrite(t.Context(), writes)
	require.NoError(t, err)
}

// records counts Pebble's records of a kind.
func records(t *testing.T, s *Store, kind byte) int {
	t.Helper()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	require.NoError(t, err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	require.NoError(t, it.Close())
	return n
}

func TestSweepDeletesExactlyTheExpired(t *testing.T) {
	t.Parallel()
	var c clock
	s := open(t, "data", Options{FS: vfs.NewMem(), Now: c.now, SweepEvery: -1})
	c.second.Store(1000)
	var items []table.Item
	for i := range 3 * sweepPart / 2 { // more items than a part has
		items = append(items, expiring(fmt.Sprintf("%05d", i), int64(i%4)*500))
	}
	text := table.Item{Key: table.Key{PK: "text", SK: "s"}, Attrs: []table.Attr{{Name: table.AttrTTL, Value: table.S("1")}}}
	none := table.Item{Key: table.Key{PK: "none", SK: "s"}}
	indexed := expiring("indexed", 1)
	indexed.Attrs = append(indexed.Attrs, table.Attr{Name: table.AttrGSI1PK, Value: table.S("g")}, table.Attr{Name: table.AttrGSI1SK, Value: table.S("1")})
	putAll(t, s, append(items, text, none, indexed)...)

	n, err := s.Sweep(t.Context())
	require.NoError(t, err)
	assert.Equal(t, len(items)*3/4+1, n, "items were swept")
	assert.Equal(t, len(items)/4+2, records(t, s, kindItem), "items are left")
	assert.Zero(t, records(t, s, kindIndex), "hints are left")
	if n, err = s.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("a second sweep deleted %d, %v", n, err)
	}
	c.second.Store(1500)
	if n, err = s.Sweep(t.Context()); n != len(items)/4 || err != nil {
		t.Errorf("a sweep after the rest expired deleted %d, %v", n, err)
	}
}

func TestSweepRunsByItselfAndEndsWithClose(t *testing.T) {
	t.Parallel()
	var c clock
	c.second.Store(1000)
	s := open(t, "data", Options{FS: vfs.NewMem(), Now: c.now, SweepEvery: time.Millisecond})
	putAll(t, s, expiring("old", 999), expiring("young", 1001))
	disktest.Until(t, func() bool { return records(t, s, kindItem) == 1 })
	if res, err := s.Get(t.Context(), table.GetInput{Key: table.Key{PK: "young", SK: "s"}}); err != nil || res.Item == nil {
		t.Errorf("the item that is left: %v, %v", res.Item, err)
	}
	require.NoError(t, s.Close())
	_, err := s.Sweep(t.Context())
	wantUnavailable(t, err, ErrClosed)
}

// A batch put without index keys leaves the hint of the item that it replaces.
func TestWrongHintsDoNotShowAndAreSwept(t *testing.T) {
	t.Parallel()
	s := open(t, "data", Options{FS: vfs.NewMem(), SweepEvery: -1})
	key := table.Key{PK: "p", SK: "s"}
	in := table.Item{Key: key, Attrs: []table.Attr{{Name: table.AttrGSI1PK, Value: table.S("g")}, {Name: table.AttrGSI1SK, Value: table.S("1")}}}
	index := func() int {
		items, _, err := table.Collect(s.Query(t.Context(), table.Query{Index: true, PK: "g"}), 0)
		require.NoError(t, err)
		return len(items)
	}
	putAll(t, s, in)
	putAll(t, s, table.Item{Key: key})
	if index() != 0 || records(t, s, kindIndex) != 1 {
		t.Errorf("index has %d items and %d hints, want none and the old one", index(), records(t, s, kindIndex))
	}
	if n, err := s.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v, want no items", n, err)
	}
	assert.Zero(t, records(t, s, kindIndex), "hints after the sweep")
	putAll(t, s, in)
	if n, err := s.Sweep(t.Context()); n != 0 || err != nil || index() != 1 {
		t.Errorf("Sweep = %d, %v with %d items in the index, want a right hint kept", n, err, index())
	}
}

func TestCallsAfterCloseAreUnavailable(t *testing.T) {
	t.Parallel()
	s := open(t, "data", Options{FS: vfs.NewMem()})
	require.NoError(t, s.Close())
	_, err := s.Get(t.Context(), table.GetInput{Key: table.Key{PK: "p", SK: "s"}})
	wantUnavailable(t, err, ErrClosed)
	_, err = s.Put(t.Context(), table.PutInput{Item: numbered("p", 1)})
	wantUnavailable(t, err, ErrClosed)
	_, _, err = table.Collect(s.Query(t.Context(), table.Query{PK: "p"}), 0)
	wantUnavailable(t, err, ErrClosed)
}

// wantDamaged fails unless err is damage that no caller retries, and the store remembers the damage.
func wantDamaged(t *testing.T, s *Store, err error) {
	t.Helper()
	if _, again := errors.AsType[*table.UnavailableError](err); again || !errors.Is(err, disk.ErrDamaged) || !errors.Is(s.Damage(), disk.ErrDamaged) {
		t.Fatalf("error = %v, damage %v, want disk.ErrDamaged alone", err, s.Damage())
	}
}

func TestACorruptItemIsAnError(t *testing.T) {
	t.Parallel()
	s := open(t, "data", Options{FS: vfs.NewMem()})
	key := table.Key{PK: "p", SK: "s"}
	require.NoError(t, s.db.Set(appendKey(nil, key), []byte{9, 9}, pebble.Sync))
	_, err := s.Get(t.Context(), table.GetInput{Key: key})
	wantDamaged(t, s, err)
	_, err = s.Put(t.Context(), table.PutInput{Item: table.Item{Key: key}})
	wantDamaged(t, s, err)
	_, _, err = table.Collect(s.Query(t.Context(), table.Query{PK: "p"}), 0)
	wantDamaged(t, s, err)
}

// While the clock is in doubt, the sweep deletes nothing: a clock that is a month ahead for some minutes would
// delete every timeline.
func TestAClockInDoubtSweepsNothing(t *testing.T) {
	t.Parallel()
	var c clock
	var wrong atomic.Bool
	doubt := errors.New("the clock is in doubt")
	s := open(t, "data", Options{FS: vfs.NewMem(), Now: c.now, SweepEvery: -1, Doubt: func() error {
		if wrong.Load() {
			return doubt
		}
		return nil
	}})
	c.second.Store(1000)
	putAll(t, s, expiring("a", 500), expiring("b", 1500))
	c.second.Store(2000)
	wrong.Store(true)
	n, err := s.Sweep(t.Context())
	require.ErrorIs(t, err, doubt)
	assert.Zero(t, n)
	assert.Equal(t, 2, records(t, s, kindItem))
	c.second.Store(1000)
	wrong.Store(false)
	n, err = s.Sweep(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

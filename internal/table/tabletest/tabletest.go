// Package tabletest has the contract of package table as one suite that every backend has to
// pass. It also has a reference table in memory (Memory), and a wrapper that gives stale
// answers where the contract allows them (Stale), because emulators and embedded engines hide
// the staleness of production.
//
// The suite makes few calls, because emulators of DynamoDB handle only some hundred calls a
// second. The names of its partitions are unique, so that one table can serve many runs. The
// suite must never expect an eventually consistent answer to be up to date: it reads
// consistently, or repeats a read until the answer is right.
package tabletest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

// Option is one way in which a backend differs from the contract.
type Option func(*options)

type options struct {
	approximateUnits, billsProjection string
}

// ApproximateUnits is for a backend whose capacity units do not follow DynamoDB's rules
// exactly, for a reason. The suite then checks only that there are units.
func ApproximateUnits(reason string) Option {
	return func(o *options) { o.approximateUnits = reason }
}

// BillsProjection is for a backend that bills a projected read by the size of the answer
// instead of the size of the items, for a reason.
func BillsProjection(reason string) Option {
	return func(o *options) { o.billsProjection = reason }
}

// Run runs the whole suite as subtests of t against one store.
func Run(t *testing.T, open func(t *testing.T) table.Store, opts ...Option) {
	t.Helper()
	s := &suite{Store: open(t), run: rand.Text()[:10]}
	for _, opt := range opts {
		opt(&s.opts)
	}
	if s.opts.approximateUnits != "" {
		t.Logf("capacity units are approximate: %s", s.opts.approximateUnits)
	}
	if s.opts.billsProjection != "" {
		t.Logf("projected reads are billed for less: %s", s.opts.billsProjection)
	}
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Scan", scanTests()}, // first, because a scan of the items of all other tests takes minutes on an emulator
		{"Single", singleTests()},
		{"Conditions", conditionTests()},
		{"Batch", batchTests()},
		{"Query", queryTests()},
		{"Index", indexTests()},
		{"Transact", transactTests()},
		{"Concurrency", concurrencyTests()},
		{"Invalid", invalidTests()},
		{"Units", unitTests()},
		{"Model", modelTests()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, tt := range group.tests {
				t.Run(tt.name, func(t *testing.T) { tt.run(t, s) })
			}
		})
	}
}

type test struct {
	name string
	run  func(t *testing.T, s *suite)
}

// suite is one run of the suite against one store.
type suite struct {
	table.Store
	opts options
	run  string
	last atomic.Int64
}

// partition returns the name of a new partition.
func (s *suite) partition() string { return fmt.Sprintf("test#%s#%d", s.run, s.last.Add(1)) }

// key returns a new key.
func (s *suite) key() table.Key { return table.Key{PK: s.partition(), SK: "sort"} }

func item(key table.Key, attrs ...table.Attr) table.Item { return table.Item{Key: key, Attrs: attrs} }

func str(name, v string) table.Attr { return table.Attr{Name: name, Value: table.S(v)} }

func num(name string, v int64) table.Attr { return table.Attr{Name: name, Value: table.N(v)} }

// indexed returns the two attributes that put an item into the index.
func indexed(pk, sk string) []table.Attr {
	return []table.Attr{str(table.AttrGSI1PK, pk), str(table.AttrGSI1SK, sk)}
}

// sized returns an item whose size is n bytes by the size rules.
func sized(key table.Key, n int, attrs ...table.Attr) table.Item {
	it := item(key, append([]table.Attr{str("pad", "")}, attrs...)...)
	it.Attrs[0] = str("pad", strings.Repeat("x", n-table.Size(it)))
	return it
}

func (s *suite) put(t *testing.T, items ...table.Item) {
	t.Helper()
	for _, it := range items {
		_, err := s.Put(t.Context(), table.PutInput{Item: it})
		require.NoErrorf(t, err, "Put(%v)", it.Key)
	}
}

// putAll writes items in batches.
func (s *suite) putAll(t *testing.T, items ...table.Item) {
	t.Helper()
	writes := make([]table.BatchWrite, len(items))
	for i := range items {
		writes[i].Put = &items[i]
	}
	_, err := s.BatchWrite(t.Context(), writes)
	require.NoError(t, err)
}

// read returns the item that a consistent read finds, nil if there is no item.
func (s *suite) read(t *testing.T, key table.Key) *table.Item {
	t.Helper()
	res, err := s.Get(t.Context(), table.GetInput{Key: key, Consistent: true})
	require.NoErrorf(t, err, "Get(%v)", key)
	return res.Item
}

// holds fails unless the stored item with want's key equals want.
func (s *suite) holds(t *testing.T, want table.Item) {
	t.Helper()
	equal(t, "stored item", s.read(t, want.Key), &want)
}

// lacks fails if the table has an item with the key.
func (s *suite) lacks(t *testing.T, key table.Key) {
	t.Helper()
	equal(t, "stored item", s.read(t, key), nil)
}

// equal compares items. The order of their attributes does not matter.
func equal(t *testing.T, what string, got, want *table.Item) {
	t.Helper()
	require.Emptyf(t, cmp.Diff(show(want), show(got)), "%s differs (-want +got)", what)
}

// equalItems compares lists of items in their order.
func equalItems(t *testing.T, what string, got, want []table.Item) {
	t.Helper()
	require.Emptyf(t, diffItems(got, want), "%s differ (-want +got)", what)
}

func diffItems(got, want []table.Item) string { return cmp.Diff(showAll(want), showAll(got)) }

func showAll(items []table.Item) []string {
	out := []string{}
	for i := range items {
		out = append(out, show(&items[i]))
	}
	return out
}

// show returns the text of an item. Equal items have the same text.
func show(it *table.Item) string {
	if it == nil {
		return "absent"
	}
	attrs := make([]string, 0, len(it.Attrs))
	for _, a := range it.Attrs {
		const most = 80
		s := a.Value.Str()
		v := fmt.Sprintf("%q", s[:min(most, len(s))])
		if len(s) > most {
			v += fmt.Sprintf("… (%d bytes, CRC %08x)", len(s), crc32.ChecksumIEEE([]byte(s)))
		}
		if a.Value.Kind() == table.KindNumber {
			v = fmt.Sprint(a.Value.Int())
		}
		attrs = append(attrs, fmt.Sprintf("%q=%s", a.Name, v))
	}
	slices.Sort(attrs)
	return fmt.Sprintf("%q/%q %s", it.Key.PK, it.Key.SK, strings.Join(attrs, " "))
}

func sortByKey(items []table.Item) []table.Item {
	slices.SortFunc(items, func(a, b table.Item) int {
		return strings.Compare(a.Key.PK+"\x00"+a.Key.SK, b.Key.PK+"\x00"+b.Key.SK)
	})
	return items
}

// units compares capacity units.
func (s *suite) units(t *testing.T, what string, got, want table.Units) {
	t.Helper()
	if s.opts.approximateUnits != "" {
		assert.Equalf(t, want.Read > 0, got.Read > 0, "%s: units", what)
		assert.Equalf(t, want.Write > 0, got.Write > 0, "%s: units", what)
		return
	}
	assert.Equal(t, want, got, what)
}

func conditionFailed(t *testing.T, err error) *table.ConditionError {
	t.Helper()
	failed, ok := errors.AsType[*table.ConditionError](err)
	require.Truef(t, ok, "error = %v, want a ConditionError", err)
	return failed
}

func cancelled(t *testing.T, err error) *table.CancelledError {
	t.Helper()
	failed, ok := errors.AsType[*table.CancelledError](err)
	require.Truef(t, ok, "error = %v, want a CancelledError", err)
	return failed
}

// query returns all items of a query.
func (s *suite) query(t *testing.T, q table.Query) []table.Item {
	t.Helper()
	items, _, err := table.Collect(s.Query(t.Context(), q), 0)
	require.NoErrorf(t, err, "Query(%+v)", q)
	return items
}

// eventually calls try until try returns "". The wait is not short if the index or a read is
// eventually consistent.
func eventually(t waiter, try func() string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		problem := try()
		if problem == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not right in time: %s", problem)
		case <-tick.C:
		}
	}
}

// waiter is implemented by *testing.T and *rapid.T.
type waiter interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
}

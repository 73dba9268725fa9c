package table_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

func TestHideExpiredKeepsTheContract(t *testing.T) {
	// The suite stores small numbers as ttl. At the time began, none of these times has passed.
	began := func() time.Time { return time.Unix(0, 0) }
	tabletest.Run(t, func(*testing.T) table.Store { return table.HideExpired(tabletest.NewMemory(), began) })
}

func TestMeasureKeepsTheContract(t *testing.T) {
	tabletest.Run(t, func(*testing.T) table.Store {
		return table.Measure(tabletest.NewMemory(), func(table.Op, table.Units, error) {})
	})
}

func TestExpiredItemsAreHiddenFromReadsButNotFromConditions(t *testing.T) {
	now := time.Unix(1000, 0)
	store := table.HideExpired(tabletest.NewMemory(), func() time.Time { return now })
	ctx := t.Context()
	var keys []table.Key
	for sk, ttl := range map[string]table.Value{
		"0 past": table.N(999), "1 now": table.N(1000), "2 future": table.N(1001), "3 text": table.S("1"), "4 none": {}, "5 past": table.N(1),
	} {
		it := table.Item{Key: table.Key{PK: "p", SK: sk}, Attrs: []table.Attr{attr("v", table.N(1)), attr("w", table.N(2))}}
		if !ttl.IsZero() {
			it.Attrs = append(it.Attrs, attr(table.AttrTTL, ttl))
		}
		_, err := store.Put(ctx, table.PutInput{Item: it})
		require.NoError(t, err)
		keys = append(keys, it.Key)
	}
	want := []string{"2 future", "3 text", "4 none"}
	sortKeys := func(items []table.Item) []string {
		var got []string
		for _, it := range items {
			got = append(got, it.Key.SK)
		}
		slices.Sort(got)
		return got
	}
	scanned, err := store.Scan(ctx, table.ScanInput{})
	require.NoError(t, err)
	assert.Equal(t, want, sortKeys(scanned.Items))
	for _, project := range [][]string{nil, {"v"}, {"v", table.AttrTTL}, {}} {
		items, units, err := table.Collect(store.Query(ctx, table.Query{PK: "p", PageSize: 2, Project: project, Consistent: true}), 0)
		if err != nil || !slices.Equal(sortKeys(items), want) || units.Read != 3 {
			t.Errorf("query of %v = %v, %v, %v; want %v in 3 pages", project, sortKeys(items), units, err, want)
		}
		batch, err := store.BatchGet(ctx, table.BatchGetInput{Keys: keys, Project: project, Consistent: true})
		if err != nil || !slices.Equal(sortKeys(batch.Items), want) || batch.Units.Read != 6 {
			t.Errorf("batch get of %v = %v, %v, %v; want %v", project, sortKeys(batch.Items), batch.Units, err, want)
		}
		for _, key := range keys {
			res, err := store.Get(ctx, table.GetInput{Key: key, Project: project})
			if err != nil || (res.Item != nil) != slices.Contains(want, key.SK) {
				t.Errorf("get of %q with %v = %v, %v", key.SK, project, res.Item, err)
			}
		}
	}
	ends, _, err := table.Collect(store.Query(ctx, table.Query{PK: "p", PageSize: 1, EndsOnly: true}), 0)
	if err != nil || len(ends) != len(keys)-1 {
		t.Errorf("pages of one end with %v, %v: an expired item ends a page, too", sortKeys(ends), err)
	}
	past := table.Item{Key: table.Key{PK: "p", SK: "0 past"}}
	_, err = store.Put(ctx, table.PutInput{Item: past, If: table.Absent{}})
	assert.ErrorAs(t, err, new(*table.ConditionError), "put if absent over an expired item")
	expired := table.Any{table.Absent{}, table.Less{Name: table.AttrTTL, Value: table.N(now.Unix() + 1)}}
	_, err = store.Put(ctx, table.PutInput{Item: past, If: expired})
	assert.NoError(t, err)
}

func TestMeasureHearsOfEachAnswer(t *testing.T) {
	var heard []string
	store := table.Measure(tabletest.NewMemory(), func(op table.Op, u table.Units, err error) {
		heard = append(heard, fmt.Sprintf("%s %g/%g %v", op, u.Read, u.Write, err != nil))
	})
	ctx, key := t.Context(), table.Key{PK: "p", SK: "s"}
	it := table.Item{Key: key}
	transact := func(c table.Cond) {
		_, _ = store.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{{Check: &table.CheckInput{Key: key, If: c}}}}) // checked below
	}
	for _, call := range []func(){
		func() { _, _ = store.Put(ctx, table.PutInput{Item: it}) },
		func() { _, _ = store.Put(ctx, table.PutInput{Item: it, If: table.Absent{}}) },
		func() {
			_, _ = store.Update(ctx, table.UpdateInput{Key: key, Set: []table.Attr{attr("a", table.N(1))}})
		},
		func() { _, _ = store.Get(ctx, table.GetInput{Key: key}) },
		func() { _, _ = store.BatchGet(ctx, table.BatchGetInput{Keys: []table.Key{key}, Consistent: true}) },
		func() {
			_, _ = store.BatchWrite(ctx, []table.BatchWrite{{Put: &it}, {Delete: table.Key{PK: "p", SK: "t"}}})
		},
		func() { transact(table.Exists{}) },
		func() { transact(table.Absent{}) },
		func() { _, _, _ = table.Collect(store.Query(ctx, table.Query{PK: "p"}), 0) },
		func() { _, _ = store.Delete(ctx, table.DeleteInput{Key: key}) },
		func() { _, _ = store.Get(ctx, table.GetInput{}) },
	} {
		call()
	}
	want := []string{
		"put 0/1 false", "put 0/1 true", "update 0/1 false", "get 0.5/0 false", "batch_get 1/0 false", "batch_write 0/2 false",
		"transact 0/2 false", "transact 0/2 true", "query 0.5/0 false", "delete 0/1 false", "get 0/0 true",
	}
	assert.Truef(t, slices.Equal(heard, want), "heard\n%q, want\n%q", heard, want)
}

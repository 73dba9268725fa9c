package tabletest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

func batchTests() []test {
	return []test{
		{"WriteAndReadMoreThanOneRequestHolds", func(t *testing.T, s *suite) {
			pk := s.partition()
			var want []table.Item
			var keys []table.Key
			for i := range 130 {
				key := table.Key{PK: pk, SK: fmt.Sprintf("%03d", i)}
				if i%2 == 0 {
					key.PK = fmt.Sprintf("%s#%d", pk, i)
				}
				want = append(want, item(key, num("i", int64(i))))
				keys = append(keys, key, table.Key{PK: pk, SK: fmt.Sprintf("absent %d", i)})
			}
			s.putAll(t, want...)
			res, err := s.BatchGet(t.Context(), table.BatchGetInput{Keys: keys, Consistent: true})
			require.NoError(t, err)
			equalItems(t, "items", sortByKey(res.Items), sortByKey(want))
		}},
		{"WriteReplacesAndDeletes", func(t *testing.T, s *suite) {
			pk := s.partition()
			a, b, c, d := table.Key{PK: pk, SK: "a"}, table.Key{PK: pk, SK: "b"}, table.Key{PK: pk, SK: "c"}, table.Key{PK: pk, SK: "d"}
			s.put(t, item(a, str("old", "1")), item(b, str("old", "1")))
			newA, newC := item(a, str("new", "1")), item(c, str("new", "1"))
			_, err := s.BatchWrite(t.Context(), []table.BatchWrite{{Put: &newA}, {Delete: b}, {Put: &newC}, {Delete: d}})
			require.NoError(t, err)
			equalItems(t, "items", s.query(t, table.Query{PK: pk, Consistent: true}), []table.Item{newA, newC})
		}},
		{"WriteIsSeenByLaterConditions", func(t *testing.T, s *suite) {
			it := item(s.key(), num("n", 1))
			s.putAll(t, it)
			_, err := s.Put(t.Context(), table.PutInput{Item: item(it.Key), If: table.Absent{}})
			equal(t, "old item", conditionFailed(t, err).Old, &it)
		}},
		{"WriteTakesAttributesAsTheyAreNow", func(t *testing.T, s *suite) {
			// The entries of a post share the memory of their attributes, and the owner of the
			// attributes may change them after a call.
			pk := s.partition()
			shared := []table.Attr{num("n", 0), num("m", 0)}
			var want []table.Item
			write := func(attrs ...[]table.Attr) {
				var writes []table.BatchWrite
				for _, attrs := range attrs {
					it := table.Item{Key: table.Key{PK: pk, SK: fmt.Sprintf("%02d", len(want))}, Attrs: attrs}
					writes = append(writes, table.BatchWrite{Put: &it})
					want = append(want, item(it.Key, slices.Clone(attrs)...))
				}
				res, err := s.BatchWrite(t.Context(), writes)
				require.NoError(t, err)
				s.units(t, "units of the batch", res.Units, table.Units{Write: float64(len(writes))})
			}
			for i := range int64(20) { // a backend may also lose an attribute by chance
				shared[0].Value = table.N(i)
				write(shared, shared)
			}
			write(shared, shared[:1], nil, shared[:0], shared)
			equalItems(t, "items", s.query(t, table.Query{PK: pk, Consistent: true}), want)
		}},
		{"OfNothingIsNothing", func(t *testing.T, s *suite) {
			written, err := s.BatchWrite(t.Context(), nil)
			assert.NoError(t, err)
			assert.Equal(t, table.Units{}, written.Units)
			got, err := s.BatchGet(t.Context(), table.BatchGetInput{Consistent: true})
			if err != nil || len(got.Items) != 0 || got.Units != (table.Units{}) {
				t.Errorf("BatchGet(nothing) = %+v, %v", got, err)
			}
		}},
		{"GetProjects", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, item(key, str("a", "1"), str("b", "2")))
			for _, tt := range []struct {
				project []string
				want    table.Item
			}{
				{[]string{"b"}, item(key, str("b", "2"))},
				{[]string{}, item(key)},
			} {
				res, err := s.BatchGet(t.Context(), table.BatchGetInput{Keys: []table.Key{key}, Project: tt.project, Consistent: true})
				require.NoError(t, err)
				equalItems(t, "items", res.Items, []table.Item{tt.want})
			}
		}},
		{"GetOfLargeItemsReadsThemAll", func(t *testing.T, s *suite) {
			// These items exceed the 16 MB of one answer, so some items are left unprocessed.
			pk := s.partition()
			var want []table.Item
			var keys []table.Key
			for i := range 44 {
				key := table.Key{PK: pk, SK: fmt.Sprintf("%02d", i)}
				want = append(want, sized(key, 390*1024))
				keys = append(keys, key)
			}
			s.putAll(t, want...)
			res, err := s.BatchGet(t.Context(), table.BatchGetInput{Keys: keys, Consistent: true})
			require.NoError(t, err)
			equalItems(t, "items", sortByKey(res.Items), want)
		}},
	}
}

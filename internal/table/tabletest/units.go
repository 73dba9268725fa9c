package tabletest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

func write(n float64) table.Units { return table.Units{Write: n} }
func read(n float64) table.Units  { return table.Units{Read: n} }

func unitTests() []test {
	return []test{
		{"OfPutsAreTheLargerOfBothItems", func(t *testing.T, s *suite) {
			key := s.key()
			for _, tt := range []struct {
				size int
				want float64
			}{{100, 1}, {1024, 1}, {1025, 2}, {100, 2}, {100, 1}, {3 * 1024, 3}, {10 * 1024, 10}, {200, 10}} {
				res, err := s.Put(t.Context(), table.PutInput{Item: sized(key, tt.size)})
				require.NoError(t, err)
				s.units(t, fmt.Sprintf("put of %d bytes", tt.size), res.Units, write(tt.want))
			}
		}},
		{"OfUpdatesAreTheLargerOfBothItems", func(t *testing.T, s *suite) {
			key := s.key()
			for _, tt := range []struct {
				size int
				want float64
			}{{100, 1}, {2048, 2}, {2049, 3}, {100, 3}} {
				res, err := s.Update(t.Context(), table.UpdateInput{Key: key, Set: sized(key, tt.size).Attrs})
				require.NoError(t, err)
				s.units(t, fmt.Sprintf("update to %d bytes", tt.size), res.Units, write(tt.want))
			}
		}},
		{"OfDeletesAreTheOldItem", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, sized(key, 2500))
			for _, want := range []float64{3, 1} {
				res, err := s.Delete(t.Context(), table.DeleteInput{Key: key})
				require.NoError(t, err)
				s.units(t, "delete", res.Units, write(want))
			}
		}},
		{"OfFailedConditionsAreTheLargerItem", func(t *testing.T, s *suite) {
			key := s.key()
			_, err := s.Put(t.Context(), table.PutInput{Item: sized(key, 2500), If: table.Exists{}})
			s.units(t, "condition on nothing", conditionFailed(t, err).Units, write(3))
			s.put(t, sized(key, 2500))
			_, err = s.Put(t.Context(), table.PutInput{Item: item(key), If: table.Absent{}})
			s.units(t, "condition of a put", conditionFailed(t, err).Units, write(3))
			_, err = s.Put(t.Context(), table.PutInput{Item: sized(key, 3500), If: table.Absent{}})
			s.units(t, "condition of a larger put", conditionFailed(t, err).Units, write(4))
			_, err = s.Update(t.Context(), table.UpdateInput{Key: key, Add: []table.Attr{num("n", 1)}, If: table.Absent{}})
			s.units(t, "condition of an update", conditionFailed(t, err).Units, write(3))
			_, err = s.Delete(t.Context(), table.DeleteInput{Key: key, If: table.Absent{}})
			s.units(t, "condition of a delete", conditionFailed(t, err).Units, write(3))
		}},
		{"IncludeTheIndex", func(t *testing.T, s *suite) {
			key, gsi := s.key(), s.partition()
			a, b := indexed(gsi, "a"), indexed(gsi, "b")
			for _, tt := range []struct {
				what string
				it   table.Item
				want float64
			}{
				{"put outside", item(key), 1},
				{"put inside", item(key, a...), 2},
				{"put again", item(key, a...), 1},
				{"change of an attribute", item(key, append(a, num("n", 1))...), 2},
				{"move", item(key, append(b, num("n", 1))...), 3},
				{"leave", item(key), 2},
			} {
				res, err := s.Put(t.Context(), table.PutInput{Item: tt.it})
				require.NoError(t, err)
				s.units(t, tt.what, res.Units, write(tt.want))
			}
			res, err := s.Update(t.Context(), table.UpdateInput{Key: key, Set: a})
			require.NoError(t, err)
			s.units(t, "update into the index", res.Units, write(2))
			res, err = s.Delete(t.Context(), table.DeleteInput{Key: key})
			require.NoError(t, err)
			s.units(t, "delete", res.Units, write(2))
		}},
		{"OfBatchWritesAreThoseOfTheirItems", func(t *testing.T, s *suite) {
			pk := s.partition()
			var writes []table.BatchWrite
			for i := range 30 {
				it := sized(table.Key{PK: pk, SK: fmt.Sprint(i)}, 1000)
				if i < 2 {
					it = sized(it.Key, 2000)
				}
				writes = append(writes, table.BatchWrite{Put: &it})
			}
			res, err := s.BatchWrite(t.Context(), writes)
			require.NoError(t, err)
			s.units(t, "puts", res.Units, write(32))
			indexedItem := item(table.Key{PK: pk, SK: "indexed"}, indexed(s.partition(), "1")...)
			res, err = s.BatchWrite(t.Context(), []table.BatchWrite{
				{Delete: writes[0].Key()}, {Delete: writes[9].Key()}, {Delete: table.Key{PK: pk, SK: "absent"}}, {Put: &indexedItem},
			})
			require.NoError(t, err)
			s.units(t, "deletes and an indexed put", res.Units, write(2+1+1+2))
		}},
		{"OfTransactionsAreTwice", func(t *testing.T, s *suite) {
			put, update, del, check := s.key(), s.key(), s.key(), s.key()
			s.put(t, sized(update, 1500), sized(del, 2500), sized(check, 3500))
			ops := []table.TransactOp{
				{Put: &table.PutInput{Item: sized(put, 1000)}},
				{Update: &table.UpdateInput{Key: update, Add: []table.Attr{num("n", 1)}}},
				{Delete: &table.DeleteInput{Key: del}},
				{Check: &table.CheckInput{Key: check, If: table.Exists{}}},
			}
			res, err := s.Transact(t.Context(), table.TransactInput{Ops: ops})
			require.NoError(t, err)
			s.units(t, "transaction", res.Units, write(2*(1+2+3+4)))
			inIndex := item(s.key(), indexed(s.partition(), "a")...)
			for _, op := range []table.TransactOp{{Put: &table.PutInput{Item: inIndex}}, {Delete: &table.DeleteInput{Key: inIndex.Key}}} {
				res, err = s.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{op}})
				require.NoError(t, err)
				s.units(t, "transaction into or out of the index", res.Units, write(2+1))
			}
		}},
		{"OfCancelledTransactionsAreBilled", func(t *testing.T, s *suite) {
			_, err := s.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{
				{Put: &table.PutInput{Item: item(s.key())}},
				{Check: &table.CheckInput{Key: s.key(), If: table.Exists{}}},
			}})
			s.units(t, "cancelled transaction", cancelled(t, err).Units, write(4))
		}},
		{"OfGetsAreByFourKilobytes", func(t *testing.T, s *suite) {
			for _, tt := range []struct {
				size int
				want float64
			}{{0, 1}, {100, 1}, {4096, 1}, {4097, 2}, {9000, 3}} {
				key := s.key()
				if tt.size > 0 {
					s.put(t, sized(key, tt.size))
				}
				what := fmt.Sprintf("get of %d bytes", tt.size)
				res, err := s.Get(t.Context(), table.GetInput{Key: key, Consistent: true})
				require.NoError(t, err)
				s.units(t, what, res.Units, read(tt.want))
				if s.opts.billsProjection == "" {
					res, err = s.Get(t.Context(), table.GetInput{Key: key, Consistent: true, Project: []string{"none"}})
					require.NoError(t, err)
					s.units(t, what+", projected", res.Units, read(tt.want))
				}
				s.eventualUnits(t, what, read(tt.want/2), func() (table.Units, error) {
					res, err := s.Get(t.Context(), table.GetInput{Key: key})
					return res.Units, err
				})
			}
		}},
		{"OfBatchGetsAreThoseOfEachItem", func(t *testing.T, s *suite) {
			a, b := s.key(), s.key()
			s.put(t, sized(a, 100), sized(b, 4097))
			in := table.BatchGetInput{Keys: []table.Key{a, b, s.key()}, Consistent: true}
			res, err := s.BatchGet(t.Context(), in)
			require.NoError(t, err)
			s.units(t, "consistent batch get", res.Units, read(4))
			in.Consistent = false
			s.eventualUnits(t, "eventual batch get", read(2), func() (table.Units, error) {
				res, err := s.BatchGet(t.Context(), in)
				return res.Units, err
			})
		}},
		{"OfQueriesAreRoundedOncePerPage", func(t *testing.T, s *suite) {
			pk, gsi := s.partition(), s.partition()
			for i := range 3 {
				s.put(t, sized(table.Key{PK: pk, SK: fmt.Sprint(i)}, 2000, indexed(gsi, fmt.Sprint(i))...))
			}
			all := func(q table.Query) func() (table.Units, error) {
				return func() (table.Units, error) {
					_, units, err := table.Collect(s.Query(t.Context(), q), 0)
					return units, err
				}
			}
			for _, tt := range []struct {
				what string
				q    table.Query
				want float64
			}{
				{"consistent", table.Query{PK: pk, Consistent: true}, 2},
				{"eventual", table.Query{PK: pk}, 1},
				{"keys only", table.Query{PK: pk, Consistent: true, Project: []string{}}, 2},
				{"ends of pages", table.Query{PK: pk, Consistent: true, EndsOnly: true}, 2},
				{"a range", table.Query{PK: pk, Low: "1", High: "1", Consistent: true}, 1},
				{"nothing", table.Query{PK: pk + "x", Consistent: true}, 1},
				{"nothing, eventual", table.Query{PK: pk + "x"}, 0.5},
				{"index", table.Query{PK: gsi, Index: true}, 1},
			} {
				s.eventualUnits(t, tt.what, read(tt.want), all(tt.q))
			}
			for page, err := range s.Query(t.Context(), table.Query{PK: pk, PageSize: 2, Consistent: true}) {
				require.NoError(t, err)
				s.units(t, "first page of two items", page.Units, read(1))
				break
			}
		}},
	}
}

// eventualUnits waits until a read costs want. At first, an eventually consistent read may cost
// the units of an older item.
func (s *suite) eventualUnits(t *testing.T, what string, want table.Units, call func() (table.Units, error)) {
	t.Helper()
	eventually(t, func() string {
		got, err := call()
		require.NoError(t, err, what)
		if got == want || (s.opts.approximateUnits != "" && got.Write == 0) {
			return "" // a backend with approximate units may bill nothing for an absent item
		}
		return fmt.Sprintf("%s: units = %+v, want %+v", what, got, want)
	})
}

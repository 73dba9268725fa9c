package tabletest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

func queryTests() []test {
	return []test{
		{"BoundsDirectionAndAfter", func(t *testing.T, s *suite) {
			pk := s.partition()
			s.putAll(t, letters(pk, "bdfhj")...)
			s.putAll(t, item(table.Key{PK: pk + "x", SK: "d"}), item(table.Key{PK: pk[:len(pk)-1], SK: "d"}))
			for _, tt := range ranges() {
				for _, size := range []int{0, 1, 2} {
					q := tt.q
					q.PK, q.PageSize, q.Consistent = pk, size, true
					equalItems(t, fmt.Sprintf("items of %+v", q), s.query(t, q), letters(pk, tt.want))
				}
			}
		}},
		{"PagesAreNoLargerThanAsked", func(t *testing.T, s *suite) {
			pk := s.partition()
			s.putAll(t, letters(pk, "abcdefg")...)
			var got []table.Item
			more := true
			for page, err := range s.Query(t.Context(), table.Query{PK: pk, PageSize: 3, Consistent: true}) {
				require.NoError(t, err)
				assert.True(t, more, "a page came after one that said it was the last")
				more = page.More
				assert.LessOrEqualf(t, len(page.Items), 3, "a page of %d items", len(page.Items))
				got = append(got, page.Items...)
			}
			assert.False(t, more, "the last page says that there are more")
			equalItems(t, "items", got, letters(pk, "abcdefg"))
		}},
		{"ContinuesAfterAnItemThatIsGone", func(t *testing.T, s *suite) {
			for _, tt := range []struct {
				descending bool
				want       string
			}{{false, "cd"}, {true, "a"}} {
				pk := s.partition()
				s.putAll(t, letters(pk, "abcd")...)
				_, err := s.Delete(t.Context(), table.DeleteInput{Key: table.Key{PK: pk, SK: "b"}})
				require.NoError(t, err)
				q := table.Query{PK: pk, After: "b", Descending: tt.descending, Consistent: true}
				equalItems(t, "items", s.query(t, q), letters(pk, tt.want))
			}
		}},
		{"OfAnEmptyPartitionHasNoItems", func(t *testing.T, s *suite) {
			pages := 0
			for page, err := range s.Query(t.Context(), table.Query{PK: s.partition(), Consistent: true}) {
				if err != nil || len(page.Items) != 0 || page.More {
					t.Fatalf("page = %+v, %v", page, err)
				}
				pages++
			}
			assert.LessOrEqual(t, pages, 1, "pages of nothing")
		}},
		{"BreakStopsReadingAndASecondReadStartsAnew", func(t *testing.T, s *suite) {
			pk := s.partition()
			s.putAll(t, letters(pk, "abcd")...)
			pages := s.Query(t.Context(), table.Query{PK: pk, PageSize: 1, Consistent: true})
			for range 2 {
				for page, err := range pages {
					require.NoError(t, err)
					equalItems(t, "first page", page.Items, letters(pk, "a"))
					break
				}
			}
		}},
		{"ReadsPagesWhenAskedFor", func(t *testing.T, s *suite) {
			pk := s.partition()
			s.putAll(t, letters(pk, "abc")...)
			var got []table.Item
			for page, err := range s.Query(t.Context(), table.Query{PK: pk, PageSize: 1, Consistent: true}) {
				require.NoError(t, err)
				if got = append(got, page.Items...); len(got) == 1 {
					// The reader may write between pages, because the query holds no lock.
					s.put(t, letters(pk, "bb")[1], item(table.Key{PK: pk, SK: "bz"}, str("v", "bz")))
				}
			}
			want := append(letters(pk, "ab"), item(table.Key{PK: pk, SK: "bz"}, str("v", "bz")))
			equalItems(t, "items", got, append(want, letters(pk, "c")...))
		}},
		{"ProjectionReturnsTheKeyAndWhatWasNamed", func(t *testing.T, s *suite) {
			pk := s.partition()
			key := table.Key{PK: pk, SK: "a"}
			s.put(t, item(key, str("v", "1"), str("w", "2")))
			equalItems(t, "projected", s.query(t, table.Query{PK: pk, Project: []string{"w"}, Consistent: true}),
				[]table.Item{item(key, str("w", "2"))})
			equalItems(t, "keys only", s.query(t, table.Query{PK: pk, Project: []string{}, Consistent: true}),
				[]table.Item{item(key)})
		}},
		{"ProjectionOfLargePagesReturnsAll", func(t *testing.T, s *suite) {
			pk := s.partition()
			var all, want []table.Item
			for i := range 150 {
				key := table.Key{PK: pk, SK: fmt.Sprintf("%03d", i*i)} // of different lengths
				it, projected := item(key, num("n", int64(i))), item(key)
				if i%3 != 0 {
					it = item(key, num("n", int64(i)), str("v", key.SK))
					projected = item(key, str("v", key.SK))
				}
				all, want = append(all, it), append(want, projected)
			}
			s.putAll(t, all...)
			for _, size := range []int{0, 64, 65, 100, 150, 1000} {
				equalItems(t, fmt.Sprint("in pages of ", size), s.query(t, table.Query{PK: pk, Project: []string{"v"}, PageSize: size, Consistent: true}), sortByKey(want))
			}
		}},
		{"EndsOnlyReturnsTheLastKeyOfEachPageButTheLast", func(t *testing.T, s *suite) {
			pk := s.partition()
			s.putAll(t, letters(pk, "abcdefg")...)
			ends := func(q table.Query) (sks string) {
				q.PK, q.EndsOnly, q.Consistent = pk, true, true
				for page, err := range s.Query(t.Context(), q) {
					require.NoError(t, err)
					for _, it := range page.Items {
						assert.Equal(t, pk, it.Key.PK, "the end of a page")
						assert.Empty(t, it.Attrs, "the end of a page")
						sks += it.Key.SK
					}
				}
				return sks
			}
			for _, tt := range []struct {
				q    table.Query
				want string
			}{
				{table.Query{PageSize: 3}, "cf"},
				{table.Query{PageSize: 2, Descending: true}, "fdb"},
				{table.Query{PageSize: 2, Low: "b", High: "f"}, "ce"},
				{table.Query{PageSize: 2, After: "bb"}, "df"},
				{table.Query{PageSize: 10}, ""},
				{table.Query{}, ""},
				{table.Query{PageSize: 1, Low: "x"}, ""},
			} {
				assert.Equalf(t, tt.want, ends(tt.q), "%+v ends with", tt.q)
			}
			// Only some backends know that a page that ends with the last item is the last page.
			if got := ends(table.Query{PageSize: 7}); got != "" && got != "g" {
				t.Errorf("a page of all items ends with %q", got)
			}
			pk = s.partition()
			for i := range 12 {
				s.put(t, sized(table.Key{PK: pk, SK: string(rune('a' + i))}, 200*1024))
			}
			if got := ends(table.Query{}); got == "" || got > "g" {
				t.Errorf("pages of 2.4 MB end with %q, want pages of about 1 MB", got)
			}
		}},
		{"OrdersSortKeysByTheirBytes", func(t *testing.T, s *suite) {
			pk := s.partition()
			sorted := []string{"\x00", "\x00\x00", "\x00a", "\x01", "A", "Z", "a", "a\x00", "a\x00b", "a#", "aa", "z", "é", "\uffff", "👩"}
			var items []table.Item
			for _, sk := range sorted {
				items = append(items, item(table.Key{PK: pk, SK: sk}))
			}
			shuffled := slices.Clone(items)
			slices.Reverse(shuffled)
			s.putAll(t, shuffled...)
			equalItems(t, "ascending", s.query(t, table.Query{PK: pk, PageSize: 4, Consistent: true}), items)
			equalItems(t, "descending", s.query(t, table.Query{PK: pk, Descending: true, Consistent: true}), shuffled)
			equalItems(t, "range", s.query(t, table.Query{PK: pk, Low: "a", High: "aa", Consistent: true}), items[6:11])
			equalItems(t, "behind", s.query(t, table.Query{PK: pk, After: "a", High: "aa", Consistent: true}), items[7:11])
		}},
		{"CutsLargePartitionsIntoPages", func(t *testing.T, s *suite) {
			pk := s.partition()
			var want []table.Item
			for i := range 12 {
				want = append(want, sized(table.Key{PK: pk, SK: fmt.Sprintf("%02d", i)}, 200*1024))
			}
			s.putAll(t, want...)
			var got []table.Item
			pages := 0
			for page, err := range s.Query(t.Context(), table.Query{PK: pk, Consistent: true}) {
				require.NoError(t, err)
				if pages++; len(page.Items) > 7 {
					t.Errorf("a page of %d items of 200 KB, want about 1 MB", len(page.Items))
				}
				got = append(got, page.Items...)
			}
			assert.GreaterOrEqualf(t, pages, 2, "2.4 MB came in %d page", pages)
			equalItems(t, "items", got, want)
		}},
		{"EventualReadSeesTheItemsInTheEnd", func(t *testing.T, s *suite) {
			pk := s.partition()
			s.putAll(t, letters(pk, "abc")...)
			s.eventualItems(t, table.Query{PK: pk, Descending: true, PageSize: 2}, letters(pk, "cba"))
		}},
	}
}

type rangeRow struct {
	q    table.Query
	want string
}

// ranges returns queries over the sort keys b d f h j.
func ranges() []rangeRow {
	return []rangeRow{
		{table.Query{}, "bdfhj"},
		{table.Query{Descending: true}, "jhfdb"},
		{table.Query{Low: "d"}, "dfhj"},
		{table.Query{Low: "c"}, "dfhj"},
		{table.Query{High: "h"}, "bdfh"},
		{table.Query{High: "i"}, "bdfh"},
		{table.Query{Low: "d", High: "h"}, "dfh"},
		{table.Query{Low: "d", High: "h", Descending: true}, "hfd"},
		{table.Query{Low: "f", High: "f"}, "f"},
		{table.Query{Low: "e", High: "e"}, ""},
		{table.Query{Low: "h", High: "d"}, ""},
		{table.Query{Low: "k"}, ""},
		{table.Query{High: "a"}, ""},
		{table.Query{After: "d"}, "fhj"},
		{table.Query{After: "e"}, "fhj"},
		{table.Query{After: "j"}, ""},
		{table.Query{After: "f", Descending: true}, "db"},
		{table.Query{After: "e", Descending: true}, "db"},
		{table.Query{After: "b", Descending: true}, ""},
		{table.Query{Low: "d", High: "h", After: "d"}, "fh"},
		{table.Query{Low: "d", High: "h", After: "d", Descending: true}, ""},
		{table.Query{Low: "d", High: "h", After: "h"}, ""},
		{table.Query{Low: "d", High: "h", After: "h", Descending: true}, "fd"},
		// If After is outside the bounds, the read starts at the bound or returns nothing.
		{table.Query{Low: "d", High: "h", After: "a"}, "dfh"},
		{table.Query{Low: "d", High: "h", After: "z"}, ""},
		{table.Query{Low: "d", High: "h", After: "z", Descending: true}, "hfd"},
		{table.Query{Low: "d", High: "h", After: "a", Descending: true}, ""},
		{table.Query{Low: "d", After: "a"}, "dfhj"},
		{table.Query{High: "h", After: "z", Descending: true}, "hfdb"},
	}
}

// letters returns one item for each letter, in the order of the letters.
func letters(pk, letters string) []table.Item {
	items := []table.Item{}
	for _, l := range letters {
		items = append(items, item(table.Key{PK: pk, SK: string(l)}, str("v", string(l))))
	}
	return items
}

// eventualItems waits until an eventually consistent query returns want.
func (s *suite) eventualItems(t *testing.T, q table.Query, want []table.Item) {
	t.Helper()
	eventually(t, func() string { return diffItems(s.query(t, q), want) })
}

func indexTests() []test {
	return []test{
		{"HoldsItemsThatHaveBothKeys", func(t *testing.T, s *suite) {
			pk, gsi := s.partition(), s.partition()
			in := item(table.Key{PK: pk, SK: "in"}, append(indexed(gsi, "1"), str("v", "x"))...)
			s.put(t, in,
				item(table.Key{PK: pk, SK: "half"}, str(table.AttrGSI1PK, gsi)),
				item(table.Key{PK: pk, SK: "other half"}, str(table.AttrGSI1SK, "1")),
				item(table.Key{PK: pk, SK: "out"}, str("v", "y")))
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, []table.Item{in})
		}},
		{"FollowsItemsThatMoveAndLeave", func(t *testing.T, s *suite) {
			gsi, other := s.partition(), s.partition()
			key := s.key()
			s.put(t, item(key, append(indexed(gsi, "1"), num("n", 1))...))
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, []table.Item{item(key, append(indexed(gsi, "1"), num("n", 1))...)})

			s.update(t, table.UpdateInput{Key: key, Add: []table.Attr{num("n", 1)}})
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, []table.Item{item(key, append(indexed(gsi, "1"), num("n", 2))...)})

			s.update(t, table.UpdateInput{Key: key, Set: []table.Attr{str(table.AttrGSI1SK, "2")}})
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, []table.Item{item(key, append(indexed(gsi, "2"), num("n", 2))...)})

			s.put(t, item(key, indexed(other, "3")...))
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, nil)
			s.eventualItems(t, table.Query{Index: true, PK: other}, []table.Item{item(key, indexed(other, "3")...)})

			s.update(t, table.UpdateInput{Key: key, Remove: []string{table.AttrGSI1PK}})
			s.eventualItems(t, table.Query{Index: true, PK: other}, nil)

			s.update(t, table.UpdateInput{Key: key, Set: []table.Attr{str(table.AttrGSI1PK, gsi)}})
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, []table.Item{item(key, indexed(gsi, "3")...)})

			_, err := s.Delete(t.Context(), table.DeleteInput{Key: key})
			require.NoError(t, err)
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, nil)
		}},
		{"FollowsBatchesAndTransactions", func(t *testing.T, s *suite) {
			gsi := s.partition()
			a, b, c := s.key(), s.key(), s.key()
			s.putAll(t, item(a, indexed(gsi, "a")...), item(b, indexed(gsi, "b")...), item(c, indexed(gsi, "c")...))
			s.eventualItems(t, table.Query{Index: true, PK: gsi},
				[]table.Item{item(a, indexed(gsi, "a")...), item(b, indexed(gsi, "b")...), item(c, indexed(gsi, "c")...)})

			// A put without index keys and a delete remove items from the index, in any kind of write.
			bare := item(a)
			_, err := s.BatchWrite(t.Context(), []table.BatchWrite{{Put: &bare}, {Delete: b}})
			require.NoError(t, err)
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, []table.Item{item(c, indexed(gsi, "c")...)})
			s.transact(t,
				table.TransactOp{Update: &table.UpdateInput{Key: c, Set: []table.Attr{str(table.AttrGSI1SK, "z")}}},
				table.TransactOp{Put: &table.PutInput{Item: item(b, indexed(gsi, "y")...)}})
			s.eventualItems(t, table.Query{Index: true, PK: gsi},
				[]table.Item{item(b, indexed(gsi, "y")...), item(c, indexed(gsi, "z")...)})
			s.transact(t, table.TransactOp{Delete: &table.DeleteInput{Key: b}})
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, []table.Item{item(c, indexed(gsi, "z")...)})
		}},
		{"BoundsDirectionAndAfter", func(t *testing.T, s *suite) {
			gsi, pk := s.partition(), s.partition()
			indexLetters := func(letters string) []table.Item {
				items := []table.Item{}
				for _, l := range letters {
					// The order of the items in the table differs from their order in the index.
					key := table.Key{PK: fmt.Sprintf("%s#%d", pk, 'z'-l), SK: "s"}
					items = append(items, item(key, append(indexed(gsi, string(l)), str("v", string(l)))...))
				}
				return items
			}
			s.putAll(t, indexLetters("bdfhj")...)
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, indexLetters("bdfhj"))
			for _, tt := range ranges() {
				for _, size := range []int{0, 2} {
					q := tt.q
					q.Index, q.PK, q.PageSize = true, gsi, size
					s.eventualItems(t, q, indexLetters(tt.want))
				}
			}
		}},
		{"PagesThroughItemsWithOneSortKey", func(t *testing.T, s *suite) {
			gsi, pk := s.partition(), s.partition()
			var want []table.Item
			for i := range 7 {
				want = append(want, item(table.Key{PK: fmt.Sprintf("%s#%d", pk, i), SK: "s"}, indexed(gsi, "same")...))
			}
			s.putAll(t, want...)
			s.put(t, item(s.key(), indexed(gsi, "sams")...), item(s.key(), indexed(gsi, "samd")...))
			for _, descending := range []bool{false, true} {
				q := table.Query{Index: true, PK: gsi, Low: "same", High: "same", PageSize: 2, Descending: descending}
				eventually(t, func() string { return diffItems(sortByKey(s.query(t, q)), want) })
			}
			eventually(t, func() string {
				got := s.query(t, table.Query{Index: true, PK: gsi, After: "same", PageSize: 2})
				if len(got) != 1 || got[0].Str(table.AttrGSI1SK) != "sams" {
					return fmt.Sprint(showAll(got))
				}
				return ""
			})
		}},
		{"ProjectionReturnsTheKeyAndWhatWasNamed", func(t *testing.T, s *suite) {
			gsi, key := s.partition(), s.key()
			s.put(t, item(key, append(indexed(gsi, "1"), str("v", "x"), str("w", "y"))...))
			s.eventualItems(t, table.Query{Index: true, PK: gsi, Project: []string{"w"}}, []table.Item{item(key, str("w", "y"))})
			s.eventualItems(t, table.Query{Index: true, PK: gsi, Project: []string{}}, []table.Item{item(key)})
		}},
		{"OrdersSortKeysByTheirBytes", func(t *testing.T, s *suite) {
			gsi, pk := s.partition(), s.partition()
			var want []table.Item
			for i, sk := range []string{"\x00", "\x00\x00", "\x01", "a", "a\x00", "a\x00\x01", "a\x01", "aa", "é", "👩"} {
				want = append(want, item(table.Key{PK: fmt.Sprintf("%s#%d", pk, 9-i), SK: "\x00"}, indexed(gsi, sk)...))
			}
			s.putAll(t, want...)
			s.eventualItems(t, table.Query{Index: true, PK: gsi}, want)
			s.eventualItems(t, table.Query{Index: true, PK: gsi, Low: "a", High: "a\x01", PageSize: 1}, want[3:7])
			s.eventualItems(t, table.Query{Index: true, PK: gsi, After: "a"}, want[4:])
		}},
	}
}

func (s *suite) update(t *testing.T, in table.UpdateInput) {
	t.Helper()
	_, err := s.Update(t.Context(), in)
	require.NoErrorf(t, err, "Update(%+v)", in)
}

func (s *suite) transact(t *testing.T, ops ...table.TransactOp) {
	t.Helper()
	_, err := s.Transact(t.Context(), table.TransactInput{Ops: ops})
	require.NoError(t, err)
}

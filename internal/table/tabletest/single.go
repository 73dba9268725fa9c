package tabletest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

func singleTests() []test {
	return []test{
		{"PutReplacesTheWholeItem", func(t *testing.T, s *suite) {
			key := s.key()
			s.lacks(t, key)
			s.put(t, item(key, str("a", "1"), num("b", 2)))
			s.holds(t, item(key, str("a", "1"), num("b", 2)))
			s.put(t, item(key, str("c", "3")))
			s.holds(t, item(key, str("c", "3")))
			s.put(t, item(key))
			s.holds(t, item(key))
		}},
		{"ItemsOfAPartitionAreApart", func(t *testing.T, s *suite) {
			pk := s.partition()
			a, b := table.Key{PK: pk, SK: "a"}, table.Key{PK: pk, SK: "ab"}
			s.put(t, item(a, num("n", 1)), item(b, num("n", 2)))
			s.holds(t, item(a, num("n", 1)))
			s.holds(t, item(b, num("n", 2)))
			s.lacks(t, table.Key{PK: pk + "a", SK: "b"})
		}},
		{"ProjectionReturnsTheKeyAndWhatWasNamed", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, item(key, str("a", "1"), str("b", "2"), str("name", "reserved word")))
			for _, tt := range []struct {
				project []string
				want    table.Item
			}{
				{[]string{"b", "absent"}, item(key, str("b", "2"))},
				{[]string{"name"}, item(key, str("name", "reserved word"))},
				{[]string{}, item(key)},
				{[]string{"absent"}, item(key)},
			} {
				res, err := s.Get(t.Context(), table.GetInput{Key: key, Project: tt.project, Consistent: true})
				require.NoError(t, err)
				equal(t, "projected item", res.Item, &tt.want)
			}
		}},
		{"EventualGetSeesTheItemInTheEnd", func(t *testing.T, s *suite) {
			want := item(s.key(), str("a", "1"))
			s.put(t, want)
			eventually(t, func() string {
				res, err := s.Get(t.Context(), table.GetInput{Key: want.Key})
				require.NoError(t, err)
				if got := show(res.Item); got != show(&want) {
					return got
				}
				return ""
			})
		}},
		{"UpdateSetsAddsAndRemoves", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, item(key, str("set", "old"), num("add", 40), str("remove", "x"), str("keep", "y")))
			res, err := s.Update(t.Context(), table.UpdateInput{
				Key:    key,
				Set:    []table.Attr{str("set", "new"), num("made", 1)},
				Add:    []table.Attr{num("add", 2), num("added", -7)},
				Remove: []string{"remove", "absent"},
			})
			require.NoError(t, err)
			if res.Item != nil {
				t.Errorf("Item = %s without ReturnNew", show(res.Item))
			}
			s.holds(t, item(key, str("set", "new"), num("made", 1), num("add", 42), num("added", -7), str("keep", "y")))
		}},
		{"UpdateMakesTheItem", func(t *testing.T, s *suite) {
			key := s.key()
			_, err := s.Update(t.Context(), table.UpdateInput{Key: key, Add: []table.Attr{num("n", 5)}})
			require.NoError(t, err)
			s.holds(t, item(key, num("n", 5)))
			bare := s.key()
			_, err = s.Update(t.Context(), table.UpdateInput{Key: bare, Remove: []string{"n"}})
			require.NoError(t, err)
			s.holds(t, item(bare))
		}},
		{"UpdateReturnsTheNewItem", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, item(key, num("n", 1), str("keep", "y")))
			res, err := s.Update(t.Context(), table.UpdateInput{Key: key, Add: []table.Attr{num("n", 1)}, ReturnNew: true})
			require.NoError(t, err)
			want := item(key, num("n", 2), str("keep", "y"))
			equal(t, "returned item", res.Item, &want)
		}},
		{"UpdateTakesReservedWordsAndStrangeNames", func(t *testing.T, s *suite) {
			key := s.key()
			names := []string{"name", "status", "ttl", "d20251120abc", "with space", "a.b", "#x", ":y"}
			in := table.UpdateInput{Key: key}
			for i, name := range names {
				in.Set = append(in.Set, num(name, int64(i)))
			}
			_, err := s.Update(t.Context(), in)
			require.NoError(t, err)
			s.holds(t, item(key, in.Set...))
		}},
		{"DeleteRemovesAndAgreesThatNothingIsThere", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, item(key, str("a", "1")))
			for range 2 {
				_, err := s.Delete(t.Context(), table.DeleteInput{Key: key})
				require.NoError(t, err)
				s.lacks(t, key)
			}
		}},
		{"NumbersKeepTheirValue", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, item(key, num("max", 1<<63-1), num("min", -1<<63), num("zero", 0), num("round", 1_000_000)))
			s.holds(t, item(key, num("max", 1<<63-1), num("min", -1<<63), num("zero", 0), num("round", 1_000_000)))
		}},
		{"TextComesBackAsItWasStored", func(t *testing.T, s *suite) {
			pk := s.partition()
			var want []table.Item
			for _, text := range texts() {
				// The text is a value, and also a part of both keys and of an attribute's name.
				it := item(table.Key{PK: pk, SK: "s" + text}, str("v", text), str("empty", ""))
				want = append(want, it)
				s.put(t, it, item(table.Key{PK: pk + text, SK: "s"}, str("n"+text, text)))
				s.holds(t, it)
				s.holds(t, item(table.Key{PK: pk + text, SK: "s"}, str("n"+text, text)))
				_, err := s.Update(t.Context(), table.UpdateInput{
					Key: it.Key, Set: []table.Attr{str("v", text)}, If: table.Equal{Name: "v", Value: table.S(text)},
				})
				assert.NoErrorf(t, err, "condition on %q", text)
			}
			got := s.query(t, table.Query{PK: pk, Consistent: true})
			equalItems(t, "items by query", sortByKey(got), sortByKey(want))
		}},
		{"NothingIsSharedWithTheCaller", func(t *testing.T, s *suite) {
			want := item(s.key(), str("a", "1"), str("b", "2"))
			mine := *clone(&want)
			s.put(t, mine)
			mine.Attrs[0] = str("a", "changed after Put")
			s.holds(t, want)

			got := s.read(t, want.Key)
			got.Attrs[0] = str("a", "changed after Get")
			s.holds(t, want)

			batch := item(s.key(), str("a", "1"))
			writes := []table.BatchWrite{{Put: clone(&batch)}}
			_, err := s.BatchWrite(t.Context(), writes)
			require.NoError(t, err)
			writes[0].Put.Attrs[0] = str("a", "changed after BatchWrite")
			s.holds(t, batch)

			trans := item(s.key(), str("a", "1"))
			in := table.TransactInput{Ops: []table.TransactOp{{Put: &table.PutInput{Item: *clone(&trans)}}}}
			_, err = s.Transact(t.Context(), in)
			require.NoError(t, err)
			in.Ops[0].Put.Item.Attrs[0] = str("a", "changed after Transact")
			s.holds(t, trans)

			set := []table.Attr{str("a", "2")}
			res, err := s.Update(t.Context(), table.UpdateInput{Key: trans.Key, Set: set, ReturnNew: true})
			require.NoError(t, err)
			set[0], res.Item.Attrs[0] = str("a", "3"), str("a", "4")
			s.holds(t, item(trans.Key, str("a", "2")))
		}},
		{"ACancelledContextIsAnError", func(t *testing.T, s *suite) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			it := item(s.key(), str("a", "1"))
			calls := map[string]func() error{
				"Get": func() error { _, err := s.Get(ctx, table.GetInput{Key: it.Key}); return err },
				"BatchGet": func() error {
					_, err := s.BatchGet(ctx, table.BatchGetInput{Keys: []table.Key{it.Key}})
					return err
				},
				"Query": func() error {
					_, _, err := table.Collect(s.Query(ctx, table.Query{PK: it.Key.PK}), 0)
					return err
				},
				"Put": func() error { _, err := s.Put(ctx, table.PutInput{Item: it}); return err },
				"Update": func() error {
					_, err := s.Update(ctx, table.UpdateInput{Key: it.Key, Set: it.Attrs})
					return err
				},
				"Delete":     func() error { _, err := s.Delete(ctx, table.DeleteInput{Key: it.Key}); return err },
				"BatchWrite": func() error { _, err := s.BatchWrite(ctx, []table.BatchWrite{{Put: &it}}); return err },
				"Transact": func() error {
					_, err := s.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{{Put: &table.PutInput{Item: it}}}})
					return err
				},
			}
			for name, call := range calls {
				assert.ErrorIs(t, call(), context.Canceled, name)
			}
		}},
	}
}

// texts returns strings that some layer may corrupt.
func texts() []string {
	return []string{
		"plain", "ünïcödé", "emoji 👩‍👩‍👧‍👦 🏳️‍🌈", "مرحبا بالعالم \u202e", "NUL\x00NUL", "\x00", "\x00é",
		"U+FFFE \ufffe", "U+FFFF \uffff", "U+FFFD \ufffd", "astral \U0010ffff", "line\nfeed\ttab\r", `"quoted" \ and </script>`,
		"\u2028\u2029", "combining e\u0301 é", "\x7f\x01\x1f",
	}
}

func conditionTests() []test {
	return []test{
		{"EachKindOnEachState", func(t *testing.T, s *suite) {
			pk := s.partition()
			for i, tt := range conditions() {
				key := table.Key{PK: pk, SK: string(rune('A' + i))}
				var old *table.Item
				if tt.old != nil {
					it := item(key, tt.old...)
					old = &it
					s.put(t, it)
				}
				_, err := s.Put(t.Context(), table.PutInput{Item: item(key, str("new", "1")), If: tt.cond})
				if tt.holds {
					if err != nil {
						t.Errorf("%#v on %s: %v", tt.cond, show(old), err)
					}
					continue
				}
				failed, ok := errors.AsType[*table.ConditionError](err)
				if !ok {
					t.Errorf("%#v on %s: error = %v, want a ConditionError", tt.cond, show(old), err)
					continue
				}
				assert.Equalf(t, key, failed.Key, "%#v: the error names", tt.cond)
				equal(t, "old item in the error", failed.Old, old)
			}
		}},
		{"OnTheKeyItself", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, item(key))
			if _, err := s.Put(t.Context(), table.PutInput{Item: item(key), If: table.Equal{Name: table.AttrSK, Value: table.S("sort")}}); err != nil {
				t.Error(err)
			}
			_, err := s.Put(t.Context(), table.PutInput{Item: item(key), If: table.AttrAbsent{Name: table.AttrPK}})
			old := item(key)
			equal(t, "old item", conditionFailed(t, err).Old, &old)
		}},
		{"FailedPutUpdateDeleteChangeNothing", func(t *testing.T, s *suite) {
			old := item(s.key(), num("n", 1), str("a", "old"))
			s.put(t, old)
			never := table.Equal{Name: "n", Value: table.N(2)}
			_, err := s.Put(t.Context(), table.PutInput{Item: item(old.Key, str("a", "new")), If: never})
			equal(t, "old item of a put", conditionFailed(t, err).Old, &old)
			_, err = s.Update(t.Context(), table.UpdateInput{Key: old.Key, Add: []table.Attr{num("n", 1)}, If: never, ReturnNew: true})
			equal(t, "old item of an update", conditionFailed(t, err).Old, &old)
			_, err = s.Delete(t.Context(), table.DeleteInput{Key: old.Key, If: never})
			equal(t, "old item of a delete", conditionFailed(t, err).Old, &old)
			s.holds(t, old)

			absent := s.key()
			_, err = s.Update(t.Context(), table.UpdateInput{Key: absent, Add: []table.Attr{num("n", 1)}, If: table.Exists{}})
			equal(t, "old item of an update of nothing", conditionFailed(t, err).Old, nil)
			_, err = s.Delete(t.Context(), table.DeleteInput{Key: absent, If: table.Exists{}})
			equal(t, "old item of a delete of nothing", conditionFailed(t, err).Old, nil)
			s.lacks(t, absent)
		}},
		{"ThatHoldLetUpdateAndDeleteHappen", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, item(key, num("seq", 4)))
			_, err := s.Update(t.Context(), table.UpdateInput{
				Key: key, Add: []table.Attr{num("likes", 3)}, Set: []table.Attr{num("seq", 5)},
				If: table.All{
					table.Any{table.AttrAbsent{Name: "seq"}, table.Less{Name: "seq", Value: table.N(5)}},
					table.AttrAbsent{Name: "fenced"},
				},
			})
			require.NoError(t, err)
			s.holds(t, item(key, num("seq", 5), num("likes", 3)))
			_, err = s.Delete(t.Context(), table.DeleteInput{Key: key, If: table.Equal{Name: "seq", Value: table.N(5)}})
			require.NoError(t, err)
			s.lacks(t, key)
		}},
	}
}

type conditionRow struct {
	cond  table.Cond
	old   []table.Attr
	holds bool
}

// conditions returns each kind of condition, with states in which the condition holds and
// states in which it does not hold. A nil old stands for an absent item.
func conditions() []conditionRow {
	there := []table.Attr{num("n", 5), str("s", "m"), str("empty", "")}
	n, S := table.N, table.S
	return []conditionRow{
		{nil, nil, true},
		{nil, there, true},
		{table.Absent{}, nil, true},
		{table.Absent{}, there, false},
		{table.Exists{}, nil, false},
		{table.Exists{}, there, true},
		{table.AttrAbsent{Name: "n"}, nil, true},
		{table.AttrAbsent{Name: "n"}, there, false},
		{table.AttrAbsent{Name: "x"}, there, true},
		{table.AttrAbsent{Name: "empty"}, there, false},
		{table.Equal{Name: "n", Value: n(5)}, nil, false},
		{table.Equal{Name: "n", Value: n(5)}, there, true},
		{table.Equal{Name: "n", Value: n(6)}, there, false},
		{table.Equal{Name: "n", Value: S("5")}, there, false},
		{table.Equal{Name: "s", Value: S("m")}, there, true},
		{table.Equal{Name: "empty", Value: S("")}, there, true},
		{table.Equal{Name: "x", Value: S("")}, there, false},
		{table.Less{Name: "n", Value: n(6)}, nil, false},
		{table.Less{Name: "n", Value: n(6)}, there, true},
		{table.Less{Name: "n", Value: n(5)}, there, false},
		{table.Less{Name: "n", Value: n(40)}, there, true},
		{table.Less{Name: "n", Value: S("6")}, there, false},
		{table.Less{Name: "s", Value: S("n")}, there, true},
		{table.Less{Name: "s", Value: S("m")}, there, false},
		{table.Less{Name: "x", Value: n(6)}, there, false},
		{table.All{table.Exists{}, table.Equal{Name: "n", Value: n(5)}}, there, true},
		{table.All{table.Exists{}, table.Equal{Name: "n", Value: n(6)}}, there, false},
		{table.All{table.Exists{}}, nil, false},
		{table.Any{table.Absent{}, table.Equal{Name: "n", Value: n(5)}}, there, true},
		{table.Any{table.Absent{}, table.Equal{Name: "n", Value: n(6)}}, there, false},
		{table.Any{table.Absent{}, table.Equal{Name: "n", Value: n(6)}}, nil, true},
		{table.Any{table.All{table.Exists{}, table.AttrAbsent{Name: "n"}}, table.All{table.Exists{}, table.Any{table.AttrAbsent{Name: "x"}, table.Absent{}}}}, there, true},
	}
}

package tabletest

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/table"
)

func invalidTests() []test {
	return []test{
		{"RequestsAreRefusedAndChangeNothing", func(t *testing.T, s *suite) {
			there := item(s.key(), num("n", 1), str("s", "x"))
			s.put(t, there)
			for name, call := range s.invalidCalls(t, there) {
				err := call()
				assert.Truef(t, isInvalid(err), "%s: error = %v, want an InvalidError", name, err)
			}
			s.holds(t, there)
			equalItems(t, "partition", s.query(t, table.Query{PK: there.Key.PK, Consistent: true}), []table.Item{there})
		}},
		{"ItemsAtTheLimitAreTaken", func(t *testing.T, s *suite) {
			it := sized(s.key(), table.MaxItemBytes)
			s.put(t, it)
			s.holds(t, it)
			_, err := s.Update(t.Context(), table.UpdateInput{Key: it.Key, Set: []table.Attr{str("one more", "x")}})
			assert.Truef(t, isInvalid(err), "an update beyond the limit: error = %v, want an InvalidError", err)
			s.holds(t, it)
		}},
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*table.InvalidError](err)
	return ok
}

func (s *suite) invalidCalls(t *testing.T, there table.Item) map[string]func() error {
	t.Helper()
	pk, key := there.Key.PK, there.Key
	other := func(sk string) table.Key { return table.Key{PK: pk, SK: sk} }
	put := func(it table.Item, cond table.Cond) func() error {
		return func() error { _, err := s.Put(t.Context(), table.PutInput{Item: it, If: cond}); return err }
	}
	get := func(key table.Key) func() error {
		return func() error { _, err := s.Get(t.Context(), table.GetInput{Key: key, Consistent: true}); return err }
	}
	update := func(in table.UpdateInput) func() error {
		in.Key = key
		return func() error { _, err := s.Update(t.Context(), in); return err }
	}
	query := func(q table.Query) func() error {
		return func() error { _, _, err := table.Collect(s.Query(t.Context(), q), 0); return err }
	}
	scan := func(in table.ScanInput) func() error {
		return func() error { _, err := s.Scan(t.Context(), in); return err }
	}
	batch := func(writes ...table.BatchWrite) func() error {
		return func() error { _, err := s.BatchWrite(t.Context(), writes); return err }
	}
	transact := func(ops ...table.TransactOp) func() error {
		return func() error { _, err := s.Transact(t.Context(), table.TransactInput{Ops: ops}); return err }
	}
	putOp := func(it table.Item) table.TransactOp { return table.TransactOp{Put: &table.PutInput{Item: it}} }
	n := num("n", 2)
	fresh, large := item(other("fresh")), sized(other("large"), table.MaxItemBytes+1)

	var many []table.TransactOp
	for i := range table.MaxTransact + 1 {
		many = append(many, putOp(item(other(strings.Repeat("m", i+1)))))
	}
	return map[string]func() error{
		"get of an empty PK":      get(table.Key{SK: "s"}),
		"get of an empty SK":      get(table.Key{PK: pk}),
		"get of a long SK":        get(other(strings.Repeat("s", table.MaxSKBytes+1))),
		"get of a SK not UTF-8":   get(other("\xff")),
		"put of an empty PK":      put(item(table.Key{SK: "s"}), nil),
		"put of an empty SK":      put(item(table.Key{PK: pk}), nil),
		"put of a long PK":        put(item(table.Key{PK: strings.Repeat("p", table.MaxPKBytes+1), SK: "s"}), nil),
		"put of PK as attribute":  put(item(key, str(table.AttrPK, pk)), nil),
		"put of a name twice":     put(item(key, n, n), nil),
		"put of an empty name":    put(item(key, str("", "x")), nil),
		"put without a value":     put(item(key, table.Attr{Name: "a"}), nil),
		"put not UTF-8":           put(item(key, str("a", "\xc3")), nil),
		"put over 400 KB":         put(large, nil),
		"put of an empty GSI1PK":  put(item(key, indexed("", "x")...), nil),
		"put of an empty GSI1SK":  put(item(key, indexed("x", "")...), nil),
		"put of a number GSI1SK":  put(item(key, str(table.AttrGSI1PK, "x"), num(table.AttrGSI1SK, 1)), nil),
		"condition without name":  put(item(key), table.AttrAbsent{}),
		"condition without value": put(item(key), table.Equal{Name: "a"}),
		"condition without parts": put(item(key), table.All{}),
		"condition on nil":        put(item(key), table.Any{table.Exists{}, nil}),
		"delete of an empty SK": func() error {
			_, err := s.Delete(t.Context(), table.DeleteInput{Key: table.Key{PK: pk}})
			return err
		},

		"update of nothing":             update(table.UpdateInput{}),
		"update of SK":                  update(table.UpdateInput{Set: []table.Attr{str(table.AttrSK, "x")}}),
		"removal of PK":                 update(table.UpdateInput{Remove: []string{table.AttrPK}}),
		"set and add of a name":         update(table.UpdateInput{Set: []table.Attr{n}, Add: []table.Attr{n}}),
		"set and remove of a name":      update(table.UpdateInput{Set: []table.Attr{n}, Remove: []string{"n"}}),
		"set of a name twice":           update(table.UpdateInput{Set: []table.Attr{n, n}}),
		"add of a string":               update(table.UpdateInput{Add: []table.Attr{str("n", "1")}}),
		"add to a string":               update(table.UpdateInput{Add: []table.Attr{num("s", 1)}}),
		"update to an empty GSI1PK":     update(table.UpdateInput{Set: []table.Attr{str(table.AttrGSI1PK, "")}}),
		"update with a bad condition":   update(table.UpdateInput{Set: []table.Attr{n}, If: table.Less{Name: "n"}}),
		"scan of a negative page":       scan(table.ScanInput{PageSize: -1}),
		"scan after half a key":         scan(table.ScanInput{After: table.Key{PK: pk}}),
		"query of an empty PK":          query(table.Query{}),
		"query of a negative page":      query(table.Query{PK: pk, PageSize: -1}),
		"ends of pages of an index":     query(table.Query{PK: pk, Index: true, EndsOnly: true}),
		"ends of pages with attributes": query(table.Query{PK: pk, EndsOnly: true, Project: []string{}}),
		"consistent query of an index":  query(table.Query{PK: pk, Index: true, Consistent: true}),
		"batch get of a key twice": func() error {
			_, err := s.BatchGet(t.Context(), table.BatchGetInput{Keys: []table.Key{key, other("b"), key}})
			return err
		},
		"batch get of an empty SK": func() error {
			_, err := s.BatchGet(t.Context(), table.BatchGetInput{Keys: []table.Key{{PK: pk}}})
			return err
		},
		"batch put of a key twice":      batch(table.BatchWrite{Put: &fresh}, table.BatchWrite{Put: &fresh}),
		"batch put and delete of a key": batch(table.BatchWrite{Put: &fresh}, table.BatchWrite{Delete: fresh.Key}),
		"batch put over 400 KB":         batch(table.BatchWrite{Put: &fresh}, table.BatchWrite{Put: &large}),
		"batch write of nothing":        batch(table.BatchWrite{}),
		"batch write of two things":     batch(table.BatchWrite{Put: &fresh, Delete: other("x")}),

		"empty transaction":            transact(),
		"transaction of 101":           transact(many...),
		"transaction on a key twice":   transact(putOp(fresh), putOp(fresh)),
		"check and put of a key":       transact(putOp(fresh), table.TransactOp{Check: &table.CheckInput{Key: fresh.Key, If: table.Absent{}}}),
		"empty operation":              transact(putOp(fresh), table.TransactOp{}),
		"operation of two kinds":       transact(table.TransactOp{Put: &table.PutInput{Item: fresh}, Delete: &table.DeleteInput{Key: fresh.Key}}),
		"check without a condition":    transact(table.TransactOp{Check: &table.CheckInput{Key: fresh.Key}}),
		"transaction put over 400 KB":  transact(putOp(fresh), putOp(large)),
		"transaction adds to a string": transact(putOp(fresh), table.TransactOp{Update: &table.UpdateInput{Key: key, Add: []table.Attr{num("s", 1)}}}),
		"transaction returns an item":  transact(table.TransactOp{Update: &table.UpdateInput{Key: key, Set: []table.Attr{n}, ReturnNew: true}}),
		"transaction over 4 MB": transact(func() (ops []table.TransactOp) {
			for i := range 11 {
				ops = append(ops, putOp(sized(other(strings.Repeat("b", i+1)), 390*1024)))
			}
			return ops
		}()...),
	}
}

package tabletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/table"
)

func modelTests() []test {
	return []test{
		{"RandomOperationsAgreeWithMemory", func(t *testing.T, s *suite) {
			rapid.Check(t, func(rt *rapid.T) {
				m := &model{suite: s, want: NewMemory(), prefix: s.partition()}
				for _, op := range rapid.SliceOfN(rapid.Custom(drawOp), 1, 12).Draw(rt, "ops") {
					m.do(rt, op)
				}
				m.compare(rt)
			})
		}},
	}
}

// model makes the same operations on a backend and on the reference, in partitions whose names begin with prefix.
type model struct {
	*suite
	want   *Memory
	prefix string
}

// op is one random operation: a transaction, a batch, or a single write.
type op struct {
	Kind  string
	Parts []part
	New   bool
}

// part is one write of an operation.
type part struct {
	Kind    string
	Cell    cell
	Attrs   []attrGen
	Add     int64
	Removes []string
	If      int
}

type cell struct{ PK, SK int }

type attrGen struct {
	Name string
	Text int
}

func drawCell(t *rapid.T) cell {
	return cell{rapid.IntRange(0, 1).Draw(t, "pk"), rapid.IntRange(0, 3).Draw(t, "sk")}
}

func drawPart(t *rapid.T) part {
	name := rapid.SampledFrom([]string{table.AttrGSI1PK, table.AttrGSI1SK, "a", "b"})
	attr := rapid.Custom(func(t *rapid.T) attrGen {
		return attrGen{name.Draw(t, "name"), rapid.IntRange(0, 2).Draw(t, "text")}
	})
	return part{
		Kind:    rapid.SampledFrom([]string{"put", "update", "delete", "check"}).Draw(t, "kind"),
		Cell:    drawCell(t),
		Attrs:   rapid.SliceOfNDistinct(attr, 0, 4, func(a attrGen) string { return a.Name }).Draw(t, "attrs"),
		Add:     rapid.Int64Range(-2, 2).Draw(t, "add"),
		Removes: rapid.SliceOfNDistinct(name, 0, 2, rapid.ID).Draw(t, "removes"),
		If:      rapid.IntRange(0, len(modelConds())-1).Draw(t, "if"),
	}
}

func drawOp(t *rapid.T) op {
	parts := rapid.SliceOfNDistinct(rapid.Custom(drawPart), 1, 4, func(p part) cell { return p.Cell })
	return op{
		Kind:  rapid.SampledFrom([]string{"single", "single", "batch", "transact"}).Draw(t, "op"),
		Parts: parts.Draw(t, "parts"),
		New:   rapid.Bool().Draw(t, "new"),
	}
}

func modelConds() []table.Cond {
	return []table.Cond{
		nil, nil, nil, nil,
		table.Absent{},
		table.Exists{},
		table.AttrAbsent{Name: table.AttrGSI1PK},
		table.AttrAbsent{Name: "a"},
		table.Less{Name: "n", Value: table.N(1)},
		table.Equal{Name: "a", Value: table.S("1")},
		table.Any{table.Absent{}, table.All{table.AttrAbsent{Name: "b"}, table.Less{Name: "n", Value: table.N(3)}}},
	}
}

func (m *model) key(c cell) table.Key {
	return table.Key{PK: fmt.Sprintf("%s#%d", m.prefix, c.PK), SK: fmt.Sprint("s", c.SK)}
}

func (m *model) attrs(p part) []table.Attr {
	var out []table.Attr
	for _, a := range p.Attrs {
		v := fmt.Sprint(a.Text)
		if a.Name == table.AttrGSI1PK {
			v = fmt.Sprintf("%s#gsi%d", m.prefix, a.Text)
		}
		out = append(out, str(a.Name, v))
	}
	return out
}

func (m *model) transactOp(p part, returnNew bool) table.TransactOp {
	key, cond := m.key(p.Cell), modelConds()[p.If]
	switch p.Kind {
	case "put":
		return table.TransactOp{Put: &table.PutInput{Item: item(key, append(m.attrs(p), num("n", p.Add))...), If: cond}}
	case "delete":
		return table.TransactOp{Delete: &table.DeleteInput{Key: key, If: cond}}
	case "check":
		if cond == nil {
			cond = table.Exists{}
		}
		return table.TransactOp{Check: &table.CheckInput{Key: key, If: cond}}
	}
	in := &table.UpdateInput{Key: key, Set: m.attrs(p), Add: []table.Attr{num("n", p.Add)}, If: cond, ReturnNew: returnNew}
	for _, name := range p.Removes {
		if !slices.ContainsFunc(in.Set, func(a table.Attr) bool { return a.Name == name }) {
			in.Remove = append(in.Remove, name)
		}
	}
	return table.TransactOp{Update: in}
}

// do makes one operation on the backend and on the reference, and compares the answers.
func (m *model) do(t *rapid.T, o op) {
	ctx := t.Context()
	run := func(s table.Store) (table.WriteResult, error) {
		switch o.Kind {
		case "batch":
			var writes []table.BatchWrite
			for _, p := range o.Parts {
				w := table.BatchWrite{Delete: m.key(p.Cell)}
				if p.Kind == "put" || p.Kind == "update" {
					it := item(m.key(p.Cell), m.attrs(p)...)
					w = table.BatchWrite{Put: &it}
				}
				writes = append(writes, w)
			}
			return s.BatchWrite(ctx, writes)
		case "transact":
			var in table.TransactInput
			for _, p := range o.Parts {
				in.Ops = append(in.Ops, m.transactOp(p, false))
			}
			return s.Transact(ctx, in)
		}
		return single(ctx, s, m.transactOp(o.Parts[0], o.New))
	}
	got, gotErr := run(m.Store)
	want, wantErr := run(m.want)
	require.Equalf(t, showError(wantErr), showError(gotErr), "%+v:\n got", o)
	require.Equalf(t, show(want.Item), show(got.Item), "%+v", o)
	// A backend may compute the units of a batch without a read of the replaced items.
	if o.Kind != "batch" && m.opts.approximateUnits == "" && got.Units != want.Units {
		t.Fatalf("%+v: units = %+v, want %+v", o, got.Units, want.Units)
	}
}

func single(ctx context.Context, s table.Store, op table.TransactOp) (table.WriteResult, error) {
	switch {
	case op.Put != nil:
		return s.Put(ctx, *op.Put)
	case op.Update != nil:
		return s.Update(ctx, *op.Update)
	case op.Delete != nil:
		return s.Delete(ctx, *op.Delete)
	}
	return s.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{op}})
}

// showError returns the part of an error that the contract fixes.
func showError(err error) string {
	if err == nil {
		return "none"
	}
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		return fmt.Sprintf("condition on %v, old %s", failed.Key, show(failed.Old))
	}
	if failed, ok := errors.AsType[*table.CancelledError](err); ok {
		var b strings.Builder
		for _, r := range failed.Reasons {
			fmt.Fprintf(&b, "%v %d %s; ", r.Key, r.Reason, show(r.Old))
		}
		return "cancelled: " + b.String()
	}
	if isInvalid(err) {
		return "invalid"
	}
	return err.Error()
}

// compare compares all items of the backend with all items of the reference, in the table and in the index.
func (m *model) compare(t *rapid.T) {
	for _, descending := range []bool{false, true} {
		for i := range 2 {
			q := table.Query{PK: m.key(cell{PK: i}).PK, Descending: descending, PageSize: 3, Consistent: true}
			require.Emptyf(t, m.diff(t, q), "partition %d differs (-want +got)", i)
		}
	}
	for i := range 3 {
		eventually(t, func() string {
			return m.diff(t, table.Query{PK: fmt.Sprintf("%s#gsi%d", m.prefix, i), Index: true})
		})
	}
}

func (m *model) diff(t *rapid.T, q table.Query) string {
	got, _, err := table.Collect(m.Query(t.Context(), q), 0)
	require.NoErrorf(t, err, "Query(%+v)", q)
	want, _, err := table.Collect(m.want.Query(t.Context(), q), 0)
	require.NoErrorf(t, err, "Query(%+v) of the reference", q)
	if q.Index { // DynamoDB does not order items with the same sort key of the index
		sortByKey(got)
		sortByKey(want)
	}
	return diffItems(got, want)
}

package sim

import (
	"slices"
	"strings"
	"time"

	"fanfare/internal/table"
)

// A throttle hits one partition, or one side of all partitions: the side of the table or the side of the
// index. Each side has separate capacities for reads and writes.

// side is a part of the table with a separate capacity.
type side string

const (
	sideTable  side = "table"
	sideIndex  side = "index"
	sideReads  side = "reads"
	sideWrites side = "writes"
)

// stretch is a number of steps, or a time, in which the table has no capacity for one partition or for all
// partitions.
type stretch struct {
	pk    string    // "" means all of a side
	side  side      // "" means both sides
	only  side      // reads or writes, "" means both
	until int       // step
	hot   time.Time // the end of the time for which a partition is full
}

func (s stretch) over(step int) bool {
	if s.hot.IsZero() {
		return s.until < step
	}
	return !time.Now().Before(s.hot)
}

func (s stretch) covers(pk string) bool {
	if s.pk != "" {
		return s.pk == pk
	}
	return s.side == "" || s.side == sideOf(pk)
}

// refuses reports whether there is no capacity for the reads or writes of a partition.
func (s stretch) refuses(of side, pk string) bool {
	return (s.only == "" || s.only == of) && s.covers(pk)
}

// sideOf returns the side of a partition.
func sideOf(pk string) side {
	if strings.HasPrefix(pk, indexPartition("")) {
		return sideIndex
	}
	return sideTable
}

// short reports whether the table has no capacity for writes to a partition.
func (w *World) short(pk string) bool { return w.refuses(sideWrites, pk) }

func (w *World) refuses(of side, pk string) bool {
	return slices.ContainsFunc(w.tight, func(s stretch) bool { return s.refuses(of, pk) })
}

// shortOf returns the fault that leaves no capacity for a call, "" if the table has capacity.
func (w *World) shortOf(c *call) (kind string) {
	for _, s := range w.tight {
		if !slices.ContainsFunc(c.pks, func(pk string) bool { return s.refuses(c.uses(), pk) }) {
			continue
		}
		if s.hot.IsZero() {
			return FaultThrottle
		}
		kind = FaultHot
	}
	return kind
}

// indexPartition returns the name of a partition of the index.
func indexPartition(pk string) string { return "index " + pk }

// sides adds to a call's partitions the partitions of the index that its writes change, according to the
// stored items. A full partition of the index refuses the write.
func (w *World) sides(c *call) {
	if c.writes() {
		c.pks = nil
	}
	switch in := c.in.(type) {
	case table.PutInput:
		c.pks = w.sidesOf(table.TransactOp{Put: &in})
	case table.UpdateInput:
		c.pks = w.sidesOf(table.TransactOp{Update: &in})
	case table.DeleteInput:
		c.pks = w.sidesOf(table.TransactOp{Delete: &in})
	case []table.BatchWrite:
		for _, wr := range in {
			c.pks = append(c.pks, w.sidesOf(opOfWrite(wr))...)
		}
	}
	for _, op := range c.ops {
		c.pks = append(c.pks, w.sidesOf(op)...)
	}
}

// sidesOf returns the partitions of the table and of its index that an operation writes.
func (w *World) sidesOf(op table.TransactOp) []string {
	pks := []string{op.Key().PK}
	states := []*table.Item{w.items[op.Key()]}
	switch {
	case op.Check != nil:
		return pks
	case op.Put != nil:
		states = append(states, &op.Put.Item)
	case op.Update != nil:
		states = append(states, &table.Item{Attrs: op.Update.Set})
	}
	for _, it := range states {
		if !table.InIndex(it) {
			continue
		}
		if side := indexPartition(it.Str(table.AttrGSI1PK)); !slices.Contains(pks, side) {
			pks = append(pks, side)
		}
	}
	return pks
}

func opOfWrite(wr table.BatchWrite) table.TransactOp {
	if wr.Put != nil {
		return table.TransactOp{Put: &table.PutInput{Item: *wr.Put}}
	}
	return table.TransactOp{Delete: &table.DeleteInput{Key: wr.Delete}}
}

// sawSides records a call that is refused only because of one side, or that takes effect although
// another side of its partitions refuses calls.
func (w *World) sawSides(c *call, refused bool) {
	if len(c.pks) == 0 || len(w.tight) == 0 {
		return
	}
	e := event{kind: eventSide, class: string(c.uses()), refused: refused, spared: !refused && slices.ContainsFunc(c.pks, func(pk string) bool { return w.refuses(c.other(), pk) })}
	full := map[side]int{}
	for _, pk := range c.pks {
		if w.refuses(c.uses(), pk) {
			full[sideOf(pk)]++
		}
	}
	e.index = full[sideIndex] > 0 && full[sideTable] == 0
	e.part = full[sideTable] > 0 && full[sideTable]+full[sideIndex] < len(c.pks)
	if e.index && !slices.ContainsFunc(c.pks, func(pk string) bool { return sideOf(pk) == sideTable }) { // a query of the index
		e.index = !slices.ContainsFunc(w.tight, func(s stretch) bool { return s.pk == "" && s.side != sideIndex })
	}
	if refused && e.index {
		w.Fired[map[side]string{sideReads: FaultIndexRead, sideWrites: FaultSide}[c.uses()]]++
	}
	w.see(e)
}

// sideOfCall recognises the rare states of a throttle of one side.
func (r *reach) sideOfCall(e event) {
	writes := e.class == string(sideWrites)
	r.when(e.refused && e.index && writes, "a write is refused for the index alone")
	r.when(e.refused && e.index && !writes, "a read of the index is refused, and the table serves")
	r.when(e.refused && e.part, "a batch is refused for one of its partitions")
	r.when(e.spared && writes, "a partition that refuses reads takes a write")
	r.when(e.spared && !writes, "a partition that refuses writes serves a read")
}

// writes reports whether a call of the table writes.
func (c *call) writes() bool {
	_, reads := c.in.(table.BatchGetInput) // a BatchGet sets in for the notifications that it finds
	return c.in != nil && !reads || len(c.ops) > 0
}

// uses returns the capacity that a call needs, and other returns the capacity that the call does
// not need.
func (c *call) uses() side {
	if c.writes() {
		return sideWrites
	}
	return sideReads
}

func (c *call) other() side {
	if c.writes() {
		return sideReads
	}
	return sideWrites
}

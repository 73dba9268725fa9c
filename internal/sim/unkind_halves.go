package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Batches and pages are no snapshot: some are read or written at two moments.

// cut returns the number of the n items that a read finds now, 0 for all items. The read finds the
// rest later.
func (w *World) cut(c *call, n int) int {
	if n < 2 || !w.strikes(FaultSplit, w.faults.Split) {
		return 0
	}
	c.whole = w.steps + 1 + w.rng.IntN(mostParts)
	w.shadows.halves = append(w.shadows.halves, half{call: c, at: time.Now()})
	return 1 + w.rng.IntN(n-1)
}

// restOf sets the read of the rest of a batch or page.
func (w *World) restOf(c *call, at sight, read func() error) {
	began := w.shadows.changes
	c.rest = func() error {
		moved := slices.ContainsFunc(w.shadows.table.log, func(ch change) bool { return ch.n > began && at.has(ch.key, ch.former) })
		w.see(event{kind: eventRest, moved: moved})
		if at.has(schema.ProfileKey(leaver), nil) {
			w.sawRead(c)
		}
		return read()
	}
}

// halve returns the writes of a batch that happen now, in a drawn order. The rest of some batches happens
// later, even if the caller has given up.
func (w *World) halve(c *call, writes []table.BatchWrite, write func([]table.BatchWrite) error) []table.BatchWrite {
	if len(writes) < 2 || !w.strikes(FaultHalf, w.faults.Halve) {
		return writes
	}
	writes = shuffled(w, writes)
	n := 1 + w.rng.IntN(len(writes)-1)
	keys := make([]table.Key, len(writes))
	for i, wr := range writes {
		keys[i] = wr.Key()
	}
	c.whole = w.steps + 1 + w.rng.IntN(mostParts)
	c.rest = func() error {
		w.acting = c
		defer func() { w.acting = nil }()
		return write(writes[n:])
	}
	w.shadows.halves = append(w.shadows.halves, half{c, time.Now(), keys[:n], keys[n:]})
	return writes[:n]
}

// sortKey returns the key by which a query sorts an item.
func sortKey(q table.Query, it table.Item) string {
	if q.Index {
		return it.Str(table.AttrGSI1SK)
	}
	return it.Key.SK
}

// page reads the first page of a query. A page is no snapshot: some calls read the end of the page
// later.
func (s store) page(ctx context.Context, q table.Query) (table.Page, error) {
	c := &call{kind: "table.query", class: class("query", q.PK), about: q.PK + q.After, pks: []string{q.PK}, label: label("query", q)}
	if q.Index {
		c.pks[0] = indexPartition(q.PK)
	}
	var page table.Page // a call whose answer is lost may still have its effect after the error
	_, err := call1(ctx, s, c, func(float64) (done struct{}, err error) {
		if page, err = s.read(c, q); err != nil || q.EndsOnly || len(page.Items) > 0 && sortKey(q, page.Items[0]) == "" {
			return done, err
		}
		if n := s.p.w.cut(c, len(page.Items)); n > 0 {
			first, rest := page.Items[:n:n], q
			rest.After = sortKey(q, first[n-1])
			if q.PageSize > 0 {
				rest.PageSize = q.PageSize - n
			}
			s.p.w.restOf(c, s.p.w.sightOf(rest), func() error {
				more, err := s.read(c, rest)
				page = table.Page{Items: append(first, more.Items...), More: more.More, Units: page.Units}
				return err
			})
		}
		return done, nil
	})
	if err != nil {
		return table.Page{}, err
	}
	return page, nil
}

// read reads the first page of a query at one moment.
func (s store) read(c *call, q table.Query) (table.Page, error) {
	page, err := readAs(s.p.w, s.p.w.sightOf(q), func(m table.Store) (table.Page, error) {
		s.p.w.sawNoticeQuery(c, q, s.p.w.engine.under(m))
		for page, err := range m.Query(context.Background(), q) {
			return page, err
		}
		return table.Page{}, nil
	})
	if strings.HasPrefix(q.PK, "made#") {
		page.Items = slices.DeleteFunc(slices.Clone(page.Items), s.p.w.liveStorm.hides)
	}
	s.p.w.outlived(s.p, page.Items...)
	return page, err
}

// Scan is no snapshot: some calls read the end of a page later.
func (s store) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	c := &call{kind: "table.scan", class: class("scan", in.After.PK), about: in.After.PK + in.After.SK, pks: []string{in.After.PK}, label: label("scan", in)}
	var page table.ScanPage
	_, err := call1(ctx, s, c, func(float64) (done struct{}, err error) {
		if page, err = s.scan(in); err != nil {
			return done, err
		}
		if n := s.p.w.cut(c, len(page.Items)); n > 0 {
			first, rest := page.Items[:n:n], in
			rest.After = first[n-1].Key
			rest.PageSize = max(0, in.PageSize-n)
			s.p.w.restOf(c, sightOfScan(rest.After), func() error {
				more, err := s.scan(rest)
				page = table.ScanPage{Items: append(first, more.Items...), Next: more.Next, Units: page.Units}
				return err
			})
		}
		return done, nil
	})
	if err != nil {
		return table.ScanPage{}, err
	}
	return page, nil
}

// scan reads a page of a scan at one moment.
func (s store) scan(in table.ScanInput) (table.ScanPage, error) {
	page, err := readAs(s.p.w, sightOfScan(in.After), func(m table.Store) (table.ScanPage, error) { return m.Scan(context.Background(), in) })
	s.p.w.outlived(s.p, page.Items...)
	return page, err
}

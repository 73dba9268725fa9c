package dynamo

import (
	"context"
	"errors"
	"fmt"

	"fanfare/internal/table"
)

// format is the format of the table's items. This version writes and reads only this format.
// Development versions before v0.1.0 wrote no format into their tables. From v0.1.0 on, each
// format stays readable.
const format = 1

// attrFormat is the attribute of the item that holds the format.
const attrFormat = "format"

// formatKey returns the key of the item that has the table's format. This item is written before all other items.
func formatKey() table.Key { return table.Key{PK: "format", SK: "format"} }

// FormatError means that this version cannot read the table's items.
type FormatError struct {
	Table string
	// Found is the format of the items, 0 if the table has none.
	Found int64
}

func (e *FormatError) Error() string {
	if e.Found > format {
		return fmt.Sprintf("table: %q has format %d, but this version of fanfare reads formats up to %d: use a newer fanfare", e.Table, e.Found, format)
	}
	return fmt.Sprintf("table: %q has no format: fanfare table create gives one to a new table; if a development version before v0.1.0 wrote this one, choose another FANFARE_TABLE", e.Table)
}

// Ping returns nil if the table answers and has this version's format. It reads one item, which
// costs half a read unit, and needs only the permissions of normal work.
func (s *Store) Ping(ctx context.Context) error {
	for _, consistent := range []bool{false, true} { // a stale read may miss a new format
		res, err := s.Get(ctx, table.GetInput{Key: formatKey(), Consistent: consistent})
		switch {
		case err != nil:
			return err
		case res.Item == nil:
		case res.Item.Int(attrFormat) == format:
			return nil
		default:
			return &FormatError{s.name, res.Item.Int(attrFormat)}
		}
	}
	return &FormatError{Table: s.name}
}

// mark writes the format into a table without items. It returns a FormatError if the table has
// items and another format, or no format.
func (s *Store) mark(ctx context.Context) error {
	page, err := s.Scan(ctx, table.ScanInput{PageSize: 1})
	if err != nil {
		return err
	}
	if len(page.Items) == 0 && page.Next == (table.Key{}) {
		it := table.Item{Key: formatKey(), Attrs: []table.Attr{{Name: attrFormat, Value: table.N(format)}}}
		_, err := s.Put(ctx, table.PutInput{Item: it, If: table.Absent{}})
		if _, there := errors.AsType[*table.ConditionError](err); err != nil && !there {
			return err
		}
	}
	return s.Ping(ctx)
}

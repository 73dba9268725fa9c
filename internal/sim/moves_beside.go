package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fanfare/internal/ops/transfer"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// checkImportOfBeside imports the export beside traffic into an empty table, which an import must accept.
func (m *moves) checkImportOfBeside(ctx context.Context) {
	if !m.exporter.done {
		return
	}
	file := filepath.Join(m.dir, "beside.jsonl")
	if err := os.WriteFile(file, m.exported.out.Bytes(), 0o600); err != nil {
		m.w.load.fail("oracle", "%v", err)
		return
	}
	_, err := transfer.Import(ctx, m.w.transfers(tabletest.NewMemory(), time.Now), []string{file})
	if invalid, ok := errors.AsType[*transfer.InvalidError](err); ok {
		m.w.load.fail("I5", "an import refuses an export beside traffic: %s", strings.ReplaceAll(strings.Join(invalid.Faults, "; "), m.dir, ""))
	} else if err != nil {
		m.w.load.fail("I5", "an import of an export beside traffic fails: %s", strings.ReplaceAll(err.Error(), m.dir, ""))
	}
}

func (m *moves) exportOf(ctx context.Context, store table.Store) string {
	var out bytes.Buffer
	if err := transfer.Export(ctx, m.w.transfers(store, time.Now), &out); err != nil {
		m.w.load.fail("I5", "an export of a quiet table fails: %v", err)
	}
	return out.String()
}

// firstDifference returns the first pair of different lines of two texts.
func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("%q and %q", as[i], bs[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(as), len(bs))
}

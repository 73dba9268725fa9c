package transfer

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of records into docs/IMPORT.md")

// docs/IMPORT.md has the fields of each kind of record, from the table that the reader of lines uses.
func TestThePageHasTheFieldsOfEachKind(t *testing.T) {
	t.Parallel()
	const (
		page  = "../../../docs/IMPORT.md"
		begin = "<!-- records: go test ./internal/ops/transfer -run ThePage -update -->\n"
		end   = "<!-- end of the records -->\n"
	)
	var rows strings.Builder
	rows.WriteString("| `type` | required | optional |\n|---|---|---|\n")
	for _, k := range kinds {
		optional := "-"
		if len(k.optional) > 0 {
			optional = "`" + strings.Join(k.optional, "`, `") + "`"
		}
		fmt.Fprintf(&rows, "| `%s` | `%s` | %s |\n", k.name, strings.Join(k.required, "`, `"), optional)
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, "the page has the two marks")
	want := before + begin + rows.String() + end + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
		return
	}
	assert.Equal(t, want, string(text), "go test ./internal/ops/transfer -run ThePage -update")
	for _, k := range kinds {
		for _, name := range append(k.required, k.optional...) {
			assert.Contains(t, fields, name, "a field of a %s is a field of record", k.name)
		}
	}
}

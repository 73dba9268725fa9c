package disktest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// Change is one kind of damage of a file.
type Change struct {
	Name string
	// Apply returns the contents of the damaged file, one for each place of the damage; nil stands for no file. older is an older
	// content of the file, or the content of an older file of the same kind.
	Apply func(data, older []byte) [][]byte
}

// places is the number of bytes that a change flips, one after the other.
const places = 16

// Changes returns all kinds of damage, in the order of the table in docs/OUTAGES.md.
func Changes() []Change {
	flips := func(data []byte, from int) (damaged [][]byte) {
		for at := max(0, from); at < min(len(data), from+places); at++ {
			flipped := slices.Clone(data)
			flipped[at] ^= 1 << (at % 8)
			damaged = append(damaged, flipped)
		}
		return damaged
	}
	return []Change{
		{"head", func(data, _ []byte) [][]byte { return flips(data, 0) }},
		{"middle", func(data, _ []byte) [][]byte { return flips(data, len(data)/2) }},
		{"end", func(data, _ []byte) [][]byte { return flips(data, max(0, len(data)-places)) }},
		{"absent", func(_, _ []byte) [][]byte { return [][]byte{nil} }},
		{"cut", func(data, _ []byte) [][]byte {
			return [][]byte{{}, data[:len(data)/2], data[:max(0, len(data)-1)]}
		}},
		{"an older one", func(_, older []byte) [][]byte { return [][]byte{older} }},
	}
}

// The outcomes of a start with a damaged file. Any other outcome fails the test.
const (
	// Named means that the start is refused, with the file and the way out.
	Named = "named"
	// Reported means that the start succeeds, and that each read of the damaged data returns an error.
	Reported = "reported"
	// Harmless means that the start succeeds, and that each answered write is there.
	Harmless = "harmless"
	// LastWrites means that a damaged end looks like a power cut: only the last writes are missing.
	LastWrites = "last writes"
)

// Kind is a kind of file, for one row of the table.
type Kind struct {
	Name string
	// File returns the path of a file of this kind, and the content that the row calls an older one.
	File  string
	Older []byte
	// Why is the reason for the outcomes that are not Named. Refused is the reason if all are Named; it may be empty.
	Why, Refused string
}

// DamageTable damages a file of each kind in each way, in a copy of the directory dir of its own, and returns a Markdown table of
// the outcomes, and the number of its cells. check starts with the copy and returns the outcome; it fails the test for a loss.
func DamageTable(t *testing.T, clean vfs.FS, dir string, kinds []Kind, check func(t *testing.T, damaged vfs.FS, what string) string) (table string, cells int) {
	t.Helper()
	var text strings.Builder
	text.WriteString("| file |")
	for _, c := range Changes() {
		text.WriteString(" " + c.Name + " |")
	}
	text.WriteString(" reason |\n|" + strings.Repeat("---|", len(Changes())+2) + "\n")
	for _, kind := range kinds {
		data := readAll(t, clean, kind.File)
		text.WriteString("| " + kind.Name + " |")
		reason := kind.Refused
		for _, c := range Changes() {
			outcomes := map[string]bool{}
			for i, damaged := range c.Apply(data, kind.Older) {
				copied := vfs.NewMem()
				_, err := vfs.Clone(clean, copied, dir, dir)
				require.NoError(t, err)
				if damaged == nil {
					require.NoError(t, copied.Remove(kind.File))
				} else {
					Write(t, copied, kind.File, damaged)
				}
				outcomes[check(t, copied, fmt.Sprintf("%s, %s %d", kind.File, c.Name, i))] = true
			}
			if len(data) == 0 && c.Name != "absent" {
				outcomes = map[string]bool{"–": true} // an empty file has no such damage
			} else {
				cells++
			}
			text.WriteString(" " + strings.Join(slices.Sorted(maps.Keys(outcomes)), ", ") + " |")
			if !outcomes[Named] || len(outcomes) > 1 {
				reason = kind.Why
			}
		}
		text.WriteString(" " + reason + " |\n")
	}
	return text.String(), cells
}

// Paste compares the text between two marks of a page with text. If update is set, it writes the text there.
func Paste(t *testing.T, page, name, text string, update bool) {
	t.Helper()
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	head, rest, found := strings.Cut(string(content), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		require.NoError(t, errors.New(page+" has no marks of "+name))
	}
	whole := head + begin + text + end + tail
	if update {
		require.NoError(t, os.WriteFile(page, []byte(whole), 0o600))
		return
	}
	require.Equal(t, whole, string(content), "write it with -update")
}

package archive_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
)

// What becomes of a damaged object of an archive.
const (
	// named: verify names the object, and shows the times that are left.
	named = "named by archive verify, with the times that are left"
	// unseen: nothing in the archive shows it. A restore begins with another base, or ends earlier.
	unseen = "unseen: another base begins the restore, or it ends earlier; --data-dir shows a missing end"
)

// Each kind of object, damaged in each way. docs/OUTAGES.md has this table.
func TestEachDamageOfAnArchiveIsNamedOrHarmless(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		for range 2 {
			o.write(20)
			sleep(25 * time.Hour)
		}
		o.stop()
		all := bases(t, o.archive)
		require.GreaterOrEqual(t, len(all), 2)
		old, last := all[len(all)-2], all[len(all)-1]
		segments := names(t, store, "t/0000000000000001/s/")
		for kind, c := range map[string]struct {
			name, older string // the object, and an older one of its kind
			absent      string
		}{
			"base list":    {archive.BaseName(last.Term, last.First), archive.BaseName(old.Term, old.First), unseen},
			"file":         {archive.FileName(last.Files[0].SHA256), archive.FileName(last.Files[1].SHA256), named},
			"segment":      {segmentName(last.Term, last.First), segmentName(last.Term, last.First-1), named},
			"last segment": {segments[len(segments)-1], segments[len(segments)-2], unseen},
			"term":         {"t/0000000000000001/term.json", archive.BaseName(old.Term, old.First), named},
		} {
			whole, err := objects.Read(t.Context(), store, c.name, 1<<20)
			require.NoError(t, err)
			older, err := objects.Read(t.Context(), store, c.older, 1<<20)
			require.NoError(t, err)
			flipped := func(at int) []byte {
				data := bytes.Clone(whole)
				data[at] ^= 1
				return data
			}
			for damage, d := range map[string]struct {
				data []byte
				want string
			}{
				"head": {flipped(0), named}, "middle": {flipped(len(whole) / 2), named}, "end": {flipped(len(whole) - 1), named},
				"absent": {nil, c.absent}, "cut": {whole[:len(whole)*2/3], named}, "swapped with an older one": {older, named},
			} {
				require.NoError(t, store.Delete(t.Context(), c.name))
				if d.data != nil {
					require.NoError(t, store.Create(t.Context(), c.name, objects.Bytes(d.data)))
				}
				found, err := o.archive.Verify(t.Context(), func(int64, int64) {})
				require.NoError(t, err)
				got := unseen
				for _, f := range found.Faults {
					if f.Object == c.name || strings.Contains(f.Fault, c.name) {
						got = named
					}
				}
				assert.Equalf(t, d.want, got, "%s, %s: %v", kind, damage, found.Faults)
				if damage == "end" && strings.HasSuffix(kind, "segment") { // its header is sound
					assert.NotEmpty(t, found.Lines, kind)
				}
				require.NoError(t, store.Delete(t.Context(), c.name))
				require.NoError(t, store.Create(t.Context(), c.name, objects.Bytes(whole)))
			}
		}
	})
}

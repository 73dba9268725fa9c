package embedded

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/table"
)

// Whatever file is damaged, one of three things happens: Open refuses the directory, or a read
// reports the damage, or the answers are right. The exception is the end of the log, which a
// power cut may also damage.
func TestDamagedFilesAreNeverServed(t *testing.T) {
	t.Parallel()
	const items = 60
	fs, killed := vfs.NewMem(), vfs.NewMem()
	s := open(t, "data", Options{FS: fs, SweepEvery: -1})
	value := func(i int) string { return strings.Repeat(fmt.Sprint(i, " "), 1200) }
	for i := range items {
		it := numbered(fmt.Sprintf("p%03d", i), int64(i))
		it.Attrs = append(it.Attrs, table.Attr{Name: "text", Value: table.S(value(i))})
		_, err := s.Put(t.Context(), table.PutInput{Item: it})
		require.NoError(t, err)
		if i == items/2 {
			require.NoError(t, s.db.Flush())
		}
	}
	_, err := vfs.Clone(fs, killed, "data", "data")
	require.NoError(t, err)
	disktest.EachDamage(t, killed, "data", func(damaged vfs.FS, damage disktest.Damage) string {
		s, err := Open("data", Options{FS: damaged, SweepEvery: -1, MemoryBytes: 1 << 20})
		if err != nil {
			return "refused"
		}
		lost, reported := []int{}, false
		for i := range items {
			res, err := s.Get(t.Context(), table.GetInput{Key: table.Key{PK: fmt.Sprintf("p%03d", i), SK: "s"}})
			switch {
			case errors.Is(err, disk.ErrDamaged):
				reported = true
			case err != nil:
				t.Errorf("%+v: item %d: %v", damage, i, err)
			case res.Item == nil:
				lost = append(lost, i)
			case res.Item.Int("n") != int64(i) || res.Item.Str("text") != value(i):
				t.Errorf("%+v: item %d was served as %v", damage, i, res.Item)
			}
		}
		// A walk ends: with each item that is there, or with the damage.
		walked := 0
		for in := (table.ScanInput{PageSize: 7}); ; {
			var page table.ScanPage
			if page, err = s.Scan(t.Context(), in); err != nil {
				break
			}
			walked += len(page.Items)
			if in.After = page.Next; page.Next == (table.Key{}) || walked > items {
				break
			}
		}
		switch {
		case errors.Is(err, disk.ErrDamaged):
			reported = true
		case err != nil || walked != items-len(lost):
			t.Errorf("%+v: a walk has %d items of %d: %v", damage, walked, items-len(lost), err)
		}
		// A damaged end of the log may lose only the last writes.
		if len(lost) > 0 && !reported && (!damage.LooksTorn() || lost[0] != items-len(lost)) {
			t.Errorf("%+v: items %v are lost and nothing says so", damage, lost)
		}
		if err := s.Close(); err != nil && !reported {
			t.Errorf("%+v: Close: %v", damage, err)
		}
		return map[bool]string{true: "reported", false: "harmless"}[reported]
	})
}

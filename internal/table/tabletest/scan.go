package tabletest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

func scanTests() []test {
	return []test{
		{"WalksOverEachItemOnce", func(t *testing.T, s *suite) {
			pk := s.partition()
			var want []table.Item
			for i := range 60 {
				key := table.Key{PK: pk, SK: fmt.Sprintf("%02d", i)}
				if i%3 == 0 {
					key.PK = fmt.Sprintf("%s#%d", pk, i)
				}
				want = append(want, item(key, num("i", int64(i)), str("s", "x")))
			}
			s.putAll(t, want...)
			mine := map[table.Key]bool{}
			for _, it := range want {
				mine[it.Key] = true
			}
			eventually(t, func() string { return diffItems(s.scanned(t, mine), sortByKey(want)) })
		}},
		{"PagesAreNoLargerThanAskedAndGoOnBehindWhatIsGone", func(t *testing.T, s *suite) {
			pk := s.partition()
			s.putAll(t, letters(pk, "abcde")...)
			first, err := s.Scan(t.Context(), table.ScanInput{PageSize: 2})
			require.NoError(t, err)
			assert.LessOrEqual(t, len(first.Items), 2)
			assert.Positive(t, first.Units.Read)
			require.NotEqual(t, table.Key{}, first.Next, "there are more than two items")
			at := table.Key{PK: pk, SK: "b"}
			_, err = s.Delete(t.Context(), table.DeleteInput{Key: at})
			require.NoError(t, err)
			eventually(t, func() string {
				rest, err := s.Scan(t.Context(), table.ScanInput{After: at, PageSize: 3})
				require.NoError(t, err)
				return diffItems(rest.Items, letters(pk, "cde"))
			})
		}},
		{"CutsALargeTableIntoPages", func(t *testing.T, s *suite) {
			pk := s.partition()
			want := []table.Item{
				sized(table.Key{PK: pk, SK: "a"}, 390*1024), sized(table.Key{PK: pk, SK: "b"}, 390*1024),
				sized(table.Key{PK: pk, SK: "c"}, 390*1024), sized(table.Key{PK: pk, SK: "d"}, 390*1024),
			}
			s.putAll(t, want...)
			eventually(t, func() string {
				page, err := s.Scan(t.Context(), table.ScanInput{After: table.Key{PK: pk, SK: "Z"}})
				require.NoError(t, err)
				assert.Less(t, len(page.Items), 4, "a page of 1 MB")
				assert.NotEqual(t, table.Key{}, page.Next)
				return diffItems(page.Items, want[:len(page.Items)])
			})
		}},
	}
}

// scanned walks over the whole table and returns the items with the wanted keys, in the order of the keys.
func (s *suite) scanned(t *testing.T, wanted map[table.Key]bool) []table.Item {
	t.Helper()
	var got []table.Item
	var after table.Key
	for {
		page, err := s.Scan(t.Context(), table.ScanInput{After: after})
		require.NoError(t, err)
		for _, it := range page.Items {
			if wanted[it.Key] {
				got = append(got, it)
			}
		}
		if page.Next == (table.Key{}) {
			return sortByKey(got)
		}
		require.NotEqual(t, after, page.Next, "the walk stands still")
		after = page.Next
	}
}

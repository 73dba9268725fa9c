package embedded

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/table"
)

// trickyText generates texts with bytes that an order-preserving encoding may handle wrongly.
var trickyText = rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 2, 'a', 'b', '#', 'é', '\uffff', '👩'}), 1, 6, -1)

var trickyKey = rapid.Custom(func(t *rapid.T) table.Key {
	return table.Key{PK: trickyText.Draw(t, "pk"), SK: trickyText.Draw(t, "sk")}
})

func TestKeysComeBackAndKeepTheOrderOfSortKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := trickyKey.Draw(t, "a"), trickyKey.Draw(t, "b")
		encoded := appendKey(nil, a)
		require.Len(t, encoded, keyLen(a))
		if got, err := parseKey(encoded); err != nil || got != a {
			t.Fatalf("parseKey = %q, %v, want %q", got, err, a)
		}
		b.PK = a.PK
		require.Equalf(t, cmp.Compare(a.SK, b.SK), bytes.Compare(encoded, appendKey(nil, b)),
			"%q and %q are in another order than their sort keys", a, b)
	})
}

func TestIndexKeysComeBackAndKeepTheOrderOfSortKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pk, a, b := trickyText.Draw(t, "index pk"), trickyText.Draw(t, "a"), trickyText.Draw(t, "b")
		ka, kb := trickyKey.Draw(t, "key a"), trickyKey.Draw(t, "key b")
		encoded := indexKey(pk, a, ka)
		if gotPK, gotSK, got, err := parseIndexKey(encoded); err != nil || gotPK != pk || gotSK != a || got != ka {
			t.Fatalf("parseIndexKey = %q, %q, %q, %v", gotPK, gotSK, got, err)
		}
		if a != b && bytes.Compare(encoded, indexKey(pk, b, kb)) != cmp.Compare(a, b) {
			t.Fatalf("%q and %q are in another order", a, b)
		}
	})
}

func TestBoundsHoldExactlyTheRange(t *testing.T) {
	t.Parallel()
	optional := rapid.OneOf(rapid.Just(""), trickyText)
	rapid.Check(t, func(t *rapid.T) {
		q := table.Query{
			PK: trickyText.Draw(t, "pk"), Index: rapid.Bool().Draw(t, "index"),
			Low: optional.Draw(t, "low"), High: optional.Draw(t, "high"), After: optional.Draw(t, "after"),
			Descending: rapid.Bool().Draw(t, "descending"),
		}
		k := table.Key{PK: q.PK, SK: trickyText.Draw(t, "sk")}
		if rapid.Bool().Draw(t, "other partition") {
			k.PK = trickyText.Draw(t, "other pk")
		}
		encoded := appendKey(nil, k)
		if q.Index {
			encoded = indexKey(k.PK, k.SK, trickyKey.Draw(t, "item"))
		}
		want := k.PK == q.PK && k.SK >= q.Low && (q.High == "" || k.SK <= q.High)
		if q.After != "" && ((q.Descending && k.SK >= q.After) || (!q.Descending && k.SK <= q.After)) {
			want = false
		}
		lower, upper := bounds(q)
		got := bytes.Compare(encoded, lower) >= 0 && bytes.Compare(encoded, upper) < 0
		require.Equalf(t, want, got, "%+v: key %q inside", q, k)
	})
}

func TestAValueOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	attrs := []table.Attr{{Name: "a", Value: table.N(1)}}
	value := appendValue(nil, attrs)
	got, err := decodeAttrs(string(value))
	require.NoError(t, err)
	require.Equal(t, attrs, got)
	for end := range value {
		_, err := decodeAttrs(string(value[:end]))
		require.ErrorIs(t, err, errCorrupt, end)
	}
	value[len(value)-2] = 'x' // the kind of the value
	for _, value := range [][]byte{value, value[:len(value)-1]} {
		_, err := decodeAttrs(string(value))
		require.ErrorIs(t, err, errCorrupt)
		_, err = sizeOf(1, value)
		require.ErrorIs(t, err, errCorrupt)
	}
}

func FuzzDecodeValueNeverPanics(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{valueVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add(appendValue(nil, []table.Attr{{Name: "a", Value: table.S("text")}, {Name: "ttl", Value: table.N(-1 << 63)}}))
	f.Fuzz(func(t *testing.T, value []byte) {
		attrs, err := decodeAttrs(string(value))
		size, serr := sizeOf(2, value)
		require.Equalf(t, serr == nil, err == nil, "decodeAttrs: %v, sizeOf: %v", err, serr)
		_, _ = ttlOf(value) // ttlOf must not panic
		if err != nil {
			return
		}
		it := table.Item{Key: table.Key{PK: "p", SK: "s"}, Attrs: attrs}
		assert.Equal(t, table.Size(it), size)
		var names []string
		for _, a := range attrs {
			names = append(names, a.Name)
		}
		projected, _, err := appendProjected(attrs[:0:0], 2, value, names)
		require.NoError(t, err)
		assert.Equal(t, attrs, projected, "projected")
		back, err := decodeAttrs(string(appendValue(nil, attrs)))
		if err != nil || !slices.Equal(back, attrs) {
			t.Errorf("encoded and decoded again: %v, %v, want %v", back, err, attrs)
		}
	})
}

func FuzzParseKeysNeverPanics(f *testing.F) {
	f.Add(appendKey(nil, table.Key{PK: "p", SK: "s"}))
	f.Add(indexKey("g", "\x00", table.Key{PK: "p", SK: "s"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if k, err := parseKey(raw); err == nil && !bytes.Equal(appendKey(nil, k), raw) {
			t.Errorf("key %q was read from %q", k, raw)
		}
		if pk, sk, k, err := parseIndexKey(raw); err == nil && !bytes.Equal(indexKey(pk, sk, k), raw) {
			t.Errorf("hint %q %q %q was read from %q", pk, sk, k, raw)
		}
	})
}

func TestValuesComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		attrs := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) table.Attr {
			name := trickyText.Draw(t, "name")
			if rapid.Bool().Draw(t, "number") {
				return table.Attr{Name: name, Value: table.N(rapid.Int64().Draw(t, "n"))}
			}
			return table.Attr{Name: name, Value: table.S(rapid.String().Draw(t, "s"))}
		}), 0, 5, func(a table.Attr) string { return a.Name }).Draw(t, "attrs")
		value := appendValue(nil, attrs)
		require.Len(t, value, valueLen(attrs))
		got, err := decodeAttrs(string(value))
		if err != nil || !slices.Equal(got, attrs) {
			t.Fatalf("decodeAttrs = %v, %v, want %v", got, err, attrs)
		}
		if len(attrs) > 0 {
			one := rapid.SampledFrom(attrs).Draw(t, "one")
			got, _, err := appendProjected(nil, 0, value, []string{one.Name})
			require.NoError(t, err)
			require.Equal(t, []table.Attr{one}, got)
		}
		if size, err := sizeOf(5, value); err != nil || size != table.Size(table.Item{Key: table.Key{PK: "pk", SK: "sk1"}, Attrs: attrs}) {
			t.Fatalf("sizeOf = %d, %v", size, err)
		}
	})
}

// TestStoredFormatStays fails if the format on disk changes, because a change needs a new version.
func TestStoredFormatStays(t *testing.T) {
	t.Parallel()
	key := table.Key{PK: "u#a", SK: "p#\x00"}
	for _, tt := range []struct{ what, got, want string }{
		{"format", string(format().Key), "mformat"},
		{"item", string(appendKey(nil, key)), "i\x00\x03u#ap#\x00"},
		{"hint", string(indexKey("g", "h\x00", key)), "x\x00\x01gh\x00\xff\x00\x01\x00\x03u#ap#\x00"},
		{"value", string(appendValue(nil, []table.Attr{{Name: "s", Value: table.S("é")}, {Name: "ttl", Value: table.N(-300)}})),
			"\x01\x02\x01s\x01\x02é\x03ttl\x02\xd7\x04"},
		{"long name", string(appendPartition(nil, kindItem, strings.Repeat("a", 600))[:4]), "i\x02\x58a"},
	} {
		assert.Equal(t, tt.want, tt.got, tt.what)
	}
}

package terminal

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTextStaysInItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain text": "plain text", "Zoë, \u6771\u4eac 😀": "Zoë, \u6771\u4eac 😀", `a "b" \ c`: `a "b" \ c`,
		"\x1b[2J\x1b]0;title\a": `"\x1b[2J\x1b]0;title\a"`, "a\u202eb": `"a\u202eb"`, "a\u2066b\u2069": `"a\u2066b\u2069"`, "a\nok  all is well": `"a\nok  all is well"`, "a\rb": `"a\rb"`,
		"a\u009b2J": `"a\u009b2J"`, "a\x7f": `"a\x7f"`, "\xff": `"\xff"`, "a\u200bb": `"a\u200bb"`, "a\u2028b": `"a\u2028b"`, "\ufeff": `"\ufeff"`, "a\u00a0b": `"a\u00a0b"`, "\U000e0041": `"\U000e0041"`,
	} {
		assert.Equalf(t, want, Text(text, 40), "%q", text)
	}
	assert.Equal(t, strings.Repeat("x", 39)+"…", Text(strings.Repeat("x", 1<<20), 40))
	assert.Equal(t, strings.Repeat("\u6771", 19)+"…", Text(strings.Repeat("\u6771", 1<<20), 40))
	assert.Equal(t, strings.Repeat("\u6771", 20), Text(strings.Repeat("\u6771", 20), 40), "it fits")
	assert.Equal(t, `"`+strings.Repeat(`\x1b`, 9)+`\x…`, Text(strings.Repeat("\x1b", 1<<20), 40))
	assert.LessOrEqual(t, len(Text("a"+strings.Repeat("\u0301", 1<<20), 40)), 70, "marks on one letter")
	assert.LessOrEqual(t, len(Text(strings.Repeat("\u0301\u1160", 1<<19), 40)), 40*maxCluster+70, "no width at all")
}

func TestEscapeKeepsLines(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb": "a\nb", "a\x1b[31mb\n\u202e": `a\x1b[31mb` + "\n" + `\u202e`, "\xff": `\xff`, "\ufffd": "\ufffd", "a\tb": "a\tb", `\"`: `\"`, "\u009b": `\u009b`,
	} {
		assert.Equalf(t, want, Escape(text), "%q", text)
	}
	var out bytes.Buffer
	n, err := Writer(&out).Write([]byte("a\tb\u202e\n"))
	require.NoError(t, err)
	assert.Equal(t, len("a\tb\u202e\n"), n)
	assert.Equal(t, "a\tb\\u202e\n", out.String())
}

// A terminal shows any text in one line of the width, and JSON keeps the text.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{"plain", "\x1b[2J", "a\u202eb", "\u6771\u4eac 👩‍👩‍👧‍👦", "\xff\xfe", "\u009b", "e\u0301\u0301", "🇩🇪🇩", "\U000e0041", strings.Repeat("ﷺ", 99), "\u1160\u0600"} {
		f.Add(text, 10)
	}
	shows := func(t *testing.T, s string) {
		t.Helper()
		require.Truef(t, utf8.ValidString(s), "%q", s)
		for _, r := range s {
			require.Truef(t, strconv.IsPrint(r) || r == '\n' || r == '\t', "%q has %U", s, r)
		}
	}
	f.Fuzz(func(t *testing.T, text string, width int) {
		if width < 1 || width > 500 {
			return
		}
		out := Text(text, width)
		shows(t, out)
		require.False(t, strings.ContainsAny(out, "\n\t"))
		require.LessOrEqualf(t, uniseg.StringWidth(out), width, "%q became %q", text, out)
		require.LessOrEqual(t, len(out), width*maxCluster+maxCluster+3)
		shows(t, Escape(text))
		encoded, err := json.Marshal(text)
		require.NoError(t, err)
		safe := JSON(encoded)
		shows(t, string(safe))
		var want, got string
		require.NoError(t, json.Unmarshal(encoded, &want))
		require.NoError(t, json.Unmarshal(safe, &got))
		require.Equal(t, want, got)
	})
}

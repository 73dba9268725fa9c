package replay

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnEdgeListIsRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text     string
		directed bool
		want     Graph
	}{
		"both ways": {"a b\n", false, Graph{[]string{"a", "b"}, []Edge{{0, 1}, {1, 0}}}},
		"directed":  {"a b\n", true, Graph{[]string{"a", "b"}, []Edge{{0, 1}}}},
		"comments, empty lines, tabs, CRLF, no last newline": {
			"# of\n%x\n\n  7\t-_Z \r\n7 9", true, Graph{[]string{"7", "-_Z", "9"}, []Edge{{0, 1}, {0, 2}}}},
		"an edge twice, in both directions": {"a b\n%\nb a\n#\na b\n", false, Graph{[]string{"a", "b"}, []Edge{{0, 1}, {1, 0}}}},
		"nobody follows itself":             {"x" + " x\n#\nx b\n", true, Graph{[]string{"x", "b"}, []Edge{{0, 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ParseGraph(strings.NewReader(tt.text), "f", tt.directed)
			if err != nil || !reflect.DeepEqual(*g, tt.want) {
				t.Errorf("read %+v, error %v; want %+v", g, err, tt.want)
			}
		})
	}
}

func TestABadLineIsNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, where string }{
		"one name":           {"a b\nc\n", "g.edges:2:"},
		"three names":        {"# x\na b 3\n", "g.edges:2:"},
		"a comma":            {"a,b\n", "g.edges:1:"},
		"bad character":      {"a b\n\na ä\n", "g.edges:3:"},
		"too long a name":    {"a " + strings.Repeat("b", maxName+1), "g.edges:1:"},
		"an endless line":    {"a b\n" + strings.Repeat("x", 1<<17), "g.edges:2:"},
		"nothing in it":      {"# only this\n", "g.edges:"},
		"only self-follows":  {"a a\n", "g.edges:"},
		"a broken gzip head": {"\x1f\x8bxx", "g.edges:"},
		"a cut gzip file":    {string(zipped("a b\nc d\n")[:16]), "g.edges:"},
	} {
		t.Run(name, func(t *testing.T) {
			if g, err := ParseGraph(strings.NewReader(tt.text), "g.edges", false); err == nil || !strings.HasPrefix(err.Error(), tt.where) {
				t.Errorf("read %+v, error %v; want an error that begins with %s", g, err, tt.where)
			}
		})
	}
}

func zipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text)) //nolint:errcheck // a write to a buffer never fails
	w.Close()
	return b.Bytes()
}

func TestACompressedFileIsReadLikeAPlainOne(t *testing.T) {
	t.Parallel()
	edges, err := os.ReadFile("../../../testdata/graphs/socfb-Reed98.edges")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "reed.gz")
	require.NoError(t, os.WriteFile(file, zipped(string(edges)), 0o600))
	g, err := ReadGraph(file, false)
	if err != nil || len(g.Names) != 962 || len(g.Edges) != 37624 {
		t.Fatalf("read %d users, %d edges, error %v", len(g.Names), len(g.Edges), err)
	}
	plain, err := ReadGraph("../../../testdata/graphs/socfb-Reed98.edges", false)
	assert.NoError(t, err)
	assert.Equal(t, plain, g, "the plain file reads differently")
	small := g.BestConnected(150)
	if len(small.Names) != 150 || len(small.Edges) < 5000 {
		t.Errorf("the 150 best-connected have %d users and %d edges", len(small.Names), len(small.Edges))
	}
	_, err = ReadGraph(file+"x", false)
	assert.ErrorContainsf(t, err, file+"x", "error %v does not name the file that is not there", err)
}

func TestTheBestConnectedKeepTheirEdges(t *testing.T) {
	t.Parallel()
	g, err := ParseGraph(strings.NewReader("a b\na c\na d\nb c\ne a\nf f\n"), "f", true)
	require.NoError(t, err)
	want := Graph{[]string{"a", "b", "c"}, []Edge{{0, 1}, {0, 2}, {1, 2}}}
	assert.Equal(t, want, *g.BestConnected(3))
	got := g.BestConnected(100)
	assert.Samef(t, g, got, "kept %+v of all", got)
}

func FuzzParseGraph(f *testing.F) {
	f.Add([]byte("# c\n1 2\n3 1\n"), true)
	f.Add([]byte("1\t2\r\n2 1"), false)
	f.Add(zipped("1 2\n"), false)
	f.Add([]byte("1 2 3\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, directed bool) {
		g, err := ParseGraph(bytes.NewReader(text), "f", directed)
		if err != nil {
			return
		}
		seen := map[Edge]bool{}
		for _, e := range g.Edges {
			if e.From == e.To || seen[e] || e.From >= len(g.Names) || e.To >= len(g.Names) || e.From < 0 || e.To < 0 {
				t.Fatalf("edge %v of %d users, seen before: %v", e, len(g.Names), seen[e])
			}
			seen[e] = true
		}
		if !directed {
			for e := range seen {
				require.Truef(t, seen[Edge{e.To, e.From}], "edge %v goes one way", e)
			}
		}
	})
}

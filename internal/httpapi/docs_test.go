package httpapi

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// html/template wrote the files of testdata. The docs page is equal but for white space between tags.
func TestTheDocsPageIsAsRecorded(t *testing.T) {
	space := regexp.MustCompile(`\s+`)
	plain := func(page []byte) string {
		one := space.ReplaceAllString(string(page), " ")
		return regexp.MustCompile(` ?(/?>|<) ?`).ReplaceAllString(one, "$1")
	}
	for name, to := range map[string]links{"docs": {}, "docs-console": {Console: true}, "docs-all": {Console: true, Operations: true}} {
		want, err := os.ReadFile("testdata/" + name + ".html")
		require.NoError(t, err)
		var page bytes.Buffer
		require.NoError(t, docsHTML(to).Render(t.Context(), &page))
		assert.Equal(t, plain(bytes.ReplaceAll(want, []byte("/></svg>"), []byte("></path></svg>"))), plain(page.Bytes()), name)
	}
}

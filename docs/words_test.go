package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// People finish a short page. The bound is one of a page and not of all pages: a bound of the sum refuses the sentence
// that documents a new field.
const maxWordsOfPage = 4_000

func TestPagesAreShort(t *testing.T) {
	words, pages := 0, 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != ".." && (name == "bin" || name == "node_modules" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		// The lines of the files in changes/ become lines of CHANGELOG.md.
		if filepath.Ext(path) != ".md" && !strings.HasPrefix(path, "../changes/") {
			return nil
		}
		n := len(strings.Fields(read(t, path)))
		assert.LessOrEqualf(t, n, maxWordsOfPage, "%s: move a part to a page of its own, or cut history, measurements and repetition", path)
		words, pages = words+n, pages+1
		return nil
	})
	require.NoError(t, err)
	t.Logf("%d words on %d pages", words, pages)
	assert.GreaterOrEqualf(t, pages, 70, "only %d pages were found", pages)
}

// opening matches the beginning of a page. It names the readers, and the use that the page has for them.
var opening = regexp.MustCompile(`^# [^\n]+\n\n?For [^\n]+\. After this page\b`)

func TestEachPageBeginsWithItsReaders(t *testing.T) {
	pages := []string{"../README.md", "../bench/README.md"}
	all, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, page := range append(pages, all...) {
		// People look words up in the index and the glossary, and do not read them as pages.
		if slices.Contains([]string{"README.md", "GLOSSARY.md"}, page) {
			continue
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		assert.Regexpf(t, opening, string(text), "%s begins with a sentence \"For …\" about its readers, and \"After this page …\"", page)
	}
}

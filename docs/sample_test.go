package docs

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var sample = flag.String("sample", "", "with -v, print the comment lines and the sentences of pages that this commit draws")

// A reader judges the English of a sample, and the commit selects the sample, so that no person can.
func TestTheCommitDrawsTheSample(t *testing.T) {
	var lines, sentences []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(path, "node_modules") {
			return err
		}
		switch filepath.Ext(path) {
		case ".go":
			source := strings.Split(read(t, path), "\n")
			for i, line := range source {
				if text := strings.TrimSpace(line); strings.HasPrefix(text, "// ") {
					lines = append(lines, fmt.Sprintf("%s:%d\n%s", path, i+1, strings.Join(source[max(0, i-3):min(len(source), i+5)], "\n")))
				}
			}
		case ".md":
			for _, s := range regexp.MustCompile(`[.:;!?] |\n|\|`).Split(regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, path), ""), -1) {
				if len(strings.Fields(s)) >= 5 {
					sentences = append(sentences, path+": "+strings.TrimSpace(s))
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	drawn := append(draw(lines, 120), draw(sentences, 60)...)
	assert.Equal(t, drawn, append(draw(lines, 120), draw(sentences, 60)...), "one commit draws one sample")
	assert.Len(t, drawn, 180)
	if *sample != "" {
		t.Log("\n" + strings.Join(drawn, "\n\n"))
	}
}

// draw returns n of the texts. The commit decides which texts.
func draw(texts []string, n int) (drawn []string) {
	for _, i := range rand.New(rand.NewChaCha8(sha256.Sum256([]byte(*sample)))).Perm(len(texts))[:n] {
		drawn = append(drawn, texts[i])
	}
	return drawn
}

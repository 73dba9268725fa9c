package docs

import (
	"go/scanner"
	"go/token"
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

// headless matches clauses without a head noun, such as "what is left" or "who has a
// profile", and "tells whether" where "reports whether" is meant. A reader has to
// find the noun before the sentence makes sense.
var headless = regexp.MustCompile(`(?i)\b(what|who|whoever|whom) (is|was|are|were|has|have|had|does|do|did|it|its|the|they|a|an|this|that|then|may|can|could|must|will|says|makes|needs|reads|comes)\b|\btells? (whether|how|who|that)\b`)

// maxHeadless is the largest allowed share of matching lines. Good codebases have 0.0 to 0.2 %.
const maxHeadless = 0.005

func TestCommentsArePlainEnglish(t *testing.T) {
	lines := 0
	var hits []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		for comment := range comments(source) {
			for line := range strings.Lines(comment) {
				lines++
				if headless.MatchString(line) {
					hits = append(hits, path+": "+strings.TrimSpace(line))
				}
			}
		}
		return err
	})
	require.NoError(t, err)
	checkShare(t, hits, lines, 5_000)
}

func TestPagesArePlainEnglish(t *testing.T) {
	lines := 0
	var hits []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" || strings.Contains(path, "node_modules") {
			return err
		}
		text, err := os.ReadFile(path)
		// A sentence ends at the end of its line or cell, or before the next sentence.
		for _, sentence := range regexp.MustCompile(`[.:;] |\n|\|`).Split(string(text), -1) {
			if strings.TrimSpace(sentence) == "" {
				continue
			}
			lines++
			if headless.MatchString(sentence) {
				hits = append(hits, path+": "+strings.TrimSpace(sentence))
			}
		}
		return err
	})
	require.NoError(t, err)
	checkShare(t, hits, lines, 1_000)
}

// checkShare fails if too many of the lines are hits. It also fails if there are so few lines that the
// test cannot have read all files.
func checkShare(t *testing.T, hits []string, lines, least int) {
	t.Helper()
	t.Logf("%d of %d lines match", len(hits), lines)
	assert.GreaterOrEqualf(t, lines, least, "only %d lines were found", lines)
	if share := float64(len(hits)) / float64(lines); share >= maxHeadless {
		t.Errorf("%.2f %% of lines have a clause without a head noun, want below %.1f %%:\n%s",
			100*share, 100*maxHeadless, strings.Join(hits, "\n"))
	}
}

func TestThePatternFindsHeadlessClauses(t *testing.T) {
	for text, want := range map[string]bool{
		"who has an item has a profile":                     true,
		"Kind tells what v holds, and tells whether it is":  true,
		"it reads what is left":                             true,
		"Has reports whether the item has the attribute":    false,
		"readers who follow the author; what remains of it": false,
	} {
		assert.Equalf(t, want, headless.MatchString(text), "%q matches", text)
	}
}

// comments returns the comments of a Go source without a change.
func comments(source []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		files := token.NewFileSet()
		var s scanner.Scanner
		s.Init(files.AddFile("", files.Base(), len(source)), source, nil, scanner.ScanComments)
		for {
			_, tok, text := s.Scan()
			if tok == token.EOF || tok == token.COMMENT && !yield(text) {
				return
			}
		}
	}
}

// maxIdiom is the largest allowed number of uses of an idiom in 1,000 words of pages or of comments. Good
// codebases hardly use these idioms.
const maxIdiom = 0.3

// idioms returns the patterns of idioms that a writer should avoid. An idiom replaces a noun by a
// pronoun, treats code as a person, or has a standard word: shows, is redelivered, continues, previous.
func idioms() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"says":        regexp.MustCompile(`(?i)\b(says?|said)\b`),
		"tells":       regexp.MustCompile(`(?i)\b(tells|told of|told that)\b`),
		"comes again": regexp.MustCompile(`(?i)\b(comes?|came) again\b|\banew\b`),
		"goes on":     regexp.MustCompile(`(?i)\b(goes|go|went|going) on\b`),
		"of before":   regexp.MustCompile(`(?i)\b(of|the one|than|as) before\b`),
		"those of":    regexp.MustCompile(`(?i)\bthose (of|that|which)\b|\bof them that\b|\bthe others\b|\b(is|are|as|than|by|of|and|or|from|not) that of\b`),
	}
}

func TestPagesHaveFewIdioms(t *testing.T) {
	checkIdioms(t, ".md", 30_000, func(source []byte) string { return string(source) })
}

func TestCommentsHaveFewIdioms(t *testing.T) {
	checkIdioms(t, ".go", 150_000, func(source []byte) string {
		return strings.ReplaceAll(strings.Join(slices.Collect(comments(source)), "\n"), "//", "")
	})
}

// checkIdioms counts the idioms in the texts of all files with an extension. It fails if the texts have
// fewer than least words.
func checkIdioms(t *testing.T, ext string, least int, textOf func(source []byte) string) {
	t.Helper()
	words, hits := 0, map[string][]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ext || strings.Contains(path, "node_modules") {
			return err
		}
		source, err := os.ReadFile(path)
		text := strings.Join(strings.Fields(textOf(source)), " ")
		words += len(strings.Fields(text))
		for idiom, pattern := range idioms() {
			for _, at := range pattern.FindAllStringIndex(text, -1) {
				hits[idiom] = append(hits[idiom], path+": "+text[max(0, at[0]-40):min(len(text), at[1]+40)])
			}
		}
		return err
	})
	require.NoError(t, err)
	assert.GreaterOrEqualf(t, words, least, "only %d words were found", words)
	for idiom := range idioms() {
		share := 1000 * float64(len(hits[idiom])) / float64(words)
		t.Logf("%q: %.2f in 1,000 of %d words (go test ./docs -v -run HaveFewIdioms)", idiom, share, words)
		assert.Lessf(t, share, maxIdiom, "%q is in too many places:\n%s", idiom, strings.Join(hits[idiom], "\n"))
	}
}

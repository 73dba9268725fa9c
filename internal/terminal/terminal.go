// Package terminal shows texts of strangers on a terminal: names, reasons of dead letters, answers
// of other programs. Such a text may be a megabyte long. It may contain control sequences of
// terminals, which write elsewhere on the screen or change its title, characters that reverse a
// line, or line breaks that look like further output.
//
// Every text stays in its place and in its line. The package must never hide that it changed a
// text: it quotes and escapes as Go does, and a cut text ends with an ellipsis.
package terminal

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// The widths of a text, in columns.
const (
	// Cell is the width of a cell of a table.
	Cell = 120
	// Sentence is the width of a text that ends a line.
	Sentence = 2000
)

// Text returns s in one line of at most width columns: unchanged, or quoted if it has invisible
// characters.
func Text(s string, width int) string {
	if cut := Cut(s, width); plain(cut) {
		return cut
	}
	return Cut(strconv.Quote(firstBytes(s, width)), width)
}

// Escape returns s with Go's escapes for invisible characters, except line breaks and tabs.
func Escape(s string) string {
	var out strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if r == '\n' || r == '\t' || strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			out.WriteString(rest[:size])
		} else {
			quoted := strconv.Quote(rest[:size])
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		rest = rest[size:]
	}
	return out.String()
}

// JSON returns a text of JSON in which JSON's own escapes replace invisible characters, so
// its meaning does not change. JSON allows such characters only in strings.
func JSON(text []byte) []byte {
	s := string(text)
	if plain(strings.ReplaceAll(s, "\n", "")) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || strconv.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			out = append(out, `\u`...)
			out = appendHex(out, 0xd800+(r-0x10000)>>10)
			out = append(out, `\u`...)
			out = appendHex(out, 0xdc00+(r-0x10000)&0x3ff)
		default:
			out = append(out, `\u`...)
			out = appendHex(out, r)
		}
	}
	return out
}

func appendHex(out []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(out, digits[r>>12&0xf], digits[r>>8&0xf], digits[r>>4&0xf], digits[r&0xf])
}

// Cut returns s, or the part of s that fits in width columns together with an ellipsis. A
// character here is one visible character with a bounded number of marks.
func Cut(s string, width int) string {
	if len(s) <= width && plainASCII(s) {
		return s
	}
	columns, end, rest, state := 0, 0, s, -1
	for len(rest) > 0 {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if len(cluster) > maxCluster {
			return s[:end] + "…"
		}
		if columns+w > width || columns+w == width && rest != "" {
			return s[:end] + "…"
		}
		columns, end = columns+w, end+len(cluster)
		if end > width*maxCluster { // s has characters without a width
			return s[:end] + "…"
		}
	}
	return s
}

// maxCluster bounds a character with its marks, in bytes: a family of emoji has 25.
const maxCluster = 64

// firstBytes returns enough leading bytes of s to fill more than width columns.
func firstBytes(s string, width int) string {
	if most := width * maxCluster; len(s) > most {
		return s[:most]
	}
	return s
}

// plain reports whether all characters of s are visible, and in one line.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

func plainASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// Writer returns a writer that passes each write to w after Escape. A write must have whole lines,
// as the writes of a log have.
func Writer(w io.Writer) io.Writer { return &writer{w} }

type writer struct{ to io.Writer }

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Escape(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// printJSON writes v as one JSON object.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printTable writes rows in columns. The first row is the heading.
func (a *app) printTable(rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			end := "\t"
			if i == len(row)-1 {
				end = "\n"
			}
			if _, err := fmt.Fprint(w, cell, end); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// printable returns s in one line without control characters: as it is, or quoted if it
// has any. Strangers choose some texts that a table shows.
func printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}

func (a *app) println(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

// confirm asks a question on stderr, and returns an error unless the next line of in is want. All
// commands that ask end by it with the exit code of wrong use.
func (a *app) confirm(in io.Reader, question, want string) error {
	_, _ = fmt.Fprint(a.stderr, question) // if it is gone, nobody answers
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || !isTerminal(in) { // no key has ended the line of the question
		_, _ = fmt.Fprintln(a.stderr)
	}
	if err != nil || strings.TrimSpace(line) != want {
		return wrongUse(fmt.Errorf("nothing was removed: the answer was not %s, and --yes was not given", want))
	}
	return nil
}

// isTerminal reports whether a stream is a terminal, where a person reads along.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"golang.org/x/term"

	"fanfare/internal/terminal"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// printJSON writes v as one JSON object. Some texts in v come from strangers, and people read
// the object on terminals.
func (a *app) printJSON(v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.stdout.Write(terminal.JSON(text.Bytes()))
	return err
}

// printTable writes rows in columns.
func (a *app) printTable(rows [][]string) error {
	_, err := io.WriteString(a.stdout, columns(rows))
	return err
}

// columns returns rows in columns. The first row is the heading. Some texts of a table come from strangers.
func columns(rows [][]string) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			end := "\t"
			if i == len(row)-1 {
				end = "\n"
			}
			fmt.Fprint(w, terminal.Text(cell, terminal.Cell), end)
		}
	}
	_ = w.Flush() // a strings.Builder has no error
	return text.String()
}

// printable returns a stranger's text in a form that is safe in a sentence.
func printable(s string) string { return terminal.Text(s, terminal.Sentence) }

func (a *app) println(format string, args ...any) error {
	_, err := io.WriteString(a.stdout, terminal.Escape(fmt.Sprintf(format, args...))+"\n")
	return err
}

// confirm asks a question on stderr, and returns an error unless the next line of in is want. The
// error is a usage error, so all commands that ask have the same exit code.
func (a *app) confirm(in io.Reader, question, want string) error {
	_, _ = fmt.Fprint(a.stderr, terminal.Escape(question)) // without stderr nobody answers
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || !isTerminal(in) { // the line of the question has no end yet
		_, _ = fmt.Fprintln(a.stderr) // the answer counts even if this write fails
	}
	if err != nil || strings.TrimSpace(line) != want {
		return wrongUse(fmt.Errorf("nothing was changed: the answer was not %s, and --yes was not given", want))
	}
	return nil
}

// output is a stream that keeps its first failure, because cobra ignores errors of writes.
type output struct {
	io.Writer
	mu     sync.Mutex
	failed error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = err
	}
	return n, err
}

// fault returns the error of the stream, nil if no write failed.
func (o *output) fault() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		return nil
	}
	return fmt.Errorf("standard output: %w", o.failed)
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	if o, ok := stream.(*output); ok {
		stream = o.Writer
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

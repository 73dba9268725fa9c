package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Graph is a graph of follows. No edge occurs twice, and no user follows itself.
type Graph struct {
	Names []string
	Edges []Edge
}

// Edge means that the user with the number From follows the user with the number To.
type Edge struct{ From, To int }

// ReadGraph reads an edge list from a file, plain or compressed with gzip.
func ReadGraph(file string, directed bool) (*Graph, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the graph: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	return ParseGraph(f, file, directed)
}

// maxName leaves enough room for the name of the run in a user id of 64 characters.
const maxName = 48

// ParseGraph reads an edge list. A line `a b` means that a follows b and, unless the graph
// is directed, that b also follows a. Empty lines and lines that begin with # or % are
// comments. Errors contain the name file.
func ParseGraph(r io.Reader, file string, directed bool) (*Graph, error) {
	in := bufio.NewReader(r)
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		in = bufio.NewReader(unzipped)
	}
	g := &Graph{}
	numbers := map[string]int{}
	number := func(name []byte) int {
		n, ok := numbers[string(name)]
		if !ok {
			n = len(g.Names)
			g.Names = append(g.Names, string(name))
			numbers[g.Names[n]] = n
		}
		return n
	}
	lines := bufio.NewScanner(in)
	line := 0
	for lines.Scan() {
		line++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || text[0] == '#' || text[0] == '%' {
			continue
		}
		names := bytes.Fields(text)
		if len(names) != 2 || !isName(names[0]) || !isName(names[1]) {
			return nil, fmt.Errorf("%s:%d: %.60q is not two names (A-Z a-z 0-9 _ -, at most %d characters) with a space between",
				file, line, text, maxName)
		}
		from, to := number(names[0]), number(names[1])
		if from == to {
			continue // a user cannot follow itself
		}
		g.Edges = append(g.Edges, Edge{from, to})
		if !directed {
			g.Edges = append(g.Edges, Edge{to, from})
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("%s:%d: the line is too long", file, line+1)
		}
		return nil, fmt.Errorf("%s:%d: %w", file, line+1, err)
	}
	if len(g.Edges) == 0 {
		return nil, fmt.Errorf("%s: the file has no edge", file)
	}
	g.Edges = distinct(g.Edges)
	return g, nil
}

func isName(name []byte) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxName
}

func distinct(edges []Edge) []Edge {
	slices.SortFunc(edges, func(a, b Edge) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return slices.Compact(edges)
}

// BestConnected returns the subgraph of the n users with the most edges. If users have
// equally many edges, the first user in the file is chosen.
func (g *Graph) BestConnected(n int) *Graph {
	if n >= len(g.Names) {
		return g
	}
	degree := make([]int, len(g.Names))
	for _, e := range g.Edges {
		degree[e.From]++
		degree[e.To]++
	}
	order := make([]int, len(g.Names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(degree[b], degree[a]) })
	kept := &Graph{}
	number := make(map[int]int, n)
	for _, old := range order[:n] {
		number[old] = len(kept.Names)
		kept.Names = append(kept.Names, g.Names[old])
	}
	for _, e := range g.Edges {
		from, ok := number[e.From]
		to, both := number[e.To]
		if ok && both {
			kept.Edges = append(kept.Edges, Edge{from, to})
		}
	}
	kept.Edges = distinct(kept.Edges)
	return kept
}

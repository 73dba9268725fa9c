package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tags are the build tags with which the tests run.
const tags = "invariants"

// source is a package of the product: its files and its mutants.
type source struct {
	// folder is the path of the folder from the repository's root.
	folder  string
	fset    *token.FileSet
	names   []string
	parsed  []*ast.File
	texts   map[string][]byte
	mutants []mutant
	types   types.Config
}

// read parses the package in a folder. It makes the mutants of the given files, or of all files if files
// is empty.
func read(ctx context.Context, root, folder string, files []string) (*source, error) {
	s := &source{folder: folder, fset: token.NewFileSet(), texts: map[string][]byte{}}
	// The type check of a mutant is cheap if the imported packages are compiled already.
	list := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-tags", tags,
		"-f", `{{if .DepOnly}}{{.ImportPath}}={{.Export}}{{else}}{{join .GoFiles "\n"}}{{end}}`, "./"+folder)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	exports := map[string]string{}
	s.types.Importer = importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for file := range strings.FieldsSeq(string(out)) {
		if imported, export, ok := strings.Cut(file, "="); ok {
			exports[imported] = export
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, folder, file))
		if err != nil {
			return nil, err
		}
		name := path.Join(folder, file)
		f, err := parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.names, s.parsed, s.texts[name] = append(s.names, name), append(s.parsed, f), text
		if len(files) == 0 || slices.Contains(files, file) {
			s.mutants = append(s.mutants, mutantsOf(s.fset, f, name, text)...)
		}
	}
	if err := s.check(s.parsed); err != nil {
		return nil, fmt.Errorf("%s does not compile without an edit: %w", folder, err)
	}
	return s, nil
}

// mutate returns the text of the mutant's file.
func (s *source) mutate(m mutant) []byte {
	text := s.texts[m.file]
	return slices.Concat(text[:m.offset], []byte(m.text), text[m.end:])
}

// compiles reports whether the compiler accepts the mutant.
func (s *source) compiles(m mutant) bool {
	f, err := parser.ParseFile(s.fset, m.file, s.mutate(m), parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	files := slices.Clone(s.parsed)
	files[slices.Index(s.names, m.file)] = f
	return s.check(files) == nil
}

func (s *source) check(files []*ast.File) error {
	_, err := s.types.Check(s.folder, s.fset, files, nil)
	return err
}

// sample draws n mutants that compile, or all of them if n is 0. The seed decides the draw. sample
// returns the drawn mutants that are not named as equivalent, and the number of named mutants by folder.
// A draw also contains named mutants, so it stays the same when a mutant is named as equivalent.
func sample(sources map[string]*source, named map[string]string, match *regexp.Regexp, seed string, n int) (chosen []mutant, equivalent map[string]int) {
	var all []mutant
	for _, folder := range slices.Sorted(maps.Keys(sources)) {
		for _, m := range sources[folder].mutants {
			if match.MatchString(m.key) {
				all = append(all, m)
			}
		}
	}
	if n > 0 {
		rank := func(m mutant) string { sum := sha256.Sum256([]byte(seed + m.key)); return string(sum[:]) }
		slices.SortFunc(all, func(a, b mutant) int { return strings.Compare(rank(a), rank(b)) })
	}
	equivalent = map[string]int{}
	drawn := 0
	for _, m := range all {
		if n > 0 && drawn == n {
			break
		}
		switch {
		case !sources[m.folder()].compiles(m):
			continue
		case named[m.key] != "":
			equivalent[m.folder()]++
		default:
			chosen = append(chosen, m)
		}
		drawn++
	}
	return chosen, equivalent
}

// links returns the folders of all packages in the binary of a package's tests.
func links(ctx context.Context, root, folder string) (map[string]bool, error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-tags", tags, "-f", "{{if not .Standard}}{{.Dir}}{{end}}", "./"+folder)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list what %s links: %w", folder, err)
	}
	linked := map[string]bool{}
	for dir := range strings.FieldsSeq(string(out)) {
		if name, err := filepath.Rel(root, dir); err == nil {
			linked[filepath.ToSlash(name)] = true
		}
	}
	return linked, nil
}

// equivalents reads the file of mutants without a visible effect. The key of a mutant is on a separate
// line, and the reason follows on indented lines.
func equivalents(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	named, key := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		reason := strings.TrimSpace(line)
		switch {
		case reason == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
			named[key] += reason + " "
		default:
			if key = reason; named[key] != "" {
				return nil, fmt.Errorf("%s names twice: %s", file, key)
			}
			named[key] = " "
		}
	}
	for key, reason := range named {
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s has no reason for: %s", file, key)
		}
	}
	return named, nil
}

// fit fails if a named equivalent no longer exists in the code of its package.
func fit(sources map[string]*source, named map[string]string) error {
	left := maps.Clone(named)
	for _, s := range sources {
		for _, m := range s.mutants {
			delete(left, m.key)
		}
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(left)) {
		if file, _, _ := strings.Cut(key, ": "); sources[path.Dir(file)] != nil {
			errs = append(errs, fmt.Errorf("no mutant is called so, rename or remove the equivalent: %s", key))
		}
	}
	return errors.Join(errs...)
}

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"path"
	"regexp"
)

// bug is an edit that survived once and would break a promise. Each run judges all bugs of its
// packages, and fails if one survives.
type bug struct {
	name, file string
	// old occurs once in the file, within one function.
	old, new string
}

// planted are the bugs that no draw may miss.
func planted() []bug {
	return nil
}

// plant returns the bugs of these packages as mutants. It fails if the text of a bug does not
// fit the source any more, or does not compile.
func plant(sources map[string]*source, bugs []bug, match *regexp.Regexp) (mutants []mutant, err error) {
	for _, b := range bugs {
		s := sources[path.Dir(b.file)]
		if s == nil {
			continue
		}
		m, err := s.plant(b)
		if err != nil {
			return nil, err
		}
		if match.MatchString(m.key) {
			mutants = append(mutants, m)
		}
	}
	return mutants, nil
}

func (s *source) plant(b bug) (mutant, error) {
	text := s.texts[b.file]
	at := bytes.Index(text, []byte(b.old))
	m := mutant{file: b.file, offset: at, end: at + len(b.old), text: b.new, planted: true, key: b.file + ": planted: " + b.name}
	if n := bytes.Count(text, []byte(b.old)); n != 1 {
		return m, fmt.Errorf("%s: its text occurs %d times: plant the bug again", m.key, n)
	}
	for i, name := range s.names {
		if name != b.file {
			continue
		}
		file := s.fset.File(s.parsed[i].Pos())
		m.line = file.Line(file.Pos(at))
		for _, decl := range s.parsed[i].Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil && file.Offset(d.Body.Pos()) < at && m.end < file.Offset(d.End()) {
				m.in = d
			}
		}
	}
	if m.in == nil || !s.compiles(m) {
		return m, fmt.Errorf("%s: it is outside a function, or does not compile", m.key)
	}
	return m, nil
}

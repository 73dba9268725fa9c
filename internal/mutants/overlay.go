package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// variable is the environment variable that selects the mutant of a process, by the mutant's number.
const variable = "FANFARE_MUTANT"

// writeOverlay writes edited copies of the source that have all mutants at once, so that one build serves
// all mutants. A mutant is a copy of its function with the edit. The function itself calls the copy that
// the environment selects. The numbers of mutants begin with 1.
func writeOverlay(root, temp string, sources map[string]*source, mutants []mutant) (file string, err error) {
	numbers := map[string]map[int]mutant{} // by file
	for i, m := range mutants {
		if numbers[m.file] == nil {
			numbers[m.file] = map[int]mutant{}
		}
		numbers[m.file][i+1] = m
	}
	replace := map[string]string{}
	write := func(name string, text []byte) error {
		copied := filepath.Join(temp, strings.ReplaceAll(name, "/", "-"))
		replace[filepath.Join(root, name)] = copied
		return os.WriteFile(copied, text, 0o600)
	}
	for folder, s := range sources {
		chosen := fmt.Sprintf("package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutantNumber, _ = strconv.Atoi(os.Getenv(%q))\n", s.parsed[0].Name.Name, variable)
		if err := write(path.Join(folder, "mutant_number.go"), []byte(chosen)); err != nil {
			return "", err
		}
		for name, of := range numbers {
			if path.Dir(name) != folder {
				continue
			}
			if err := write(name, s.withAll(name, of)); err != nil {
				return "", err
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(temp, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// withAll returns the text of a file that has all these mutants.
func (s *source) withAll(name string, of map[int]mutant) []byte {
	f := s.parsed[slices.Index(s.names, name)]
	file, src := s.fset.File(f.Pos()), s.texts[name]
	var out, copies bytes.Buffer
	at := 0
	replace := func(from, to token.Pos, text string) {
		out.Write(src[at:file.Offset(from)])
		out.WriteString(text)
		at = file.Offset(to)
	}
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var cases strings.Builder
		for _, number := range slices.Sorted(maps.Keys(of)) {
			if m := of[number]; m.in == d {
				copied := fmt.Sprintf("%s__%d", d.Name.Name, number)
				fmt.Fprintf(&copies, "\nfunc %s%s%s%s%s\n", src[file.Offset(d.Pos())+len("func"):file.Offset(d.Name.Pos())], copied,
					src[file.Offset(d.Name.End()):m.offset], m.text, src[m.end:file.Offset(d.End())])
				fmt.Fprintf(&cases, " case %d: CALL%s;", number, copied)
			}
		}
		if cases.Len() == 0 {
			continue
		}
		receiver, call, end := "", "return ", ""
		if d.Recv != nil {
			receiver = forward(d.Recv, replace)[0] + "."
		}
		if d.Type.Results == nil {
			call, end = "", "; return"
		}
		end = "(" + strings.Join(forward(d.Type.Params, replace), ", ") + ")" + end
		replace(d.Body.Lbrace+1, d.Body.Lbrace+1, " switch mutantNumber {"+strings.ReplaceAll(strings.ReplaceAll(cases.String(), "CALL", call+receiver), ";", end+";")+" };")
	}
	out.Write(src[at:])
	return append(out.Bytes(), copies.Bytes()...)
}

// forward returns the parameters as arguments for another call. It gives a name to each parameter without
// a name.
func forward(params *ast.FieldList, replace func(from, to token.Pos, text string)) (args []string) {
	for _, field := range params.List {
		dots := ""
		if _, ok := field.Type.(*ast.Ellipsis); ok {
			dots = "..."
		}
		if len(field.Names) == 0 {
			arg := fmt.Sprintf("unnamed%d", field.Pos())
			replace(field.Type.Pos(), field.Type.Pos(), arg+" ")
			args = append(args, arg+dots)
		}
		for _, n := range field.Names {
			arg := n.Name
			if arg == "_" {
				arg = fmt.Sprintf("unnamed%d", n.Pos())
				replace(n.Pos(), n.End(), arg)
			}
			args = append(args, arg+dots)
		}
	}
	return args
}

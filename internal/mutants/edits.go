package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// mutant is the product with one edit.
type mutant struct {
	// file is the path of the file from the repository's root.
	file        string
	line        int
	offset, end int
	text        string // the text between offset and end in the mutant
	in          *ast.FuncDecl
	// planted is true for a bug that every run tests.
	planted bool
	// key identifies the edit by file, function and text, so the key survives edits at other places.
	key string
}

// folder returns the folder of the mutant's package.
func (m mutant) folder() string { return path.Dir(m.file) }

// String returns the key with the line number.
func (m mutant) String() string {
	return fmt.Sprintf("%s:%d%s", m.file, m.line, strings.TrimPrefix(m.key, m.file))
}

// swaps returns the operators that replace each other: bounds that shift by one, and operators of the
// same types.
func swaps() map[token.Token]token.Token {
	pairs := map[token.Token]token.Token{
		token.LSS: token.LEQ, token.GTR: token.GEQ, token.EQL: token.NEQ, token.LAND: token.LOR,
		token.ADD: token.SUB, token.MUL: token.QUO, token.INC: token.DEC, token.ADD_ASSIGN: token.SUB_ASSIGN,
	}
	all := map[token.Token]token.Token{token.REM: token.MUL}
	for a, b := range pairs {
		all[a], all[b] = b, a
	}
	return all
}

// editor collects the mutants of one file.
type editor struct {
	file  *token.File
	name  string
	src   string
	swaps map[token.Token]token.Token
	// function is the function that the editor is in.
	function *ast.FuncDecl
	seen     map[string]int
	mutants  []mutant
}

// mutantsOf returns the mutants of the functions in a parsed file, in the order of the source. Log lines
// and assertions decide nothing, so they have no mutants.
func mutantsOf(fset *token.FileSet, f *ast.File, name string, src []byte) []mutant {
	e := &editor{file: fset.File(f.Pos()), name: name, src: string(src), swaps: swaps(), seen: map[string]int{}}
	for _, decl := range f.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil {
			e.function = d
			ast.Inspect(d.Body, e.visit)
		}
	}
	return e.mutants
}

func (e *editor) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return !e.silent(n)
	case *ast.IfStmt:
		if strings.Contains(e.of(n.Cond), "invariants.Enabled") || n.Else == nil && e.onlySilent(n.Body.List) {
			return false
		}
		e.negate(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil && strings.Contains(e.of(n.Cond), "invariants.Enabled") {
			return false
		}
		e.negate(n.Cond)
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			if clause, ok := c.(*ast.CaseClause); ok && n.Tag == nil {
				for _, cond := range clause.List {
					e.negate(cond)
				}
			}
		}
	case *ast.BlockStmt:
		e.drop(n.List)
	case *ast.CaseClause:
		e.drop(n.Body)
	case *ast.CommClause:
		e.drop(n.Body)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			e.add(n, n.OpPos, n.X.Pos(), "", e.of(n.X))
		}
	case *ast.BinaryExpr:
		e.binary(n)
	case *ast.IncDecStmt:
		e.swap(n, n.TokPos, n.Tok)
	case *ast.AssignStmt:
		e.swap(n, n.TokPos, n.Tok)
	}
	return true
}

// silent reports whether n is a call that logs or asserts.
func (e *editor) silent(n ast.Expr) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	fun := "." + e.of(call.Fun)
	return strings.HasPrefix(fun, ".invariants.") || strings.Contains(fun, ".Log.") || strings.Contains(fun, ".log.")
}

// onlySilent reports whether all statements log or assert.
func (e *editor) onlySilent(list []ast.Stmt) bool {
	return !slices.ContainsFunc(list, func(s ast.Stmt) bool {
		call, ok := s.(*ast.ExprStmt)
		return !ok || !e.silent(call.X)
	})
}

func (e *editor) binary(n *ast.BinaryExpr) {
	e.swap(n, n.OpPos, n.Op)
	if !slices.Contains([]token.Token{token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ}, n.Op) {
		return
	}
	for _, side := range []ast.Expr{n.X, n.Y} {
		if lit, ok := side.(*ast.BasicLit); ok && lit.Kind == token.INT {
			e.add(n, lit.Pos(), lit.End(), lit.Value+"+1", "")
		}
	}
}

func (e *editor) swap(n ast.Node, pos token.Pos, op token.Token) {
	if other, ok := e.swaps[op]; ok {
		e.add(n, pos, pos+token.Pos(len(op.String())), other.String(), "")
	}
}

// negate adds the mutant with the opposite condition, unless a swap makes the same mutant.
func (e *editor) negate(cond ast.Expr) {
	if cond == nil {
		return
	}
	switch c := cond.(type) {
	case *ast.BinaryExpr:
		if c.Op == token.EQL || c.Op == token.NEQ {
			return
		}
	case *ast.UnaryExpr:
		return
	}
	e.add(cond, cond.Pos(), cond.End(), "!("+e.of(cond)+")", "")
}

// drop adds a mutant for each statement of the list: the mutant lacks the statement.
func (e *editor) drop(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if !e.silent(s.X) {
				e.add(s, s.Pos(), s.End(), "", "dropped")
			}
		case *ast.AssignStmt:
			if s.Tok == token.ASSIGN && !e.silent(s.Rhs[0]) {
				e.add(s, s.Pos(), s.End(), "", "dropped")
			}
		case *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
			e.add(s, s.Pos(), s.End(), "", "dropped")
		}
	}
}

// add adds the mutant that has text between from and to. Its name is "was => becomes", and was is the
// text of n.
func (e *editor) add(n ast.Node, from, to token.Pos, text, becomes string) {
	start, offset, end := e.file.Offset(n.Pos()), e.file.Offset(from), e.file.Offset(to)
	if becomes == "" {
		becomes = short(e.src[start:offset], text, e.src[end:e.file.Offset(n.End())])
	}
	function := e.function.Name.Name
	if recv := e.function.Recv; recv != nil {
		function = strings.Trim(e.of(recv.List[0].Type), "*") + "." + function
	}
	key := fmt.Sprintf("%s: %s: %s => %s", e.name, function, short(e.src[start:offset], e.src[offset:end], e.src[end:e.file.Offset(n.End())]), becomes)
	if e.seen[key]++; e.seen[key] > 1 {
		key = fmt.Sprintf("%s #%d", key, e.seen[key])
	}
	e.mutants = append(e.mutants, mutant{file: e.name, line: e.file.Line(from), offset: offset, end: end, text: text, in: e.function, key: key})
}

func (e *editor) of(n ast.Node) string {
	return e.src[e.file.Offset(n.Pos()):e.file.Offset(n.End())]
}

// short joins the three parts of an edit on one line, without the text that is far from the edit.
func short(before, edit, after string) string {
	const near = 48
	before, edit, after = oneLine(before), oneLine(edit), oneLine(after)
	if len(before) > near {
		before = "…" + strings.ToValidUTF8(before[len(before)-near:], "")
	}
	if len(edit) > 2*near {
		edit = strings.ToValidUTF8(edit[:2*near], "") + "…"
	}
	if len(after) > near {
		after = strings.ToValidUTF8(after[:near], "") + "…"
	}
	return before + edit + after
}

func oneLine(s string) string {
	words := strings.Join(strings.Fields(s), " ")
	if strings.TrimSpace(s) == "" {
		return words
	}
	if strings.TrimLeft(s, " \t\n") != s {
		words = " " + words
	}
	if strings.TrimRight(s, " \t\n") != s {
		words += " "
	}
	return words
}

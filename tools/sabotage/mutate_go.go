package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// others lists the replacements for each Go operator. Replacements that do not compile for the
// types of the operands, such as - for strings, are skipped when they are tried.
var others = map[token.Token][]string{
	token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LAND: {"||"}, token.LOR: {"&&"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"}, token.REM: {"*"},
	token.AND: {"|"}, token.OR: {"&"}, token.SHL: {">>"}, token.SHR: {"<<"},
	token.ADD_ASSIGN: {"-="}, token.SUB_ASSIGN: {"+="}, token.INC: {"--"}, token.DEC: {"++"},
}

// golang collects the mutations of a Go file.
func (m *mutator) golang() error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, m.file, m.source, 0)
	if err != nil {
		return err
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	text := func(n ast.Node) string { return string(m.source[at(n.Pos()):at(n.End())]) }
	operator := func(p token.Pos, op token.Token) {
		for _, other := range others[op] {
			m.swap(at(p), op.String(), other)
		}
	}
	drop := func(n ast.Node) { m.replace(at(n.Pos()), at(n.End()), "", "dropped: "+brief(text(n))) }

	// visit visits a node and all nodes in it. results are the zero values of the results of the
	// function that contains the node.
	var visit func(n ast.Node, results []string)
	visit = func(root ast.Node, results []string) {
		ast.Inspect(root, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					visit(n.Body, resultTypes(n.Type, text))
				}
				return false
			case *ast.FuncLit:
				visit(n.Body, resultTypes(n.Type, text))
				return false
			case *ast.ImportSpec, *ast.ArrayType, *ast.TypeSpec:
				return false // mutants of types would only make arrays larger than necessary
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "make" || f.Name == "panic") {
					return false // arguments of make, such as a capacity, and messages of panics
				}
			case *ast.BinaryExpr:
				operator(n.OpPos, n.Op)
			case *ast.UnaryExpr:
				if n.Op == token.NOT {
					m.replace(at(n.OpPos), at(n.OpPos)+1, "", "removed !")
				}
			case *ast.BasicLit:
				if v, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
					m.swap(at(n.Pos()), n.Value, strconv.FormatInt(v+1, 10))
				}
			case *ast.Ident:
				switch n.Name {
				case "true":
					m.swap(at(n.Pos()), "true", "false")
				case "false":
					m.swap(at(n.Pos()), "false", "true")
				}
			case *ast.IfStmt:
				from, to, condition := at(n.Cond.Pos()), at(n.Cond.End()), text(n.Cond)
				if b, ok := n.Cond.(*ast.BinaryExpr); !ok || b.Op != token.EQL && b.Op != token.NEQ {
					m.replace(from, to, "!("+condition+")", "negated the condition")
				}
				m.replace(from, to, "("+condition+") && false", "skipped the if")
			case *ast.ReturnStmt:
				if len(results) > 0 && !isZero(n.Results) {
					m.replace(at(n.Pos()), at(n.End()), "return "+strings.Join(results, ", "), "returned zero values")
				}
			case *ast.AssignStmt:
				operator(n.TokPos, n.Tok)
				if n.Tok != token.DEFINE {
					drop(n)
				}
			case *ast.IncDecStmt:
				operator(n.TokPos, n.Tok)
				drop(n)
			case *ast.ExprStmt:
				drop(n)
			case *ast.DeferStmt:
				drop(n)
			case *ast.BranchStmt:
				if n.Tok == token.BREAK || n.Tok == token.CONTINUE {
					drop(n)
				}
			}
			return true
		})
	}
	visit(file, nil)
	return nil
}

// resultTypes returns an expression for the zero value of each result.
func resultTypes(f *ast.FuncType, text func(ast.Node) string) []string {
	var zeros []string
	if f.Results == nil {
		return nil
	}
	for _, field := range f.Results.List {
		for range max(1, len(field.Names)) {
			zeros = append(zeros, "*new("+text(field.Type)+")")
		}
	}
	return zeros
}

// isZero reports whether all results already are zero values, or there are none. A return without
// results needs no mutation of its own: dropping the assignment to the named result tests the same.
func isZero(results []ast.Expr) bool {
	for _, r := range results {
		switch r := r.(type) {
		case *ast.Ident:
			if r.Name != "nil" && r.Name != "false" && r.Name != "true" { // true has its own mutation
				return false
			}
		case *ast.BasicLit:
			if r.Value != "0" && r.Value != `""` {
				return false
			}
		case *ast.CompositeLit:
			if len(r.Elts) > 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// brief returns the first line of text, shortened to a readable length.
func brief(text string) string {
	line, rest, _ := strings.Cut(text, "\n")
	if runes := []rune(line); len(runes) > 60 {
		return string(runes[:60]) + "…"
	} else if rest != "" {
		return line + "…"
	}
	return line
}

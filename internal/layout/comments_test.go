package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExportedNamesHaveComments: every exported name has a comment, and it starts with the name, so
// that it reads well in a list. Staticcheck tests only the comments that exist.
func TestExportedNamesHaveComments(t *testing.T) {
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || otherModule(name) {
			return
		}
		src, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range uncommented(t, src) {
			t.Errorf("%s: %s", name, wrong)
		}
	})
}

// uncommented returns the exported names of a file without a comment that starts with them.
func uncommented(t *testing.T, src []byte) []string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(tree) || tree.Name.Name == "main" {
		return nil
	}
	var wrong []string
	check := func(name string, doc *ast.CommentGroup) {
		if ast.IsExported(name) && !startsWith(doc.Text(), name) {
			wrong = append(wrong, name)
		}
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil && d.Name.Name == "Error" {
				continue // what it does is known
			}
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				check(d.Name.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					doc := spec.Doc
					if doc == nil {
						doc = d.Doc
					}
					check(spec.Name.Name, doc)
				case *ast.ValueSpec:
					if d.Doc == nil && spec.Doc == nil && spec.Comment == nil && ast.IsExported(spec.Names[0].Name) {
						wrong = append(wrong, spec.Names[0].Name)
					}
				}
			}
		}
	}
	return wrong
}

func startsWith(text, name string) bool {
	for _, article := range []string{"", "A ", "An ", "The "} {
		if rest, found := strings.CutPrefix(text, article+name); found {
			return rest == "" || !strings.ContainsAny(rest[:1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
		}
	}
	return false
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

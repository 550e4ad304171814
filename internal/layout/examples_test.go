package layout

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// notForUsers are packages that nobody imports.
var notForUsers = []string{"internal", "cmd", "examples", "faults"}

// verbs are the types whose methods with a context have an example each, by package.
var verbs = map[string]string{".": "Limiter", "outbound": "Client"}

// TestExamples: every package for users has examples, every verb has one, and each has its output,
// so that it is run.
func TestExamples(t *testing.T) {
	fset := token.NewFileSet()
	sources, tests := map[string][]*ast.File{}, map[string][]*ast.File{}
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || otherModule(name) || strings.Contains(name, "testdata/") {
			return
		}
		file, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			tests[path.Dir(name)] = append(tests[path.Dir(name)], file)
		} else {
			sources[path.Dir(name)] = append(sources[path.Dir(name)], file)
		}
	})
	for pkg, files := range sources {
		for _, wrong := range exampleMistakes(pkg, files, tests[pkg]) {
			t.Errorf("%s: %s", pkg, wrong)
		}
	}
}

// exampleMistakes returns what is wrong with the examples of a package.
func exampleMistakes(pkg string, sources, tests []*ast.File) (mistakes []string) {
	examples := map[string]*doc.Example{}
	for _, e := range doc.Examples(tests...) {
		examples["Example"+e.Name] = e
		if e.Output == "" && !e.EmptyOutput {
			mistakes = append(mistakes, "Example"+e.Name+" has no // Output:, so it is not run")
		}
	}
	if under(pkg, notForUsers) {
		return mistakes
	}
	if len(examples) == 0 {
		mistakes = append(mistakes, "no example")
	}
	for _, file := range sources {
		for _, decl := range file.Decls {
			name, ok := verb(decl, verbs[pkg])
			if ok && examples["Example"+verbs[pkg]+"_"+name] == nil {
				mistakes = append(mistakes, "no Example"+verbs[pkg]+"_"+name)
			}
		}
	}
	return mistakes
}

// verb returns the name of an exported method of the type that takes a context.
func verb(decl ast.Decl, typ string) (name string, ok bool) {
	f, ok := decl.(*ast.FuncDecl)
	if !ok || f.Recv == nil || receiver(f.Recv.List[0].Type) != typ || !f.Name.IsExported() {
		return "", false
	}
	if len(f.Type.Params.List) == 0 {
		return "", false
	}
	first, ok := f.Type.Params.List[0].Type.(*ast.SelectorExpr)
	return f.Name.Name, ok && first.Sel.Name == "Context"
}

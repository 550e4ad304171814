package layout

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notForUsers are packages that nobody imports.
var notForUsers = []string{"internal", "cmd", "examples", "faults"}

// verbs are the types whose methods with a context have an example each, by package.
var verbs = map[string]string{".": "Limiter", "outbound": "Client"}

// starts are the examples to begin with, by package, and the number of lines that they may have.
var starts = map[string][]string{
	".":         {"Example"},
	"grpclimit": {"ExampleBy", "ExampleUnaryServerInterceptor", "ExampleUnaryClientInterceptor"},
	"httplimit": {"ExampleByIP"},
	"outbound":  {"Example"},
}

const maxStart = 10

// TestExamples: every package for users has examples, every verb has one, each has its output, so
// that it is run, and those to begin with are short.
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
		for _, wrong := range exampleMistakes(fset, pkg, files, tests[pkg]) {
			t.Errorf("%s: %s", pkg, wrong)
		}
	}
}

func TestExampleMistakes(t *testing.T) {
	const (
		limiter = "type Limiter int\nfunc (*Limiter) Allow(ctx context.Context) {}\nfunc (*Limiter) Limits() {}\n"
		long    = "func Example() {\n\tprintln()\n%s\t// Output: 1\n}\n"
	)
	tests := []struct {
		name, pkg, src, tests string
		want                  []string
	}{
		{"none", "a", "", "", []string{"no example"}},
		{"none, for nobody", "internal/a", "", "", nil},
		{"one", "a", "", "func Example() {\n\t// Output: 1\n}\n", nil},
		{"empty output", "a", "", "func Example() {\n\t// Output:\n}\n", nil},
		{"no output", "a", "", "func Example() {}\n", []string{"Example has no // Output:, so it is not run"}},
		{"no output, for nobody", "internal/a", "", "func Example() {}\n",
			[]string{"Example has no // Output:, so it is not run"}},
		{"no verb", ".", limiter, "func Example() {\n\t// Output:\n}\n", []string{"no ExampleLimiter_Allow"}},
		{"a verb", ".", limiter, "func Example() {\n\t// Output:\n}\nfunc ExampleLimiter_Allow() {\n\t// Output:\n}\n", nil},
		{"a long start", ".", "", fmt.Sprintf(long, strings.Repeat("\tprintln()\n", maxStart)),
			[]string{"Example has 11 lines, want at most 10"}},
		{"comments and blank lines", ".", "", fmt.Sprintf(long, strings.Repeat("\t// Comment.\n\n", maxStart)), nil},
		{"no start", "outbound", "", "func ExampleNew() {\n\t// Output:\n}\n", []string{"no Example to begin with"}},
	}
	for _, test := range tests {
		fset := token.NewFileSet()
		parse := func(name, src string) []*ast.File {
			file, err := parser.ParseFile(fset, name, "package p\n\n"+src, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			return []*ast.File{file}
		}
		got := exampleMistakes(fset, test.pkg, parse("p.go", test.src), parse("p_test.go", test.tests))
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// exampleMistakes returns what is wrong with the examples of a package.
func exampleMistakes(fset *token.FileSet, pkg string, sources, tests []*ast.File) (mistakes []string) {
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
	for _, name := range starts[pkg] {
		if examples[name] == nil {
			mistakes = append(mistakes, "no "+name+" to begin with")
		} else if n := codeLines(fset, tests, name); n > maxStart {
			mistakes = append(mistakes, fmt.Sprintf("%s has %d lines, want at most %d", name, n, maxStart))
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

// codeLines counts the lines with code in the body of a function.
func codeLines(fset *token.FileSet, files []*ast.File, name string) int {
	lines := map[int]bool{}
	mark := func(from, to token.Pos) {
		for line := fset.Position(from).Line; line <= fset.Position(to).Line; line++ {
			lines[line] = true
		}
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Name.Name != name {
				continue
			}
			for _, statement := range f.Body.List {
				ast.Inspect(statement, func(n ast.Node) bool {
					switch n := n.(type) {
					case nil:
					case *ast.BasicLit: // a string may have several lines
						mark(n.Pos(), n.End())
					default:
						mark(n.Pos(), n.Pos())
						mark(n.End()-1, n.End()-1)
					}
					return true
				})
			}
		}
	}
	return len(lines)
}

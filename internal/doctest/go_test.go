package doctest

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

const module = "github.com/stint-limiter/stint"

// known are variables that a fragment may use without declaring them.
var known = map[string]string{
	"ctx":     "var ctx context.Context",
	"err":     "var err error",
	"guard":   "var guard *policy.Guard",
	"monitor": "var monitor *observe.Monitor",
	"mux":     "var mux *http.ServeMux",
	"r":       "var r *http.Request",
	"set":     "var set *policy.Set",
	"store":   "var store stint.Store",
	"w":       "var w http.ResponseWriter",
}

// TestGo compiles every block of Go, as a package of its own in the first module that requires what
// it imports. The compiler sees the packages through an overlay; none is written to the repository.
func TestGo(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles: make test runs it")
	}
	imports, modules := knownImports(t), knownModules(t)
	directory := t.TempDir()
	overlays := map[string]map[string]string{} // by module, then file of a package
	blocks := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language != "go" || b.notRun != "" {
				continue
			}
			source, needed, err := b.goFile(filepath.Join(absolute(t, root), p.name), imports)
			if err != nil {
				t.Errorf("%s:%d: %v", p.name, b.line, err)
				continue
			}
			in := slices.IndexFunc(modules, func(m goModule) bool { return m.requires(needed) })
			if in < 0 {
				t.Errorf("%s:%d: no module of ours requires all of %v", p.name, b.line, needed)
				continue
			}
			blocks++
			file := filepath.Join(directory, fmt.Sprintf("block%d.go", blocks))
			testkit.WriteFile(t, file, source)
			at := modules[in].directory
			if overlays[at] == nil {
				overlays[at] = map[string]string{}
			}
			overlays[at][filepath.Join(absolute(t, filepath.Join(root, at)), "internal/doctest",
				fmt.Sprintf("block%d", blocks), "block.go")] = file
		}
	}
	for at, files := range overlays {
		overlay := testkit.Must(json.Marshal(map[string]any{"Replace": files}))(t)
		name := filepath.Join(directory, strings.ReplaceAll(at, "/", "-")+".json")
		testkit.WriteFile(t, name, string(overlay))
		args := []string{"build", "-overlay", name}
		for file := range files {
			args = append(args, "./internal/doctest/"+filepath.Base(filepath.Dir(file)))
		}
		compile := exec.CommandContext(t.Context(), "go", args...)
		compile.Dir = filepath.Join(root, at)
		if out, err := compile.CombinedOutput(); err != nil {
			t.Errorf("in the module of %s: %v\n%s", at, err, out)
		}
	}
	t.Logf("%d blocks, with %d modules", blocks, len(overlays))
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	name, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

var (
	leftOut    = regexp.MustCompile(`(?m)^\s*\.\.\.$`)
	clause     = regexp.MustCompile(`(?m)^package \w+$`)
	importDecl = regexp.MustCompile(`(?ms)\A\s*import (\(.*?^\)|(\w+ )?"[^"]*")$`)
)

// goFile returns the block as a file of Go and the packages that it imports. The errors of the
// compiler will be of the page.
func (b block) goFile(page string, imports map[string]string) (source string, needed []string, err error) {
	body := leftOut.ReplaceAllString(b.text, "")
	fset := token.NewFileSet()
	position := func(skipped string) string {
		return fmt.Sprintf("//line %s:%d\n", page, b.line+1+strings.Count(skipped, "\n"))
	}
	if clause.MatchString(body) {
		// A program is compiled as a library: nothing is linked.
		source = position("") + clause.ReplaceAllString(body, "package block")
		file, err := parser.ParseFile(fset, "", source, parser.ImportsOnly)
		if err != nil {
			return "", nil, err
		}
		return source, importsOf(file), nil
	}
	own := importDecl.FindString(body)
	body = strings.TrimPrefix(body, own)
	head := "package block\n" + own + "\n"
	declared := strings.Join(b.given, "\n") + "\n"
	source = position(own) + body
	file, err := parser.ParseFile(fset, "", head+declared+source, 0)
	if err != nil {
		source, err = asFunction(body, position(own))
		if err != nil {
			return "", nil, err
		}
		if file, err = parser.ParseFile(fset, "", head+declared+source, 0); err != nil {
			return "", nil, err
		}
	}
	imported := map[string]bool{}
	for _, spec := range file.Imports {
		imported[importName(spec)] = true
	}
	unresolved := func(file *ast.File) map[string]bool {
		names := map[string]bool{}
		for _, name := range file.Unresolved {
			names[name.Name] = !imported[name.Name]
		}
		return names
	}
	for name := range unresolved(file) {
		if known[name] != "" && !imported[name] {
			declared += known[name] + "\n"
		}
	}
	if file, err = parser.ParseFile(fset, "", head+declared+source, 0); err != nil {
		return "", nil, err
	}
	needed = importsOf(file)
	for name, missing := range unresolved(file) {
		if path := imports[name]; missing && path != "" {
			head += fmt.Sprintf("import %s %q\n", name, path)
			needed = append(needed, path)
		}
	}
	return head + declared + source, needed, nil
}

// asFunction returns statements as a function that uses all variables that they declare.
func asFunction(body, position string) (string, error) {
	wrap := func(result, end string) string { return "func _() " + result + " {\n" + position + body + end + "}\n" }
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+wrap("", ""), 0)
	if err != nil {
		return "", err
	}
	f := file.Decls[0].(*ast.FuncDecl)
	result, end := "", ""
	use := func(e ast.Expr) {
		if name, ok := e.(*ast.Ident); ok && name.Name != "_" {
			end += "_ = " + name.Name + "\n"
		}
	}
	for _, statement := range f.Body.List {
		switch s := statement.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				for _, e := range s.Lhs {
					use(e)
				}
			}
		case *ast.DeclStmt:
			for _, spec := range s.Decl.(*ast.GenDecl).Specs {
				if values, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range values.Names {
						use(name)
					}
				}
			}
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.ReturnStmt); ok && len(s.Results) > 0 {
			result = "error"
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	if result != "" {
		end += "return nil\n"
	}
	return wrap(result, end), nil
}

func importsOf(file *ast.File) (paths []string) {
	for _, spec := range file.Imports {
		paths = append(paths, importPath(spec))
	}
	return paths
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return p
}

// importName returns the name that an import has in its file, as it is usual: "redis" for
// github.com/redis/go-redis/v9.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	p := importPath(spec)
	name := path.Base(p)
	if regexp.MustCompile(`^v\d+$`).MatchString(name) {
		name = path.Base(path.Dir(p))
	}
	return strings.TrimPrefix(strings.TrimSuffix(name, ".v3"), "go-")
}

// knownImports returns the packages of the repository, and those that its files import, by name.
// Packages of ours win, then the standard library.
func knownImports(t *testing.T) map[string]string {
	t.Helper()
	own, standard, others := map[string]string{"stint": module}, map[string]string{}, map[string]string{}
	for _, name := range testkit.Files(t, root) {
		if path.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
			continue
		}
		file := testkit.Must(parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly))(t)
		for _, spec := range file.Imports {
			switch p, as := importPath(spec), importName(spec); {
			case strings.HasPrefix(p, module+"/") && !strings.Contains(p, "/internal/"):
				own[as] = p
			case strings.HasPrefix(p, module):
			case !strings.Contains(p, "."):
				standard[as] = p
			default:
				others[as] = p
			}
		}
	}
	maps.Copy(others, standard)
	maps.Copy(others, own)
	return others
}

// A goModule is one of the modules of the repository.
type goModule struct {
	directory string // relative to the root of the repository
	required  []string
}

func (m goModule) requires(paths []string) bool {
	return !slices.ContainsFunc(paths, func(p string) bool {
		return strings.Contains(strings.Split(p, "/")[0], ".") && !slices.ContainsFunc(m.required, func(r string) bool {
			return p == r || strings.HasPrefix(p, r+"/")
		})
	})
}

// knownModules returns the modules, the main one and that of the benchmarks first.
func knownModules(t *testing.T) []goModule {
	t.Helper()
	var list []goModule
	for _, name := range testkit.Files(t, root) {
		if path.Base(name) != "go.mod" || strings.HasPrefix(name, "tools/") {
			continue
		}
		text := testkit.ReadFile(t, filepath.Join(root, name))
		m := goModule{directory: path.Dir(name), required: []string{module}}
		for _, found := range regexp.MustCompile(`(?m)^(?:\t|require )(\S+) v\S+$`).FindAllStringSubmatch(text, -1) {
			m.required = append(m.required, found[1])
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b goModule) int { return len(a.directory) - len(b.directory) })
	return list
}

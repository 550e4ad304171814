package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// symbols are the names that a package declares: "T", and "T.M" for its methods and fields.
type symbols map[string]bool

// TestDocLinks: a link in a comment, such as [stint.Limit.Name], names something that exists.
// Packages of others are not looked at.
func TestDocLinks(t *testing.T) {
	fset := token.NewFileSet()
	files, packages := map[string]*ast.File{}, map[string]symbols{}
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || otherModule(name) || strings.Contains(name, "testdata/") {
			return
		}
		file, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
		if packages[path.Dir(name)] == nil {
			packages[path.Dir(name)] = symbols{}
		}
		packages[path.Dir(name)].add(file)
	})
	for name, file := range files {
		for _, link := range danglingLinks(file, path.Dir(name), packages) {
			t.Errorf("%s: [%s] names nothing", name, link)
		}
	}
}

func (s symbols) add(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			s[name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						s[name.Name] = true
					}
				case *ast.TypeSpec:
					s[spec.Name.Name] = true
					s.addMembers(spec)
				}
			}
		}
	}
}

func (s symbols) addMembers(spec *ast.TypeSpec) {
	var list *ast.FieldList
	switch t := spec.Type.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			s[spec.Name.Name+"."+name.Name] = true
		}
		if len(field.Names) == 0 { // embedded: what it brings along is not looked at
			s[spec.Name.Name+".*"] = true
		}
	}
}

// docLink is a link to a name, with its package or without.
var docLink = regexp.MustCompile(`\[\*?((?:([a-z]\w*)\.)?([A-Z]\w*(?:\.[A-Z]\w*)?))\]`)

// danglingLinks returns the links in the comments of a file that name nothing in a package of the
// module.
func danglingLinks(file *ast.File, dir string, packages map[string]symbols) (wrong []string) {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		if inModule, ok := strings.CutPrefix(imported, module); ok && spec.Name == nil {
			imports[path.Base(imported)] = path.Clean("." + inModule)
		}
	}
	for _, group := range file.Comments {
		for line := range strings.Lines(group.Text()) {
			if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  ") {
				continue // code
			}
			for _, at := range docLink.FindAllStringSubmatchIndex(line, -1) {
				before, after := line[:at[0]], line[at[1]:]
				if before != "" && indexed(before[len(before)-1]) ||
					after != "" && (after[0] == '(' || indexed(after[0])) {
					continue // an index, a type or a link of Markdown
				}
				of, name := dir, line[at[6]:at[7]]
				if at[4] >= 0 {
					pkg := line[at[4]:at[5]]
					if of = imports[pkg]; of == "" && packages[pkg] != nil {
						of = pkg // a public package that the file does not import
					}
				}
				member, _, _ := strings.Cut(name, ".")
				if known := packages[of]; len(known) > 0 && !known[name] && !known[member+".*"] {
					wrong = append(wrong, line[at[2]:at[3]])
				}
			}
		}
	}
	return wrong
}

// indexed reports whether a bracket beside it makes the character part of code.
func indexed(c byte) bool {
	return c == '_' || c == ']' || c == ')' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

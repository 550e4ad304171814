package driver

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestAliasesListFields: the types are aliases of internal ones, so that only their comments show
// the fields to authors of stores.
func TestAliasesListFields(t *testing.T) {
	file := testkit.Must(parser.ParseFile(token.NewFileSet(), "charge.go", nil, parser.ParseComments))(t)
	for name, of := range map[string]reflect.Type{"Terms": reflect.TypeFor[Terms](),
		"ChargeData": reflect.TypeFor[ChargeData](), "OtherStates": reflect.TypeFor[OtherStates]()} {
		comment := commentOf(file, name)
		for i := range of.NumField() {
			if field := of.Field(i).Name; !strings.Contains(comment, field) {
				t.Errorf("the comment of %s has no %s", name, field)
			}
		}
	}
}

func commentOf(file *ast.File, name string) string {
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && g.Specs[0].(*ast.TypeSpec).Name.Name == name {
			return g.Doc.Text()
		}
	}
	return ""
}

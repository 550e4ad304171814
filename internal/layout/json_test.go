package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// otherUnit is how a field would be called whose length of time is not in seconds, or does not say.
var otherUnit = regexp.MustCompile(`_(ms|us|ns|millis|minutes|hours)$|^(retry_after|reset_after|window|p50|p99|budget)$`)

// TestJSONDurations: a length of time in JSON is a number of seconds, and the field's name ends in
// _seconds. Shares of limits have quantiles too, but no unit.
func TestJSONDurations(t *testing.T) {
	shares := map[string]bool{"internal/simulate/result.go": true}
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "bench/") {
			return
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			tag, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				t.Fatal(err)
			}
			key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			if key == "" || key == "-" {
				return true
			}
			if isDuration(field.Type) && !strings.HasSuffix(key, "_seconds") ||
				otherUnit.MatchString(key) && isFloat(field.Type) && !shares[name] {
				t.Errorf("%s: %q: want a number of seconds, and a name that ends in _seconds", files.Position(field.Pos()), key)
			}
			return true
		})
	})
}

// isDuration reports whether a type is time.Duration, or one of its name, or a list of these.
func isDuration(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "Duration"
	case *ast.Ident:
		return strings.EqualFold(e.Name, "duration")
	case *ast.ArrayType:
		return isDuration(e.Elt)
	case *ast.StarExpr:
		return isDuration(e.X)
	}
	return false
}

func isFloat(e ast.Expr) bool {
	if pointer, ok := e.(*ast.StarExpr); ok {
		e = pointer.X
	}
	name, ok := e.(*ast.Ident)
	return ok && (name.Name == "float64" || name.Name == "int64")
}

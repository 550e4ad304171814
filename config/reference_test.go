package config

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

var update = flag.Bool("update", false, "write schema.json and the tables of keys in docs/configuration.md")

const (
	schemaFile = "schema.json"
	guideFile  = "../docs/configuration.md"
	keysBegin  = "<!-- keys -->\n"
	keysEnd    = "<!-- /keys -->\n"
)

// TestReference makes the schema and the tables of keys from the comments in document.go.
func TestReference(t *testing.T) {
	l := parseLanguage(t)
	fresh := func(file string, want []byte) {
		t.Helper()
		got := testkit.Must(os.ReadFile(file))(t)
		if bytes.Equal(got, want) {
			return
		}
		if !*update {
			t.Errorf("%s is not what document.go says; run go test ./config -run TestReference -update", file)
			return
		}
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fresh(schemaFile, l.schema(t))

	guide := testkit.Must(os.ReadFile(guideFile))(t)
	before, rest, begun := strings.Cut(string(guide), keysBegin)
	_, after, ended := strings.Cut(rest, keysEnd)
	if !begun || !ended {
		t.Fatalf("%s: no %q or no %q", guideFile, keysBegin, keysEnd)
	}
	fresh(guideFile, []byte(before+keysBegin+l.tables()+keysEnd+after))
}

// language is what document.go says.
type language struct {
	structs map[string][]keyDoc
}

// keyDoc is a key of the language.
type keyDoc struct {
	key, typ, doc string
}

// words returns what stands in backquotes in a key's comment.
func (k keyDoc) words() []string {
	var words []string
	for i, part := range strings.Split(k.doc, "`") {
		if i%2 == 1 {
			words = append(words, part)
		}
	}
	return words
}

func parseLanguage(t *testing.T) *language {
	t.Helper()
	tree := testkit.Must(parser.ParseFile(token.NewFileSet(), "document.go", nil, parser.ParseComments))(t)
	l := &language{structs: map[string][]keyDoc{}}
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		structure, ok := spec.Type.(*ast.StructType)
		if !ok {
			return false
		}
		for _, f := range structure.Fields.List {
			if f.Tag == nil {
				continue
			}
			key := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("yaml")
			if key == "-" {
				continue
			}
			doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
			l.structs[spec.Name.Name] = append(l.structs[spec.Name.Name], keyDoc{key, types.ExprString(f.Type), doc})
		}
		return false
	})
	return l
}

// tables returns a table of keys for every structure, each where it is first used.
func (l *language) tables() string {
	var b strings.Builder
	titles := map[string]string{"document": "the top level"}
	order := []string{"document"}
	for i := 0; i < len(order); i++ {
		for _, k := range l.structs[order[i]] {
			name := elementOf(k.typ)
			if _, seen := titles[name]; l.structs[name] != nil && !seen {
				titles[name] = "`" + k.key + "`"
				order = append(order, name)
			}
		}
	}
	for _, name := range order {
		fmt.Fprintf(&b, "\n### Keys of %s\n\n| key | value | meaning |\n|---|---|---|\n", titles[name])
		for _, k := range l.structs[name] {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.key, valueOf(k.typ, titles),
				strings.ReplaceAll(k.doc, "|", "\\|"))
		}
	}
	b.WriteString("\n")
	return b.String()
}

// elementOf returns the type of what a pointer, list or mapping holds.
func elementOf(typ string) string {
	if typ == "ruleLimits" || typ == "tierLimits" {
		return "limitDoc"
	}
	for _, prefix := range []string{"*", "[]", "map[string]"} {
		typ = strings.TrimPrefix(typ, prefix)
	}
	return typ
}

// valueOf describes a type for the table of keys.
func valueOf(typ string, titles map[string]string) string {
	if title, ok := titles[elementOf(typ)]; ok {
		plain := strings.Trim(title, "`")
		link := fmt.Sprintf("[keys](#keys-of-%s)", plain)
		switch {
		case typ == "ruleLimits":
			return "limit, mapping (" + link + "), or list"
		case typ == "tierLimits":
			return "limit, mapping (" + link + "), list, or tiers to those"
		case strings.HasPrefix(typ, "[]"):
			return "list of mappings, " + link
		case strings.HasPrefix(typ, "map"):
			return "names to mappings, " + link
		case elementOf(typ) == "costDoc":
			return "whole number or mapping, " + link
		}
		return "mapping, " + link
	}
	switch typ {
	case "map[string]string":
		return "names to strings"
	case "map[string]int64":
		return "names to whole numbers"
	case "map[string]list":
		return "names to strings or lists"
	case "[]duration":
		return "list of durations"
	}
	return map[string]string{
		"string": "string", "bool": "true or false", "int64": "whole number", "duration": "duration",
		"percent": "percentage", "budget": "duration or `strict`",
		"size": "size", "failureMode": "word", "list": "string or list", "limitList": "limit or list",
		"statuses": "status or list", "shares": "percentage or list",
	}[elementOf(typ)]
}

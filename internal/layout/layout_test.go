// Package layout has no code: its tests hold the repository to the rules that a
// compiler does not know. Which package may import which, that those which only
// tests need stay out of what users compile, and that no file speaks of the
// machine it was written on.
package layout

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/stint-limiter/stint"
)

// levels orders the packages: code may import its own level and those before
// it. A name stands for the packages under it too.
var levels = [][]string{
	{"."},
	{"internal"},
	{"memorystore", "redisstore", "resilience"},
	{"policy", "outbound", "httplimit", "grpclimit", "observe", "simulate"},
	{"server"},
	{"cmd", "examples"},
}

var (
	// standardOnly are the packages that need nothing but the standard library.
	standardOnly = []string{".", "internal/algorithm", "internal/clientip", "internal/seldom", "internal/words"}
	// strangers do not import each other: each can be used without the others.
	strangers = []string{"memorystore", "redisstore"}
	// forTests are imported by tests, and by each other.
	forTests = []string{"storetest", "faults", "internal/oracle", "internal/redistest", "internal/layout", "internal/logtest", "internal/golden", "internal/eventually", "internal/browsertest", "internal/whatwg", "internal/proxytest", "simulate/simulatetest"}
)

func TestImportDirection(t *testing.T) {
	for _, imp := range imports(t) {
		if why := objection(imp.from, imp.path); why != "" {
			t.Errorf("%s imports %s: %s", imp.file, imp.path, why)
		}
	}
}

func TestObjection(t *testing.T) {
	tests := []struct {
		from, to string
		want     string
	}{
		{".", "context", ""},
		{".", "golang.org/x/sync", "standard library only"},
		{".", module + "/memorystore", "upwards"},
		{"internal/algorithm", module, ""},
		{"internal/algorithm", "github.com/redis/rueidis", "standard library only"},
		{"internal/algorithm", module + "/redisstore", "upwards"},
		{"memorystore", module + "/internal/algorithm", ""},
		{"memorystore", module + "/redisstore", "do not know each other"},
		{"redisstore", "github.com/redis/rueidis", ""},
		{"redisstore", module + "/internal/redistest", "for tests"},
		{"internal/oracle", module + "/internal/algorithm", "what it checks"},
		{"internal/oracle", module, ""},
		{"storetest", module + "/internal/oracle", ""},
		{"server/gateway", module + "/server", ""},
		{"policy", module + "/server/api", "upwards"},
		{"simulate", module + "/policy", ""},
		{"simulate", module + "/simulate/simulatetest", "for tests"},
		{"simulate/accesslog", module + "/internal/clientip", ""},
		{"simulate/report", module + "/simulate", ""},
		{"simulate/report", module + "/server/dashboard", "upwards"},
		{"internal/loggen", module + "/simulate/accesslog", "upwards"},
		{"cmd/stint", module + "/server", ""},
		{"elsewhere", module, "no level"},
	}
	for _, test := range tests {
		got := objection(test.from, test.to)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s imports %s: got %q, want %q", test.from, test.to, got, test.want)
		}
	}
}

// objection says why package from may not import the path, or "".
func objection(from, imported string) string {
	to, inModule := strings.CutPrefix(imported, module)
	if !inModule {
		thirdParty := strings.Contains(strings.Split(imported, "/")[0], ".")
		if thirdParty && slices.Contains(standardOnly, from) {
			return "it needs the standard library only"
		}
		return ""
	}
	to = path.Clean("." + to)
	switch {
	case from == "internal/oracle" && to == "internal/algorithm":
		return "the oracle shares nothing with what it checks"
	case under(from, forTests):
		return ""
	case under(to, forTests):
		return "that package is for tests"
	case level(from) < 0 || level(to) < 0:
		return "a package has no level: give it one in this test"
	case level(to) > level(from):
		return "that is upwards"
	case from != to && under(from, strangers) && under(to, strangers):
		return "stores do not know each other"
	}
	return ""
}

func TestNoMachinePaths(t *testing.T) {
	machine := regexp.MustCompile(`(^|[^\w.\-/])/(?:work|root|home|Users)/\w`)
	walk(t, func(name string) {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(data, 0) >= 0 {
			return // not text
		}
		n := 0
		for line := range strings.Lines(string(data)) {
			n++
			if machine.MatchString(line) {
				t.Errorf("%s:%d: %s", name, n, strings.TrimSpace(line))
			}
		}
	})
}

type imported struct {
	file string // relative to the root of the repository
	from string // the directory of the file, "." for the root
	path string
}

// imports returns what all files but tests import, whatever their build tags.
func imports(t *testing.T) []imported {
	t.Helper()
	var list []imported
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || otherModule(name) {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, imported{file: name, from: path.Dir(name), path: p})
		}
	})
	return list
}

// walk calls f with the slash-separated name of every file of the repository.
func walk(t *testing.T, f func(name string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || d.Name() == "bin"):
			return fs.SkipDir
		case d.Type().IsRegular():
			f(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// otherModule reports whether a file belongs to a module of its own.
func otherModule(name string) bool {
	return under(path.Dir(name), []string{"bench", "tools", "examples/routers"})
}

// level returns the place of a package in levels, or -1.
func level(pkg string) int {
	return slices.IndexFunc(levels, func(names []string) bool { return under(pkg, names) })
}

// under reports whether pkg is one of the names or below one. Nothing but the
// root is below the root.
func under(pkg string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return pkg == name || strings.HasPrefix(pkg, name+"/")
	})
}

// Package layout is for contributors. It has no code, only tests of rules that the compiler does
// not check: which package may import which, what only tests may import, that links in Markdown lead
// somewhere, that no page shows a password on a command line, and that releases are pinned and
// attested. Give a new package its level in this file.
package layout

import (
	"go/parser"
	"go/token"
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

const (
	root   = "../.."
	module = "github.com/stint-limiter/stint"
)

// levels orders the packages: a package may import its own level and those above it in this list. A
// name includes the packages below it, unless they are listed themselves.
var levels = [][]string{
	// Beside the root package those that it imports.
	{
		".",
		"internal/protocol",
		"internal/calendar",
		"internal/logsample",
		"internal/label",
		"internal/keypart",
		"internal/syntax", "internal/messages",
	},
	{"driver"},
	{"internal"},
	{"memorystore", "redisstore", "resilience"},
	{"outbound", "stores"},
	{"policy", "internal/changes", "internal/middleware"},
	{"httplimit", "grpclimit", "observe", "overrides"},
	{"config"},
	{"internal/simulate", "internal/server", "internal/setinfo", "dashboard"},
	{"server"},
	{"cmd", "examples"},
	{"redisstore/goredis"}, // nothing of ours compiles go-redis
}

var (
	// standardOnly are the packages that import no third-party package.
	standardOnly = []string{
		".", "driver", "policy", "internal/algorithm", "internal/clientip", "internal/logsample",
		"internal/protocol",
		"internal/syntax", "internal/messages",
	}
	// stores do not import each other: each can be used without the other.
	stores = []string{"memorystore", "redisstore"}
	// forTests are imported only by tests and by each other.
	forTests = []string{
		"storetest", "faults", "internal/doctest", "internal/browsertest", "internal/guardtest", "internal/layout",
		"internal/oracle", "internal/proxytest", "internal/redistest", "internal/testkit", "internal/whatwg", "internal/xdstest",
		"internal/server/e2e",
	}
)

func TestImportDirection(t *testing.T) {
	for _, imp := range imports(t) {
		if reason := forbidden(imp.from, imp.path); reason != "" {
			t.Errorf("%s imports %s: %s", imp.file, imp.path, reason)
		}
	}
}

// forbidden returns why package from may not import the path, or "" if it may.
func forbidden(from, imported string) string {
	to, inModule := strings.CutPrefix(imported, module)
	if !inModule {
		thirdParty := strings.Contains(strings.Split(imported, "/")[0], ".")
		if thirdParty && slices.Contains(standardOnly, from) {
			return "it may import only the standard library"
		}
		return ""
	}
	to = path.Clean("." + to)
	switch {
	case from == "internal/oracle" && to == "internal/algorithm":
		return "the oracle shares no code with what it checks"
	case under(from, forTests):
		return ""
	case under(to, forTests):
		return "only tests may import that package"
	case level(from) < 0 || level(to) < 0:
		return "one of the packages has no level: add it to levels"
	case level(to) > level(from):
		return "that package is on a higher level"
	case under(from, stores) && under(to, stores) && !under(from, []string{to}):
		return "stores do not import each other"
	}
	return ""
}

func TestNoMachinePaths(t *testing.T) {
	machine := regexp.MustCompile(`(^|[^\w.\-/])/(?:work|root|home|Users)/\w`)
	for _, name := range testkit.Files(t, root) {
		text := readPage(t, name)
		if strings.ContainsRune(text, 0) {
			continue // not text
		}
		n := 0
		for line := range strings.Lines(text) {
			n++
			if machine.MatchString(line) {
				t.Errorf("%s:%d: %s", name, n, strings.TrimSpace(line))
			}
		}
	}
}

// compiled are the packages of others that a program compiles when it uses one of ours, by their
// beginnings. A YAML reader, a file watcher or gRPC among them would be a mistake.
var compiled = map[string][]string{
	".":           nil,
	"policy":      nil,
	"memorystore": nil,
	"redisstore":  {"github.com/redis/rueidis", "golang.org/x/sys/cpu"},
	"stores":      {"github.com/redis/rueidis", "golang.org/x/sys/cpu"},
	"httplimit":   {"github.com/dunglas/httpsfv", "golang.org/x/sys/unix"},
	"grpclimit": {"google.golang.org/grpc", "google.golang.org/genproto", "google.golang.org/protobuf",
		"golang.org/x/net", "golang.org/x/sys/unix", "golang.org/x/text"},
}

func TestCompiledPackages(t *testing.T) {
	args := []string{"list", "-f", "{{.ImportPath}} {{join .Deps \" \"}}"}
	for pkg := range compiled {
		args = append(args, "./"+pkg)
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir = root
	output := testkit.Must(list.Output())(t)
	for line := range strings.Lines(string(output)) {
		names := strings.Fields(line)
		pkg := path.Clean("." + strings.TrimPrefix(names[0], module))
		for _, dependency := range names[1:] {
			begins := func(prefix string) bool { return strings.HasPrefix(dependency, prefix) }
			standard := !strings.Contains(strings.Split(dependency, "/")[0], ".")
			if !standard && !begins(module) && !slices.ContainsFunc(compiled[pkg], begins) {
				t.Errorf("%s compiles %s; want nothing but %q", pkg, dependency, compiled[pkg])
			}
		}
	}
}

type imported struct {
	file string // relative to the root of the repository
	from string // the directory of the file, "." for the root
	path string
}

// imports returns what the files that are not tests import, whatever their build tags.
func imports(t *testing.T) []imported {
	t.Helper()
	var list []imported
	for _, name := range testkit.Files(t, root) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || otherModule(name) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			p := testkit.Must(strconv.Unquote(spec.Path.Value))(t)
			list = append(list, imported{file: name, from: path.Dir(name), path: p})
		}
	}
	return list
}

// otherModule reports whether a file belongs to a module of its own.
func otherModule(name string) bool {
	return under(path.Dir(name), []string{"bench", "deploy/test", "examples/routers", "tools"})
}

// level returns the index in levels of the longest name that a package is under, or -1.
func level(pkg string) int {
	found, length := -1, -1
	for i, names := range levels {
		for _, name := range names {
			if under(pkg, []string{name}) && len(name) > length {
				found, length = i, len(name)
			}
		}
	}
	return found
}

// under reports whether pkg is one of the names or below one. Only the root itself is under ".".
func under(pkg string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return pkg == name || strings.HasPrefix(pkg, name+"/")
	})
}

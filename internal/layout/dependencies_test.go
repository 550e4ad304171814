package layout

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

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
	for pkg, allowed := range compiled {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
			"{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+pkg)
		list.Dir = root
		output, err := list.Output()
		if err != nil {
			t.Fatalf("%s: %v", pkg, err)
		}
		for _, dependency := range strings.Fields(string(output)) {
			begins := func(prefix string) bool { return strings.HasPrefix(dependency, prefix) }
			if !begins(module) && !slices.ContainsFunc(allowed, begins) {
				t.Errorf("%s compiles %s; want nothing but %q", pkg, dependency, allowed)
			}
		}
	}
}

package proxytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BuildStint returns the path of the stint program. It builds the program unless STINT_BINARY holds
// the path; make test sets STINT_BINARY so that the program is built once for all packages.
func BuildStint(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the program as a process: make test runs it")
	}
	if built := os.Getenv("STINT_BINARY"); built != "" {
		return built
	}
	const module = "github.com/stint-limiter/stint"
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "stint")
	build := exec.Command("go", "build", "-o", path, module+"/cmd/stint")
	build.Dir = strings.TrimSpace(string(root)) // the test's module may lack stint's dependencies
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// Stint is a limiter that runs as a process.
type Stint struct {
	path    string
	args    []string
	Address string // address at which stint serves HTTP
	*Process
}

// NewStint returns a limiter that has not been started. Each start begins with an empty store in
// memory, unless the arguments select another store.
func NewStint(t testing.TB, path string, args ...string) *Stint {
	t.Helper()
	s := &Stint{path: path, Address: FreeAddress(t)}
	s.args = append([]string{"serve", "--store", "memory", "--http", s.Address, "--admin", ""}, args...)
	return s
}

// Start starts the limiter and waits until it answers requests.
func (s *Stint) Start(t testing.TB) {
	t.Helper()
	s.Process = Launch(t, nil, s.path, s.args...)
	s.AwaitReady(t, "http://"+s.Address+"/readyz")
}

package proxytest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/eventually"
)

// BuildStint returns the path of the program. It builds the program, unless STINT_BINARY says where
// it is: make test builds it once for all packages.
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
	build.Dir = strings.TrimSpace(string(root)) // other modules do not have what it needs
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// Stint is a limiter.
type Stint struct {
	path    string
	args    []string
	Address string // of HTTP
	*Process
}

// NewStint returns a limiter that has not been started. Its store is an empty one in memory at each
// start, unless the arguments say otherwise.
func NewStint(t testing.TB, path string, args ...string) *Stint {
	t.Helper()
	s := &Stint{path: path, Address: FreeAddress(t)}
	s.args = append([]string{"serve", "--store", "memory", "--http", s.Address, "--admin", ""}, args...)
	return s
}

// Start returns when requests are answered.
func (s *Stint) Start(t testing.TB) {
	t.Helper()
	s.Process = Launch(t, nil, s.path, s.args...)
	eventually.Nil(t, "stint is ready", func() error {
		resp, err := http.Get("http://" + s.Address + "/readyz")
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz: %s", resp.Status)
		}
		return nil
	})
}

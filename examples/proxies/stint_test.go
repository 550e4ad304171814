package proxies

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stint-limiter/stint/internal/eventually"
)

// buildStint builds the program, and returns its path.
func buildStint(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stint")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/stint").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// stint is a limiter.
type stint struct {
	path    string
	args    []string
	address string // of HTTP
	*process
}

// newStint returns a limiter with the shipped configuration, and an empty store in memory whenever it is started, unless the
// arguments say otherwise. It has not been started.
func newStint(t *testing.T, path string, args ...string) *stint {
	t.Helper()
	s := &stint{path: path, address: freeAddress(t)}
	s.args = append([]string{"serve", "--store", "memory", "--config", "stint.yaml", "--http", s.address, "--admin", ""}, args...)
	return s
}

// start returns when requests are answered.
func (s *stint) start(t *testing.T) {
	t.Helper()
	s.process = launch(t, nil, s.path, s.args...)
	eventually.Nil(t, "stint is ready", func() error {
		resp, err := http.Get("http://" + s.address + "/readyz")
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

// pause has stint accept connections and answer none.
func (s *stint) pause(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

package proxies

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stint-limiter/stint/internal/eventually"
)

// find returns the path of a program, and fails the test without it.
func find(t *testing.T, name, debian string) string {
	t.Helper()
	for _, at := range []string{name, filepath.Join("/usr/sbin", name)} { // which not all users search
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	t.Fatalf("%s not found: apt-get install %s, or run make setup", name, debian)
	return ""
}

// process is a program that runs until the test ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// launch runs a program. What it writes is shown if the test fails.
func launch(t *testing.T, env []string, path string, args ...string) *process {
	t.Helper()
	var out output
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in what it wrote
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(path), out.String())
		}
	})
	return p
}

// kill ends the process, and returns when it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// output is what a process wrote.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func stderrOf(err error) []byte {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.Stderr
	}
	return nil
}

// freeAddress returns an address of this host that nobody listens on. Its port is none of those that the system hands out by
// itself: another test's server would take it before ours does.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 200 {
		address := fmt.Sprintf("127.0.0.1:%d", 22000+rand.IntN(8000))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port found")
	return ""
}

// awaitDial returns when somebody listens on an address.
func awaitDial(t *testing.T, address string) {
	t.Helper()
	eventually.Nil(t, "somebody listens on "+address, func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

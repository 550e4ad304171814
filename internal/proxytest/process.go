// Package proxytest runs nginx, Caddy and HAProxy with the configurations in examples/proxies,
// stint itself, and other programs, as processes that end with the test. If a program is missing,
// the test fails. With -short, the test is skipped.
package proxytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// Find returns the path of a program. If the program is not installed, Find fails the test with a
// message that names the Debian package.
func Find(t testing.TB, name, debian string) string {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s: make test runs it", name)
	}
	// /usr/sbin is not in every user's PATH.
	for _, at := range []string{name, filepath.Join("/usr/sbin", name)} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	t.Fatalf("%s not found: apt-get install %s, or run make setup", name, debian)
	return ""
}

// Process is a running program. It is killed when the test ends.
type Process struct {
	Cmd  *exec.Cmd
	Done chan struct{} // closed when the program has ended; Cmd.ProcessState then holds the result
}

// Launch runs a program with the environment of the test, to which it adds env. The output of the
// program is shown if the test fails.
func Launch(t testing.TB, env []string, path string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	return Run(t, cmd)
}

// Run is like [Launch], but takes a command whose environment the caller has set.
func Run(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	var out testkit.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd, make(chan struct{})}
	go func() {
		defer close(p.Done)
		_ = cmd.Wait() // the output of the process shows why it ended
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(cmd.Path), out.String())
		}
	})
	return p
}

// Kill kills the process and waits for it to end.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended already
	<-p.Done
}

// AwaitReady waits until the process answers requests for a URL with status 200. If the process
// ends first, the test fails.
func (p *Process) AwaitReady(t testing.TB, url string) {
	t.Helper()
	testkit.EventuallyNil(t, url, func() error {
		select {
		case <-p.Done:
			t.Fatal("the program has ended")
		default:
		}
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

// Pause stops the process. The system still accepts connections for it, but nothing answers them.
func (p *Process) Pause(t testing.TB) {
	t.Helper()
	if err := p.Cmd.Process.Signal(redistest.Stop); err != nil {
		t.Fatal(err)
	}
	redistest.AwaitStopped(p.Cmd.Process.Pid)
}

// FreeAddress returns an unused address of this host. Its port is below the range from which the
// system assigns ports, and above the ports that redistest uses for servers and cluster buses. It
// does not begin with the digits 3000, because tests replace the address 127.0.0.1:3000 in shipped
// files. A UDP socket reserves the address until the test ends, so that no other test, in any
// process, gets it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 200 {
		address := fmt.Sprintf("127.0.0.1:%d", 30_100+rand.IntN(2_668))
		reserved, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		t.Cleanup(func() { reserved.Close() })
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port found")
	return ""
}

// AwaitDial waits until an address accepts connections.
func AwaitDial(t testing.TB, address string) {
	t.Helper()
	testkit.EventuallyNil(t, "a server listens on "+address, func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

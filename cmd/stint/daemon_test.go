package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// buildBinary builds the real program, with a version from the linker.
func buildBinary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the program as a process: make test runs it")
	}
	binary := filepath.Join(t.TempDir(), "stint")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-X main.release=v9.8.7", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// daemon is a process of the real program that serves.
type daemon struct {
	t       *testing.T
	cmd     *exec.Cmd
	states  chan string  // its notifications for the service manager
	pipe    *os.File     // its standard error
	stall   sync.RWMutex // while it is locked, the log is not read
	reading sync.WaitGroup
	log     testkit.Buffer
	mu      sync.Mutex
	address map[server.Listener]string
	ended   chan struct{}
}

// launch starts a daemon on free ports of this machine and returns when the daemon is ready. A
// daemon that is still running when the test ends is killed.
func launch(t *testing.T, binary string, args ...string) *daemon {
	t.Helper()
	return launchWith(t, binary, []string{redisEnv + "="}, append(args, "--admin=127.0.0.1:0")...)
}

// launchWith is like launch, but adds env to the environment and adds no flags to args.
func launchWith(t *testing.T, binary string, env []string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, address: map[server.Listener]string{}, states: make(chan string, 16), ended: make(chan struct{})}
	// Not t.TempDir, because the path of a socket must be short.
	directory := testkit.Must(os.MkdirTemp("", "stint"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	socket := filepath.Join(directory, "notify")
	manager, err := net.ListenPacket("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	go d.listen(manager) // ends when manager is closed

	d.cmd = exec.Command(binary, args...)
	d.cmd.Env = append(append(os.Environ(), notifyEnv+"="+socket), env...)
	var stderr *os.File
	if d.pipe, stderr, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	d.cmd.Stderr = stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = stderr.Close() // the daemon has its own copy
	d.reading.Go(d.read)
	go func() {
		_ = d.cmd.Wait() // ProcessState has the result
		close(d.ended)
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill() // fails if the daemon has ended
		<-d.ended
		d.reading.Wait()
		_ = d.pipe.Close()
		if t.Failed() {
			t.Logf("log of %v:\n%s", args, d.log.String())
		}
	})
	if got := d.state(); got != "READY=1" {
		t.Fatalf("notified %q, want that it is ready", got)
	}
	return d
}

// listen receives the daemon's notifications for the service manager.
func (d *daemon) listen(manager net.PacketConn) {
	b := make([]byte, 1024)
	for {
		n, _, err := manager.ReadFrom(b)
		if err != nil {
			return
		}
		d.states <- string(b[:n])
	}
}

// state returns the next notification for the service manager.
func (d *daemon) state() string {
	d.t.Helper()
	select {
	case state := <-d.states:
		return state
	case <-d.ended:
		d.t.Fatalf("it has ended: %v", d.cmd.ProcessState)
	case <-time.After(2 * time.Minute):
		d.t.Fatal("it says nothing")
	}
	return ""
}

// waitReady waits until /readyz responds with the status want. That may be after the service
// manager is notified.
func (d *daemon) waitReady(want int) {
	d.t.Helper()
	testkit.Eventually(d.t, fmt.Sprintf("/readyz is %d", want), func() bool {
		status, _ := d.get(server.HTTP, "/readyz")
		return status == want
	})
}

// Read reads standard error. It blocks while stall is locked.
func (d *daemon) Read(p []byte) (int, error) {
	n, err := d.pipe.Read(p)
	d.stall.RLock()
	defer d.stall.RUnlock()
	return n, err
}

// read reads the log, and the addresses of listeners in it.
func (d *daemon) read() {
	for lines := bufio.NewScanner(d); lines.Scan(); {
		line := lines.Text()
		fmt.Fprintln(&d.log, line)
		d.mu.Lock()
		if _, fields, ok := strings.Cut(line, "listener="); ok {
			if name, address, ok := strings.Cut(fields, " address="); ok {
				d.address[server.Listener(name)] = address
			}
		}
		d.mu.Unlock()
	}
}

// at returns the address of a listener. The daemon has logged it when it is ready, but read may not
// have read it yet.
func (d *daemon) at(listener server.Listener) (address string) {
	d.t.Helper()
	testkit.Eventually(d.t, "there is a listener "+string(listener), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		address = d.address[listener]
		return address != ""
	})
	return address
}

func (d *daemon) signal(sig syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.t.Fatal(err)
	}
}

// exit waits until the daemon ends, and returns its exit code. By then, all of the log has been
// read, unless stall is locked.
func (d *daemon) exit() int {
	d.t.Helper()
	select {
	case <-d.ended:
		if d.stall.TryRLock() {
			d.stall.RUnlock()
			d.reading.Wait()
		}
		return d.cmd.ProcessState.ExitCode()
	case <-time.After(2 * time.Minute):
		d.t.Fatal("it does not end")
		return 0
	}
}

func (d *daemon) post(path, body string) (int, string) {
	d.t.Helper()
	url := "http://" + d.at("HTTP") + path
	response, text := testkit.Fetch(d.t, http.DefaultClient, http.MethodPost, url, body, "Content-Type: application/json")
	return response.StatusCode, text
}

// get requests a path from a listener. To the admin listener, it sends the token that the daemon
// generated.
func (d *daemon) get(listener server.Listener, path string) (int, string) {
	d.t.Helper()
	if listener != server.Admin {
		return d.getWith(listener, path, "")
	}
	token, _, err := localToken()
	if err != nil {
		d.t.Fatal(err)
	}
	return d.getWith(listener, path, "Authorization: Bearer "+token)
}

// getWith requests a path from a listener. It sends the header field unless field is "".
func (d *daemon) getWith(listener server.Listener, path, field string) (int, string) {
	d.t.Helper()
	response, text := testkit.Fetch(d.t, http.DefaultClient, http.MethodGet, "http://"+d.at(listener)+path, "", field)
	return response.StatusCode, text
}

// Package redistest runs real Redis servers for tests: single, with TLS, under Sentinel, as a
// Cluster, and with an adjustable clock. A [Proxy] in front of them simulates a bad network. With
// -short, such tests are skipped.
//
//	func TestSomething(t *testing.T) {
//		srv := redistest.Start(t)
//		srv.CLI(t, "SET", "a", "1")
//		srv.Pause(t) // accepts connections, never answers
//		srv.Resume(t)
//	}
//
// Every server listens on a free loopback port, works in the test's temporary directory, stores
// nothing on disk and ends with the test. On Linux, it ends with the test binary if the test cannot
// clean up. Without -short, no test is skipped: if redis-server, or the server named in
// [BinaryEnv], is missing, the test fails.
//
// Methods that take a testing.TB fail the test when an action fails, so call them only from that
// test's own goroutine. [Server.Do] may be called from any goroutine.
package redistest

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// BinaryEnv is the environment variable that names another server to test against, for example
	// valkey-server. It is also used for sentinels and cluster nodes.
	BinaryEnv = "STINT_REDIS_SERVER"

	// startTimeout is long because a test machine may be busy; usually, a server is ready within 50
	// milliseconds.
	startTimeout = 30 * time.Second

	// Ports are below the range from which the system assigns ports to outgoing connections, so
	// that nothing takes the port of a server that a test has stopped and will restart. The port of
	// a cluster bus is 10,000 higher and never in this range.
	firstPort, lastPort = 10_000, 19_999
	busOffset           = 10_000
)

// Server is one redis-server process.
type Server struct {
	dir      string
	port     int
	conf     string   // path of a configuration file, or ""
	args     []string // all arguments except the port
	portFlag string   // "--port", or "--tls-port" with TLS
	env      []string // added to the environment of the test
	needsBus bool
	tls      *tls.Config
	password string
	clock    string // path of the file that sets a fake clock; "" if the clock is real
	proc     *process
}

// Start runs a server without persistence. The arguments are additional options, as on the command
// line, for example "--maxmemory", "2mb".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, args...)
	s.mustStart(t)
	return s
}

// newServer prepares a server and registers its cleanup.
func newServer(t testing.TB, args ...string) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Redis server: make test runs it")
	}
	s := prepare(t.TempDir(), args...)
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() && testing.Verbose() {
			t.Logf("log of redis on %s:\n%s", s.Addr(), s.logTail())
		}
	})
	return s
}

// prepare returns a server that has not been started.
func prepare(dir string, args ...string) *Server {
	s := &Server{dir: dir, portFlag: "--port"}
	s.args = append([]string{
		"--bind", "127.0.0.1",
		"--dir", s.dir,
		"--logfile", s.logFile(),
		"--daemonize", "no",
		"--save", "",
		"--appendonly", "no",
		"--repl-diskless-sync", "yes",
		"--repl-diskless-sync-delay", "0",
	}, args...)
	for i, arg := range args {
		if arg == "--requirepass" && i+1 < len(args) {
			s.password = args[i+1]
		}
	}
	return s
}

// Addr returns the server's address as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the server's port.
func (s *Server) Port() int { return s.port }

// URL returns the server's address as a redis:// or rediss:// URL.
func (s *Server) URL() string {
	scheme, user := "redis", ""
	if s.tls != nil {
		scheme = "rediss"
	}
	if s.password != "" {
		user = ":" + s.password + "@"
	}
	return scheme + "://" + user + s.Addr()
}

// TLS returns the configuration for clients of a server from [StartTLS]: the trusted certificate,
// and a client certificate. It is nil for other servers.
func (s *Server) TLS() *tls.Config { return s.tls.Clone() }

// Kill ends the server at once, as in a crash. If the server is not running, Kill does nothing.
func (s *Server) Kill() {
	if s.proc == nil {
		return
	}
	s.proc.signal(syscall.SIGKILL)
	<-s.proc.done
	s.proc = nil
}

// Restart kills the server if it is running, and starts it on the same port. Its data is lost; a
// cluster node or a sentinel keeps its identity.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.launch(); err != nil {
		t.Fatalf("redistest: restart: %v", err)
	}
}

// Pause stops the process: its port accepts connections, but no request is answered until
// [Server.Resume].
func (s *Server) Pause(t testing.TB) {
	s.mustSignal(t, Stop)
	AwaitStopped(s.proc.pid)
}

// Resume ends a [Server.Pause].
func (s *Server) Resume(t testing.TB) { s.mustSignal(t, Continue) }

func (s *Server) mustSignal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if s.proc == nil {
		t.Fatalf("redistest: %v: server %s is not running", sig, s.Addr())
	}
	s.proc.signal(sig)
}

func (s *Server) mustStart(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// errPortTaken means that another process took the port between the check and the server's start.
var errPortTaken = errors.New("port is taken")

// start finds a port and runs the server on it.
func (s *Server) start() error {
	var err error
	for range 20 {
		if s.port, err = freePort(s.needsBus); err != nil {
			return err
		}
		if err = s.launch(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// launch runs the server on its port and waits until it answers.
func (s *Server) launch() error {
	binary, err := findBinary()
	if err != nil {
		return err
	}
	args := append([]string{s.portFlag, strconv.Itoa(s.port)}, s.args...)
	if s.conf != "" {
		args = append([]string{s.conf}, args...)
	}
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() // the process has its own copy
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.Env = append(os.Environ(), s.env...)
	if s.proc, err = startProcess(cmd); err != nil {
		return err
	}
	return s.awaitReady()
}

// awaitReady waits until this server answers. An answer from another server that took the port
// first does not count.
func (s *Server) awaitReady() error {
	proc := s.proc
	pid := fmt.Sprintf("process_id:%d\r\n", proc.pid)
	err := poll(startTimeout, 5*time.Millisecond, func() error {
		select {
		case <-proc.done:
			s.proc = nil
			return stop{s.exitReason()}
		default:
		}
		info, err := s.Do("INFO", "server")
		if err == nil && !strings.Contains(info, pid) {
			return errors.New("another server answers on this port")
		}
		return err
	})
	if err != nil {
		s.Kill()
		return fmt.Errorf("server on port %d: %w", s.port, err)
	}
	return nil
}

func (s *Server) exitReason() error {
	log := s.logTail()
	if strings.Contains(log, "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("ended while starting:\n%s", log)
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

func (s *Server) logTail() string {
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-4096):])
}

func findBinary() (string, error) {
	name := os.Getenv(BinaryEnv)
	path, err := exec.LookPath(cmp.Or(name, "redis-server"))
	switch {
	case err != nil && name != "":
		return "", fmt.Errorf("%s=%s: %w", BinaryEnv, name, err)
	case err != nil:
		return "", errors.New("redis-server not found: apt-get install redis-server, or run make setup")
	}
	return path, nil
}

// freePort returns an unused port. If withBus is set, the port of its cluster bus is unused, too.
func freePort(withBus bool) (int, error) {
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if isFree(port) && (!withBus || isFree(port+busOffset)) {
			return port, nil
		}
	}
	return 0, errors.New("no free port found")
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

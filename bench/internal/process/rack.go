package process

import (
	"cmp"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// Rack starts servers with one directory for all their files, and stops them all. A failure ends the
// suite, as in [contest.OK].
type Rack struct {
	dir     string
	servers []*Process
}

// NewRack returns a rack without servers.
func NewRack() *Rack { return &Rack{dir: contest.Must(os.MkdirTemp("", "stint-bench-"))} }

// Stop stops the servers in reverse order, and removes the files that they have written.
func (r *Rack) Stop() {
	for i := len(r.servers) - 1; i >= 0; i-- {
		r.servers[i].Stop()
	}
	os.RemoveAll(r.dir)
}

// Write writes a file for a server and returns its path.
func (r *Rack) Write(name, text string) string {
	path := filepath.Join(r.dir, name)
	contest.OK(os.MkdirAll(filepath.Dir(path), 0o755))
	contest.OK(os.WriteFile(path, []byte(text), 0o644))
	return path
}

// Start starts a program with arguments, and with variables added to the environment, and waits
// until the address accepts connections. The output of the program goes to a separate directory of
// the rack, because some servers watch the files that they read.
func (r *Rack) Start(ctx context.Context, address string, env []string, program string, args ...string) *Process {
	p := &Process{Address: address, cmd: exec.Command(program, args...), done: make(chan struct{}),
		log: r.Write(filepath.Join("logs", strconv.Itoa(len(r.servers))), "")}
	log := contest.Must(os.Create(p.log))
	defer log.Close() // the process has its own descriptor
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), env...)
	// Do not let an interrupt at the terminal reach the process: Stop ends it gracefully.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	contest.OK(p.cmd.Start())
	r.servers = append(r.servers, p)
	go func() {
		_ = p.cmd.Wait() // the log explains an unexpected end
		close(p.done)
	}()
	contest.OK(p.await(ctx))
	return p
}

// RedisProgram returns the name of the Redis server: redis-server, or the value of
// STINT_REDIS_SERVER.
func RedisProgram() string { return cmp.Or(os.Getenv("STINT_REDIS_SERVER"), "redis-server") }

// Redis starts a [RedisProgram] without persistence, with additional arguments.
func (r *Rack) Redis(ctx context.Context, args ...string) *Process {
	address := FreeAddress()
	_, port, _ := net.SplitHostPort(address)
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", "no"},
		args...)
	return r.Start(ctx, address, nil, RedisProgram(), args...)
}

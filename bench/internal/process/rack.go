package process

import (
	"cmp"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// Rack starts servers, each with a directory of its own, and stops them all. What fails ends the
// suite, as [contest.OK] does.
type Rack struct {
	dir     string
	servers []*Process
}

// NewRack returns a rack without servers.
func NewRack() *Rack { return &Rack{dir: contest.Must(os.MkdirTemp("", "stint-bench-"))} }

// Stop stops the servers, the last one first, and removes what they have written.
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

// Start starts a program with arguments, and with variables on top of the environment, and waits
// until something accepts connections at the address. What the program prints is in a file of the
// rack: not beside what servers read, for some watch that.
func (r *Rack) Start(ctx context.Context, address string, env []string, program string, args ...string) *Process {
	log := r.Write(filepath.Join("logs", strconv.Itoa(len(r.servers))), "")
	p := contest.Must(start(ctx, address, log, env, program, args...))
	r.servers = append(r.servers, p)
	return p
}

// RedisProgram is redis-server, or the program that STINT_REDIS_SERVER names.
func RedisProgram() string { return cmp.Or(os.Getenv("STINT_REDIS_SERVER"), "redis-server") }

// Redis starts a [RedisProgram] that persists nothing, with further arguments.
func (r *Rack) Redis(ctx context.Context, args ...string) *Process {
	address := FreeAddress()
	_, port, _ := net.SplitHostPort(address)
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", "no"},
		args...)
	return r.Start(ctx, address, nil, RedisProgram(), args...)
}

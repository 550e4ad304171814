package process

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Rack starts servers, each with a directory of its own, and stops them all.
type Rack struct {
	dir     string
	servers []*Process
}

// NewRack returns a rack without servers.
func NewRack() (*Rack, error) {
	dir, err := os.MkdirTemp("", "stint-bench-server-")
	return &Rack{dir: dir}, err
}

// Stop stops the servers, the last one first, and removes what they have written.
func (r *Rack) Stop() {
	for i := len(r.servers) - 1; i >= 0; i-- {
		r.servers[i].Stop()
	}
	os.RemoveAll(r.dir)
}

// Write writes a file for a server and returns its path.
func (r *Rack) Write(name, text string) (string, error) {
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// Start starts a server as [Start] does, with the log in a file of the rack: not beside what
// servers read, for some watch that.
func (r *Rack) Start(ctx context.Context, address string, env []string, program string, args ...string) (
	*Process, error) {
	log, err := r.Write(filepath.Join("logs", strconv.Itoa(len(r.servers))), "")
	if err != nil {
		return nil, err
	}
	p, err := Start(ctx, address, log, env, program, args...)
	if err == nil {
		r.servers = append(r.servers, p)
	}
	return p, err
}

// Redis starts a redis-server that persists nothing. STINT_REDIS_SERVER names another program.
func (r *Rack) Redis(ctx context.Context) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	program := os.Getenv("STINT_REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return r.Start(ctx, address, nil, program, "--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "",
		"--appendonly", "no")
}

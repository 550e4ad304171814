// Package process starts servers to measure: real programs on free ports of this machine that run
// until they are stopped.
package process

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// Process is a server that is running.
type Process struct {
	// Address is the address on which it accepts connections.
	Address string

	cmd  *exec.Cmd
	log  string        // path of the file with its output
	done chan struct{} // closed when the process has ended
}

// The longest time that a server may take to start and to stop.
const (
	startTime = 20 * time.Second
	stopTime  = 5 * time.Second
)

// await waits until the address accepts connections.
func (p *Process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", p.Address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s exited: %s", p.cmd.Args[0], p.lastLines())
		case <-ctx.Done():
			return fmt.Errorf("%s is not listening on %s: %w: %s", p.cmd.Args[0], p.Address, ctx.Err(), p.lastLines())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lastLines returns the end of the process's output.
func (p *Process) lastLines() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(bytes.TrimSpace(text[max(0, len(text)-most):]))
}

// Stop ends the process, and kills it if it does not end in time.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopTime):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Resident returns the memory that the process currently uses, in bytes.
func (p *Process) Resident() int64 {
	text := contest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return contest.Must(strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)) << 10
		}
	}
	contest.Failf("%s: the kernel does not report its memory", p.cmd.Args[0])
	return 0
}

// CPU returns the CPU time that the process has used so far. The kernel reports it in hundredths of
// a second.
func (p *Process) CPU() time.Duration {
	text := contest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)))
	// The name, in parentheses, may have spaces. The 12th and 13th fields after it are user and
	// system time.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		contest.Failf("%s: the kernel does not report its CPU time", p.cmd.Args[0])
	}
	user := contest.Must(strconv.ParseInt(fields[11], 10, 64))
	system := contest.Must(strconv.ParseInt(fields[12], 10, 64))
	return time.Duration(user+system) * 10 * time.Millisecond
}

// OwnCPU returns the CPU time of this process.
func OwnCPU() time.Duration {
	var self syscall.Rusage
	contest.OK(syscall.Getrusage(syscall.RUSAGE_SELF, &self))
	return time.Duration(self.Utime.Nano() + self.Stime.Nano())
}

// FreeAddress returns an unused address of this machine.
func FreeAddress() string {
	listener := contest.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	return listener.Addr().String()
}

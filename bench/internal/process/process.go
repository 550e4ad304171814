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

	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when the process has ended
}

// start is like [Rack.Start]. log is the name of the file for the program's output.
func start(ctx context.Context, address, log string, env []string, program string, args ...string) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	p := &Process{Address: address, name: program, cmd: exec.Command(program, args...), log: file,
		done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.Env = append(os.Environ(), env...)
	// Do not let an interrupt at the terminal reach the process: Stop ends it gracefully.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		file.Close()
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the log explains an unexpected end
		close(p.done)
	}()
	if err := p.await(ctx, address); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// The longest time that a server may take to start and to stop.
const (
	startTime = 20 * time.Second
	stopTime  = 5 * time.Second
)

// await waits until the address accepts connections.
func (p *Process) await(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s exited: %s", p.name, p.lastLines())
		case <-ctx.Done():
			return fmt.Errorf("%s is not listening on %s: %w: %s", p.name, address, ctx.Err(), p.lastLines())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lastLines returns the end of the process's output.
func (p *Process) lastLines() string {
	text, err := os.ReadFile(p.log.Name())
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
	p.log.Close()
}

// Resident returns the memory that the process currently uses, in bytes.
func (p *Process) Resident() int64 {
	text := contest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return contest.Must(strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)) << 10
		}
	}
	contest.Failf("%s: the kernel does not report its memory", p.name)
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
		contest.Failf("%s: the kernel does not report its CPU time", p.name)
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

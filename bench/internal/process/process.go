// Package process starts servers to measure: real programs on free ports of this machine, gone when
// they are stopped.
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
	// Address is where it accepts connections.
	Address string

	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when it has ended
}

// start is [Rack.Start] with the name of the file for what the program prints.
func start(ctx context.Context, address, log string, env []string, program string, args ...string) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	p := &Process{Address: address, name: program, cmd: exec.Command(program, args...), log: file,
		done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.Env = append(os.Environ(), env...)
	// An interrupt at the terminal is for whoever stops the process in good order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		file.Close()
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is of interest only if it should not have, and then its log tells
		close(p.done)
	}()
	if err := p.await(ctx, address); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// The longest time that a server may take to start, and to stop.
const (
	startTime = 20 * time.Second
	stopTime  = 5 * time.Second
)

// await waits until something accepts connections at the address.
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
			return fmt.Errorf("%s has ended: %s", p.name, p.lastLines())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen at %s: %w: %s", p.name, address, ctx.Err(), p.lastLines())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lastLines is the end of what the process has printed.
func (p *Process) lastLines() string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(bytes.TrimSpace(text[max(0, len(text)-most):]))
}

// Stop ends the process, in good order if it does so in time.
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

// Resident is the memory that the process has now, in bytes.
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

// CPU is how long the process has been computing so far. The kernel reports it in hundredths of a
// second.
func (p *Process) CPU() time.Duration {
	text := contest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)))
	// The name, in parentheses, may have spaces. Of what follows it the 12th and 13th are user and
	// system time.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		contest.Failf("%s: the kernel does not report its CPU time", p.name)
	}
	user := contest.Must(strconv.ParseInt(fields[11], 10, 64))
	system := contest.Must(strconv.ParseInt(fields[12], 10, 64))
	return time.Duration(user+system) * 10 * time.Millisecond
}

// OwnCPU is the CPU time of this process.
func OwnCPU() time.Duration {
	var self syscall.Rusage
	contest.OK(syscall.Getrusage(syscall.RUSAGE_SELF, &self))
	return time.Duration(self.Utime.Nano() + self.Stime.Nano())
}

// FreeAddress is an address of this machine at which nothing listens.
func FreeAddress() string {
	listener := contest.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	return listener.Addr().String()
}

package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

type process struct {
	pid  int
	cmd  *exec.Cmd
	done chan struct{} // closed after the child has ended
}

// startProcess starts cmd. The goroutine that starts the child stays locked to its thread until the
// child ends, because Linux kills the child as soon as the thread that started it ends.
func startProcess(cmd *exec.Cmd) (*process, error) {
	endWithParent(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the server's log shows how it ended
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// signal sends sig unless the process has ended.
func (p *process) signal(sig syscall.Signal) {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic("redistest: cannot signal a child: " + err.Error())
	}
}

// AwaitStopped waits, for about a second at most, until a process that was sent [Stop] has stopped:
// on a busy machine, the process may still answer for a while. On systems without /proc,
// AwaitStopped does not wait.
func AwaitStopped(pid int) {
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, ok := strings.Cut(string(stat), ") ") // the state follows the program's name
		if err != nil || !ok || strings.HasPrefix(state, "T") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// stop is an error that ends a poll at once.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// poll calls f until it returns nil or a stop. If that takes longer than the timeout, poll returns
// the last error.
func poll(timeout, every time.Duration, f func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := f()
		if err == nil || errors.As(err, &stop{}) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(every)
	}
}

// await polls until f returns nil, and fails the test if that takes too long.
func await(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := poll(startTimeout, 20*time.Millisecond, f); err != nil {
		t.Fatalf("redistest: waiting until %s: %v", what, err)
	}
}

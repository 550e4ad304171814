package redistest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

//go:embed clock/shift.c
var shiftSource []byte

// StartFakeTime runs a server with a wall clock that tests can step with [Server.SetClockOffset]
// and stop with [Server.StopClock]. It needs Linux and a C compiler, which the race detector needs,
// too.
func StartFakeTime(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, args...)
	lib, err := buildShift(s.dir)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.clock = filepath.Join(s.dir, "clock")
	if err := os.WriteFile(s.clock, make([]byte, 2*8), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.env = []string{"LD_PRELOAD=" + lib, "STINT_CLOCK=" + s.clock}
	s.mustStart(t)
	return s
}

// setClock sets the server's clock the given number of microseconds ahead of the true time or, if
// `at` is not 0, stops the clock at that time, in microseconds since the Unix epoch.
func (s *Server) setClock(t testing.TB, ahead, at int64) {
	t.Helper()
	if s.clock == "" {
		t.Fatal("redistest: only the clock of a server from StartFakeTime can be set")
	}
	// Write in place, because the server has the file mapped.
	f, err := os.OpenFile(s.clock, os.O_WRONLY, 0)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	defer f.Close()
	if err := binary.Write(f, binary.NativeEndian, [2]int64{ahead, at}); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// StopClock stops the wall clock of a server from [StartFakeTime] at the given time. Until the
// clock is set again, no key expires, however slow the machine is.
func (s *Server) StopClock(t testing.TB, at time.Time) {
	t.Helper()
	s.setClock(t, 0, at.UnixMicro())
}

// SetClockOffset sets the wall clock of a server from [StartFakeTime] ahead of the true time by d,
// or behind it if d is negative. The offset survives a restart.
func (s *Server) SetClockOffset(t testing.TB, d time.Duration) {
	t.Helper()
	s.setClock(t, d.Microseconds(), 0)
	if s.proc == nil {
		return
	}
	before := time.Now()
	now := s.time(t)
	after := time.Now()
	const grain = time.Millisecond
	if now.Before(before.Add(d-grain)) || now.After(after.Add(d+grain)) {
		t.Fatalf("redistest: the server's clock shows %v, want %v %+v: is it linked statically?", now, before, d)
	}
}

func (s *Server) time(t testing.TB) time.Time {
	t.Helper()
	var seconds, micros int64
	reply := s.CLI(t, "TIME")
	if _, err := fmt.Sscan(reply, &seconds, &micros); err != nil {
		t.Fatalf("redistest: TIME: %q", reply)
	}
	return time.Unix(seconds, micros*1000)
}

// buildShift compiles clock/shift.c into dir and returns the library's path.
func buildShift(dir string) (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("a fake clock needs linux, this is %s", runtime.GOOS)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", fmt.Errorf("cc not found: apt-get install gcc libc6-dev, or run make setup")
	}
	source, lib := filepath.Join(dir, "shift.c"), filepath.Join(dir, "shift.so")
	if err := os.WriteFile(source, shiftSource, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command(cc, "-O2", "-Wall", "-shared", "-fPIC", "-o", lib,
		source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cc: %w\n%s", err, out)
	}
	return lib, nil
}

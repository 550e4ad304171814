package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// outcome is what the tests made of a mutant.
type outcome int

const (
	survived outcome = iota
	caught
	timedOut // and so caught
	invalid  // does not compile: does not count
)

func (o outcome) String() string { return [...]string{"survived", "caught", "timeout", "invalid"}[o] }

// tester runs tests of a module against its mutants. The files of the module stay as they are: the
// go command reads a mutant with its -overlay flag, embedded files too.
type tester struct {
	root string // of the module
	temp string // for mutants and what their tests leave behind
	luac string // the compiler of Lua; empty: there is none
}

// try tests a mutant in stages. It also returns what caught it.
func (t *tester) try(ctx context.Context, m mutation, stages []measured) (outcome, string, error) {
	dir, err := os.MkdirTemp(t.temp, "")
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(t.root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return 0, "", err
	}
	mutant, overlay := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutant}})
	if err != nil {
		return 0, "", err
	}
	err = errors.Join(os.WriteFile(mutant, m.apply(source), 0o600), os.WriteFile(overlay, list, 0o600))
	if err != nil {
		return 0, "", err
	}
	if strings.HasSuffix(m.file, ".lua") {
		if err := exec.CommandContext(ctx, t.luac, "-p", mutant).Run(); err != nil {
			return invalid, "", ctx.Err()
		}
	}
	for _, s := range stages {
		o, by, err := t.test(ctx, s, dir, "-overlay="+overlay)
		if err != nil || o != survived {
			return o, by, err
		}
	}
	return survived, "", nil
}

// measured is a stage whose tests are known to pass.
type measured struct {
	stage
	limit time.Duration // for a mutant
	flags []string      // of its tests
}

// measure runs a stage without a mutant. A mutant gets several times the time that it takes: others
// use the machine too.
func (t *tester) measure(ctx context.Context, s stage) (measured, error) {
	m := measured{stage: s, limit: 20 * time.Minute}
	list := exec.CommandContext(ctx, "go", "list", "-test", "-deps", s.pkg)
	list.Dir = t.root
	imports, err := list.Output()
	if err != nil {
		return m, fmt.Errorf("go list %s: %w", s.pkg, err)
	}
	if bytes.Contains(imports, []byte("pgregory.net/rapid\n")) {
		m.flags = []string{"-rapid.nofailfile"} // the histories of a mutant are of no use to others
	}
	start := time.Now()
	o, by, err := t.test(ctx, m, t.temp)
	if err == nil && o != survived {
		err = fmt.Errorf("without a mutant, %s: %v by %s", s.pkg, o, by)
	}
	m.limit = 3*time.Since(start) + 30*time.Second
	return m, err
}

var (
	failed  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	crashed = regexp.MustCompile(`(?m)^(?:panic|fatal error): .*`)
)

// test runs one stage.
func (t *tester) test(ctx context.Context, s measured, dir string, flags ...string) (outcome, string, error) {
	args := append([]string{"test", "-vet=off", "-count=1", "-failfast", "-timeout=" + s.limit.String()}, flags...)
	if s.run != "" {
		args = append(args, "-run="+s.run)
	}
	if s.skip != "" {
		args = append(args, "-skip="+s.skip)
	}
	if s.short {
		args = append(args, "-short")
	}
	cmd := exec.CommandContext(ctx, "go", append(append(args, s.pkg), s.flags...)...)
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "PWD="+t.root)
	// A test that is killed leaves processes behind: all of them are in this group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() != nil {
		return 0, "", ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return 0, "", err
	}
	o, by := judge(err == nil || errors.Is(err, exec.ErrWaitDelay), out.String())
	return o, by, nil
}

// judge reads the output of go test.
func judge(ok bool, output string) (o outcome, by string) {
	if ok {
		return survived, ""
	}
	if strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]") {
		return invalid, brief(output)
	}
	if strings.Contains(output, "panic: test timed out after") {
		return timedOut, "a timeout"
	}
	if name := failed.FindStringSubmatch(output); name != nil {
		return caught, name[1]
	}
	if line := crashed.FindString(output); line != "" {
		return caught, brief(line)
	}
	return caught, brief(strings.TrimSpace(output))
}

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

// outcome is the result of testing a mutant.
type outcome int

const (
	survived outcome = iota
	caught
	timedOut // also counts as caught
	invalid  // does not compile, and does not count
)

func (o outcome) String() string { return [...]string{"survived", "caught", "timeout", "invalid"}[o] }

// try tests a mutant in stages. It also returns what detected the mutant: the name of a test, a
// line of the tests' output, or "a timeout".
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
	binaries := map[string]string{}
	for _, s := range stages {
		binary, ok := binaries[s.pkg]
		if !ok {
			if binary, ok, err = t.build(ctx, s.pkg, dir, "-overlay="+overlay); err != nil || !ok {
				return invalid, "", err
			}
			binaries[s.pkg] = binary
		}
		if o, by, err := t.test(ctx, s, binary, dir); err != nil || o != survived {
			return o, by, err
		}
	}
	return survived, "", nil
}

// measured is a stage whose tests are known to pass.
type measured struct {
	stage
	limit time.Duration // time limit for a mutant
	flags []string      // flags for its tests
}

// measure runs a stage without a mutant. A mutant gets several times the time that this takes,
// because other processes use the machine too.
func (t *tester) measure(ctx context.Context, s stage) (measured, error) {
	m := measured{stage: s, limit: 20 * time.Minute}
	list := exec.CommandContext(ctx, "go", "list", "-test", "-deps", s.pkg)
	list.Dir = t.root
	imports, err := list.Output()
	if err != nil {
		return m, fmt.Errorf("go list %s: %w", s.pkg, err)
	}
	if bytes.Contains(imports, []byte("pgregory.net/rapid\n")) {
		m.flags = []string{"-rapid.nofailfile"} // do not save the failures of mutants
	}
	dir, err := os.MkdirTemp(t.temp, "")
	if err != nil {
		return m, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, ok, err := t.build(ctx, s.pkg, dir)
	if err == nil && !ok {
		err = errors.New("does not compile")
	}
	if err != nil {
		return m, fmt.Errorf("without a mutant, %s: %w", s.pkg, err)
	}
	start := time.Now()
	o, by, err := t.test(ctx, m, binary, dir)
	if err == nil && o != survived {
		err = fmt.Errorf("without a mutant, %s: %v by %s", s.pkg, o, by)
	}
	m.limit = 3*time.Since(start) + 30*time.Second
	return m, err
}

// build compiles the tests of a package. It reports whether they compile.
func (t *tester) build(ctx context.Context, pkg, dir string, flags ...string) (binary string, ok bool, err error) {
	file, err := os.CreateTemp(dir, "*.test")
	if err != nil {
		return "", false, err
	}
	binary = file.Name()
	args := append([]string{"test", "-c", "-vet=off", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = t.root
	_, ok, err = output(ctx, cmd)
	return binary, ok, errors.Join(err, file.Close())
}

// test runs the tests of one stage. A test that fails only because the machine is busy must not
// catch a mutant: a failed test is run again alone, and if it then passes, the other tests are run
// without it.
func (t *tester) test(ctx context.Context, s measured, binary, dir string) (outcome, string, error) {
	for {
		o, by, err := t.once(ctx, s, binary, dir)
		if err != nil || o != caught || !testName.MatchString(by) {
			return o, by, err
		}
		alone := s
		alone.run, alone.skip = "^"+by+"$", ""
		if again, _, err := t.once(ctx, alone, binary, dir); err != nil || again != survived {
			return o, by, err
		}
		s.skip = strings.TrimPrefix(s.skip+"|^"+by+"$", "|")
	}
}

// once runs the tests of one stage once.
func (t *tester) once(ctx context.Context, s measured, binary, dir string) (outcome, string, error) {
	args := append([]string{"-test.failfast", "-test.timeout=" + s.limit.String()}, s.flags...)
	if s.run != "" {
		args = append(args, "-test.run="+s.run)
	}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	if s.short {
		args = append(args, "-test.short")
	}
	limited, cancel := context.WithTimeout(ctx, s.limit+time.Minute) // the tests time out on their own before that
	defer cancel()
	cmd := exec.CommandContext(limited, binary, args...)
	cmd.Dir = filepath.Join(t.root, s.pkg)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "PWD="+cmd.Dir)
	text, ok, err := output(ctx, cmd)
	if err != nil {
		return 0, "", err
	}
	if limited.Err() != nil {
		return timedOut, "a timeout", nil
	}
	o, by := judge(ok, text)
	return o, by, nil
}

// output runs a command, and kills the processes that the command leaves behind. It reports whether the
// command succeeded.
func output(ctx context.Context, cmd *exec.Cmd) (text string, ok bool, err error) {
	// Start a process group. The processes that a killed test leaves behind are killed with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() != nil {
		return "", false, context.Cause(ctx)
	}
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return string(out), cmd.ProcessState.Success(), nil
	case errors.As(err, &exit):
		return string(out), false, nil
	}
	return "", false, err
}

var (
	failed   = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	crashed  = regexp.MustCompile(`(?m)^(?:panic|fatal error): .*`)
	testName = regexp.MustCompile(`^(?:Test|Fuzz|Example)\w*$`)
)

// judge determines the outcome from the output of tests.
func judge(ok bool, output string) (o outcome, by string) {
	if ok {
		return survived, ""
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

package main

import (
	"bytes"
	"flag"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

const example = "../../examples/tiers/stint.yaml"

// TestMain keeps the files of daemons out of the user's state directory.
func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "stint-state-")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{xdgEnv: directory, stateEnv: "", "STINT_TOKEN": "", "STINT_SERVER": "",
		"STINT_CA": "", "STINT_CERT": "", "STINT_KEY": ""} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(directory)
	os.Exit(code)
}

type result struct {
	stdout, stderr string
	code           int
}

func execute(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	t.Setenv("COLUMNS", "100")
	return executeOn(&system{Stdin: strings.NewReader(stdin), Build: build()}, args...)
}

// executeOn runs a command on a system, whose output it replaces.
func executeOn(s *system, args ...string) result {
	var stdout, stderr bytes.Buffer
	s.Stdout, s.Stderr = &stdout, &stderr
	code := s.report(run(s, args))
	return result{stdout.String(), stderr.String(), code}
}

// wantResult checks the exit code, and that the output and the errors have the texts.
func wantResult(t *testing.T, got result, code int, stdout, stderr string) {
	t.Helper()
	if got.code != code || !strings.Contains(got.stdout, stdout) || !strings.Contains(got.stderr, stderr) {
		t.Errorf("exit code %d, output %q, errors %q; want %d, %q, %q", got.code, got.stdout, got.stderr, code, stdout, stderr)
	}
}

func build() *debug.BuildInfo {
	return &debug.BuildInfo{
		GoVersion: "go1.26.1",
		Main:      debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "GOOS", Value: "linux"},
			{Key: "vcs.revision", Value: "0123456789abcdef"},
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
}

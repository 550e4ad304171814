package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
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
	var stdout, stderr bytes.Buffer
	s := &system{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Build: build()}
	code := s.report(run(s, args))
	return result{stdout.String(), stderr.String(), code}
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

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// write writes a file in a new directory, and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	put(t, name, text)
	return name
}

// put writes a file, and creates its directory if necessary.
func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

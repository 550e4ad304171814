package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestBinary runs the real program, and checks its exit codes and output.
func TestBinary(t *testing.T) {
	binary := buildBinary(t)
	tests := []struct {
		stdin          string
		args           []string
		code           int
		stdout, stderr string // substrings of the output
	}{
		{"", []string{"version"}, exitGood, "stint v9.8.7, go", ""},
		{"", []string{"--help"}, exitGood, "Usage: stint", ""},
		{small, []string{"config", "check", "-"}, exitGood, "<stdin>: good", ""},
		{bad, []string{"config", "check", "-"}, exitBad, "", "<stdin>:8: policies[0].identity: "},
		{"", []string{"config", "check", "none.yaml"}, exitBad, "", "stint: none.yaml: no such file or directory\n"},
		{"", []string{"confg"}, exitUsage, "", `did you mean "config"?`},
	}
	for _, test := range tests {
		var stdout, stderr bytes.Buffer
		c := exec.Command(binary, test.args...)
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader(test.stdin), &stdout, &stderr
		err := c.Run()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		got := result{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
		wantResult(t, got, test.code, test.stdout, test.stderr)
	}
	t.Run("completion", func(t *testing.T) { completion(t, binary) })
	t.Run("broken pipe", func(t *testing.T) { brokenPipe(t, binary) })
	t.Run("daemons", func(t *testing.T) { daemons(t, binary) })
	t.Run("bans", func(t *testing.T) { bansAsTyped(t, binary) })
	t.Run("in Envoy Gateway", func(t *testing.T) { inEnvoyGateway(t, binary) })
}

// brokenPipe checks that the program ends without an error message if its standard output is
// closed.
func brokenPipe(t *testing.T, binary string) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	c := exec.Command(binary, "config", "schema")
	c.Stdout, c.Stderr = w, &stderr
	err = c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited { // SIGPIPE may kill the program
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("errors %q, want none", &stderr)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"syscall"

	"github.com/stint-limiter/stint/policy"
)

// system is all that commands know of the world beside their arguments and files.
type system struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Program is how the program was called, such as "bin/stint".
	Program string
	// Build is how the program was built; nil if it does not know.
	Build *debug.BuildInfo
	// Window is how many columns and rows the terminal has that Stdout is; nil if it is none. Colour says that colours are
	// wanted there, and Asks that Stdin is a terminal, from which questions can be answered.
	Window func() (columns, rows int)
	Colour bool
	Asks   bool

	mark string // see paint
}

// Exit codes.
const (
	exitGood        = 0
	exitBad         = 1
	exitUsage       = 2
	exitUnreachable = 3
)

// toldError is returned after everything has been said that there is to say.
type toldError struct{}

func (toldError) Error() string { return "told already" }

// errors is standard error, for texts that may hold anything.
func (s *system) errors() io.Writer { return escaped{s.Stderr} }

// report tells on standard error what became of a command, and returns the exit code.
func (s *system) report(err error) int {
	var usage *usageError
	var exit *exitError
	switch {
	case err == nil:
		return exitGood
	case errors.As(err, &usage):
		fmt.Fprintf(s.errors(), "%s\nstint: %v\n", usage.Help, usage)
		return exitUsage
	case errors.Is(err, toldError{}):
		return exitBad
	case errors.As(err, &exit):
		s.tell(err)
		return exit.Code
	}
	s.tell(err)
	return exitBad
}

// tell writes an error to standard error: the mistakes in a configuration in the form that editors and CI
// systems know, file:line: and so on, and all else after the name of the program.
func (s *system) tell(err error) {
	var config *policy.ConfigError
	if !errors.As(err, &config) {
		fmt.Fprintf(s.errors(), "stint: %v\n", err)
		return
	}
	for _, m := range config.Mistakes {
		fmt.Fprintln(s.errors(), m)
	}
}

// print writes to standard output what can be written to a terminal.
func (s *system) print(text []byte) error { return s.write(s.render(text)) }

// write writes to standard output. A reader that has gone away had seen enough.
func (s *system) write(text []byte) error {
	if _, err := s.Stdout.Write(text); err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// printJSON writes a value to standard output as JSON for people and programs.
func (s *system) printJSON(v any) error { return s.encode(v, "  ") }

// printLine writes a value to standard output as JSON on one line.
func (s *system) printLine(v any) error { return s.encode(v, "") }

func (s *system) encode(v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	return s.print(b.Bytes())
}

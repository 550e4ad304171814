package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"syscall"

	"github.com/stint-limiter/stint/config"
)

// system is the environment in which commands run. It does not include their arguments and files.
type system struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Program is the name that the program was called by, such as "bin/stint".
	Program string
	// Build is the program's build information, or nil if it is unknown.
	Build *debug.BuildInfo
	// Window returns the columns and rows of the terminal that is Stdout; it is nil if Stdout is
	// not a terminal. Color reports whether output to a terminal is colored. Asks reports whether
	// Stdin is a terminal, so that commands can ask for confirmation.
	Window func() (columns, rows int)
	Color  bool
	Asks   bool

	mark string    // the random mark that paint writes; "" until it is first used
	logs *logQueue // log queue to Stderr; nil until newLogger is called
}

// Exit codes. The package comment describes them.
const (
	exitGood        = 0
	exitBad         = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitMalformed   = 4
)

// errReported makes the exit code 1 without an error message, because the output already says what
// is wrong.
var errReported = errors.New("already reported")

// errors returns a writer that escapes unprintable characters and writes to standard error.
func (s *system) errors() io.Writer {
	if s.logs != nil {
		return escaped{s.logs}
	}
	return escaped{s.Stderr}
}

// report prints an error from a command on standard error, and returns the exit code.
func (s *system) report(err error) int {
	if s.logs != nil {
		defer s.logs.Flush(flushTime)
	}
	var exit *exitError
	switch {
	case err == nil:
		return exitGood
	case errors.Is(err, errReported):
		return exitBad
	case errors.As(err, &exit):
		if exit.Help != "" {
			fmt.Fprintln(s.errors(), exit.Help)
		}
		s.writeError(err)
		return exit.Code
	}
	s.writeError(err)
	return exitBad
}

// writeError writes an error to standard error. It writes mistakes in a configuration in the form
// that editors and CI systems parse, beginning with file:line. Other errors begin with the name of
// the program.
func (s *system) writeError(err error) {
	wrong, ok := errors.AsType[*config.Error](err)
	if !ok {
		fmt.Fprintf(s.errors(), "stint: %v\n", err)
		return
	}
	for i := range wrong.Mistakes { // one by one, because Error.Error shows only the first 50 mistakes
		fmt.Fprintln(s.errors(), &config.Error{Mistakes: wrong.Mistakes[i : i+1]})
	}
}

// print writes text to standard output, in a form that is safe for a terminal.
func (s *system) print(text []byte) error { return s.write(s.render(text)) }

// write writes to standard output. It is not an error if the reader closes the pipe.
func (s *system) write(text []byte) error {
	if _, err := s.Stdout.Write(text); err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// show writes a value to standard output: as JSON, or as text for people.
func (s *system) show(asJSON bool, v any, text func() []byte) error {
	if asJSON {
		return s.printJSON(v, "  ")
	}
	return s.print(text())
}

// answer prints the result of a command that answers a question. If the answer is no, it returns
// errReported, so that the exit code is 1.
func (s *system) answer(yes, asJSON bool, v any, text func() []byte) error {
	if err := s.show(asJSON, v, text); err != nil || yes {
		return err
	}
	return errReported
}

// printJSON writes a value to standard output as JSON, on one line if indent is "".
func (s *system) printJSON(v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	return s.print(b.Bytes())
}

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/stint-limiter/stint/config"
)

type configCommands struct {
	Check   checkCommand   `cmd:"" help:"Report every mistake in configurations."`
	Explain explainCommand `cmd:"" help:"Explain how a request would be decided, and why."`
	Schema  schemaCommand  `cmd:"" help:"Print the JSON Schema of configurations, for editors."`
}

const (
	// stdinPath is the argument for standard input, and stdinName its name in error messages.
	stdinPath = "-"
	stdinName = "<stdin>"
	// maxStdin is the maximum number of bytes to read from standard input. Configurations and Envoy
	// rules of this size are rejected as too large, so the rest need not be read.
	maxStdin = 16<<20 + 1
)

type unreadableError struct {
	Name string
	Err  error
}

func (e *unreadableError) Error() string { return e.Name + ": " + e.Err.Error() }

func (e *unreadableError) Unwrap() error { return e.Err }

func stdinOnce(paths []string) error {
	n := 0
	for _, path := range paths {
		if path == stdinPath {
			n++
		}
	}
	if n > 1 {
		return fmt.Errorf("standard input (-) is given %d times, but can be read only once", n)
	}
	return nil
}

// load reads the configuration at path. An error is a [*config.Error] or an [*unreadableError].
func (s *system) load(path string) (*config.Config, error) {
	if path == stdinPath {
		text, err := s.readStdin()
		if err != nil {
			return nil, err
		}
		return config.Parse(stdinName, text)
	}
	conf, err := config.Load(path)
	return conf, unreadable(err)
}

// readStdin reads standard input, but not more than maxStdin bytes. An error is an
// [*unreadableError].
func (s *system) readStdin() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(s.Stdin, maxStdin))
	if err != nil {
		return nil, &unreadableError{stdinName, err}
	}
	return text, nil
}

// unreadable turns an [*fs.PathError] into an [*unreadableError] and returns other errors
// unchanged.
func unreadable(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return &unreadableError{file.Path, file.Err}
	}
	return err
}

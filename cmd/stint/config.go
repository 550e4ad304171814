package main

import (
	"errors"
	"io"
	"io/fs"

	"github.com/stint-limiter/stint/policy"
)

// configCommands are about configurations.
type configCommands struct {
	Check   checkCommand   `cmd:"" help:"Report every mistake in configurations."`
	Explain explainCommand `cmd:"" help:"Tell how a request would be judged, and why."`
	Schema  schemaCommand  `cmd:"" help:"Print the JSON Schema of configurations, for editors."`
}

const (
	// stdinPath is the argument for standard input, and stdinName what it is called in mistakes.
	stdinPath = "-"
	stdinName = "<stdin>"
	// maxStdin bounds what is read; configurations are refused well below it.
	maxStdin = 4 << 20
)

// unreadableError is that a configuration could not be read.
type unreadableError struct {
	Name string
	Err  error
}

func (e *unreadableError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *unreadableError) Unwrap() error { return e.Err }

// load reads the configuration that an argument names. An error is a [*policy.ConfigError] or an [*unreadableError].
func (s *system) load(path string) (*policy.Set, error) {
	if path == stdinPath {
		text, err := io.ReadAll(io.LimitReader(s.Stdin, maxStdin))
		if err != nil {
			return nil, &unreadableError{stdinName, err}
		}
		return policy.Parse(stdinName, text)
	}
	set, err := policy.Load(path)
	var file *fs.PathError
	if errors.As(err, &file) {
		return nil, &unreadableError{file.Path, file.Err}
	}
	return set, err
}

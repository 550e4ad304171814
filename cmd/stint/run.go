package main

import (
	"bytes"
	"errors"

	"github.com/alecthomas/kong"
)

// commands are what stint can be asked to do: a field for each.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Serve limits over HTTP and gRPC: a JSON API, forward-auth, Envoy's rate limit service."`
	Gateway gatewayCommand `cmd:"" help:"Pass requests on to an upstream, within limits."`
	Config  configCommands `cmd:"" help:"Check a configuration, and see what it means."`
	Version versionCommand `cmd:"" help:"Print the version of this program."`
}

const description = `Exact rate limits, shared by any number of processes.

    stint config check stint.yaml
    stint serve --config stint.yaml`

// run does what the arguments ask for.
func run(s *system, args []string) error {
	var help bytes.Buffer
	helped := false
	parser, err := kong.New(&commands{},
		kong.Name("stint"),
		kong.Description(description),
		kong.Vars{"assumed_peer": assumedPeer},
		kong.Writers(&help, &help),
		kong.Exit(func(int) { helped = true }), // called when help was asked for and written
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if helped {
		return s.print(help.Bytes())
	}
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		if err := wrong.Context.PrintUsage(false); err != nil {
			return err
		}
		return &usageError{Help: help.String(), Err: wrong.Unwrap()}
	}
	if err != nil {
		return err
	}
	return command.Run(s)
}

// usageError is a mistake in the arguments.
type usageError struct {
	// Help is that of the command.
	Help string
	Err  error
}

func (e *usageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the arguments.
func (e *usageError) Unwrap() error { return e.Err }

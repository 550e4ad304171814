package main

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/gateway"
)

// commands has a field for each command of stint. A command may have the methods Help, Validate and
// Run. Help returns its detailed help. Validate runs after its flags are parsed. Run executes it.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Serve limits over HTTP and gRPC: a JSON API, forward-auth, Envoy's rate limit service."`
	Gateway gatewayCommand `cmd:"" help:"Forward requests to an upstream, within limits."`
	Demo    demoCommand    `cmd:"" help:"Run a gateway with callers of every kind, and a dashboard to watch them."`
	Config  configCommands `cmd:"" help:"Check a configuration, and see what it means."`

	Simulate         simulateCommand         `cmd:"" help:"See what limits would have done to past traffic in access logs, and which to choose."`
	SimulateGenerate simulateGenerateCommand `cmd:"" hidden:"" help:"Write an access log to try out simulate with."`

	Take    takeCommand    `cmd:"" help:"Ask whether a subject may do something, and charge it."`
	Peek    peekCommand    `cmd:"" help:"Ask without charging."`
	Inspect inspectCommand `cmd:"" help:"Show how much of its limits a subject has used, and when it becomes available again."`
	Reset   resetCommand   `cmd:"" help:"Clear what a subject has used."`
	Ban     banCommand     `cmd:"" help:"Ban a subject for a time."`
	Unban   unbanCommand   `cmd:"" help:"End a ban."`
	Bans    bansCommand    `cmd:"" help:"List bans in force."`
	Raise   raiseCommand   `cmd:"" help:"Raise the limits of a subject for a time."`
	Limits  limitsCommands `cmd:"" help:"Give single subjects different limits for a time."`
	Top     topCommand     `cmd:"" help:"Watch who is denied most."`
	Tail    tailCommand    `cmd:"" help:"Watch requests being denied."`
	Why     whyCommand     `cmd:"" help:"Show why a request was denied, by its id or by subject and time."`
	Doctor  doctorCommand  `cmd:"" help:"Find problems with a server and its Redis, and how to fix them."`

	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`
	Version    versionCommand    `cmd:"" help:"Print the version of this program."`
}

const description = `Exact rate limits, shared by any number of processes.

    stint demo
    stint config check stint.yaml
    stint serve --config stint.yaml`

func run(s *system, args []string) error {
	var help bytes.Buffer
	helped := false
	parser, err := kong.New(&commands{},
		kong.Name("stint"),
		kong.Description(description),
		helpVariables(),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(readDuration)),
		kong.Writers(&help, &help),
		kong.Exit(func(int) { helped = true }), // called when help was requested and written
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == completeArg {
		return s.print(completions(parser.Model.Node, args[1:]))
	}
	command, err := parser.Parse(commonAliases(args))
	if helped {
		return s.print(help.Bytes())
	}
	var wrong *kong.ParseError
	switch {
	case errors.As(err, &wrong):
		command, err = wrong.Context, wrong.Unwrap()
	case err != nil:
		return err
	default:
		return command.Run(s)
	}
	// If the user named a command, print only its usage and how to get help; otherwise, print the
	// list of commands.
	named := command.Selected() != nil && len(command.Selected().Children) == 0
	if err := command.PrintUsage(named); err != nil {
		return err
	}
	return &exitError{Code: exitUsage, Err: withoutSecrets(err, args), Help: help.String()}
}

// withoutSecrets returns an error with the text of err, but without the passwords in the URLs that
// args contains.
func withoutSecrets(err error, args []string) error {
	text := err.Error()
	for _, arg := range args {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value
		}
		if strings.Contains(arg, "@") {
			text = strings.ReplaceAll(text, arg, label.URL(arg))
		}
	}
	return errors.New(text)
}

// commonAliases rewrites "help COMMAND" to "COMMAND --help", and --version to the command version.
func commonAliases(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case len(args) > 0 && args[0] == "--version":
		return append([]string{"version"}, args[1:]...)
	}
	return args
}

// isGiven reports whether a flag is on the command line. A flag that is set only by the environment
// does not count.
func isGiven(path []*kong.Path, name string) bool {
	return slices.ContainsFunc(path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name })
}

// helpVariables returns an option that expands the variables below in the help texts of flags. They
// are not declared as kong variables, because kong would expand all of them again for every flag.
func helpVariables() kong.Option {
	values := strings.NewReplacer(
		"${admin}", localAdmin,
		"${assumed_peer}", assumedPeer,
		"${connect_timeout}", figures.Length(gateway.DefaultDialTimeout),
		"${response_timeout}", figures.Length(gateway.DefaultResponseHeaderTimeout),
		"${body_timeout}", figures.Length(gateway.DefaultBodyTimeout),
		"${idle_timeout}", figures.Length(gateway.DefaultIdleTimeout),
		"${breaker_failures}", strconv.Itoa(contract.DefaultBreakerFailures),
		"${breaker_probe}", figures.Length(contract.DefaultBreakerProbe),
		"${breaker_retry}", figures.Length(contract.DefaultBreakerRetry),
		"${max_clients}", "10000",
	)
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
			if flag, ok := node.(*kong.Flag); ok {
				flag.Help = values.Replace(flag.Help)
			}
			return next(nil)
		})
	})
}

// Command stint is the command line of stint. Each command is in the file with its name, except
// unban, which is in ban.go, and peek, which is in take.go.
//
//	stint config check stint.yaml
//	stint config explain stint.yaml --request 'POST /api/simulation/start' --claim user=42
//	stint serve --config stint.yaml
//	stint inspect user:42
//	stint --help
//
// Its exit status is
//
//	0  if all is well, or the answer is yes
//	1  if a check found a problem, or the answer is no
//	2  if the usage is wrong
//	3  if the server or the store cannot be reached, or refuses access
//	4  if too many lines of a log cannot be read
//
// Error messages go to standard error.
package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	_ "time/tzdata" // time zones for calendar limits, in images without a time zone database
)

// Signals have their default effect, except in daemons and in commands that run until they are
// interrupted.
//
// All commands read the environment variables COLUMNS, NO_COLOR and TERM, and the variables that
// their flags name. Other variables are declared in the files that use them: store_flags.go for
// Redis, token.go for state directories, daemon.go for service managers, and as_ratelimit.go for
// --as-ratelimit.
func main() {
	redirectGRPC()
	build, _ := debug.ReadBuildInfo() // nil without module support; the version command reports that
	s := &system{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Program: os.Args[0], Build: build,
		Window: terminalWindow(os.Stdout),
		Color:  os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Asks:   isTerminal(os.Stdin),
	}
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == ratelimitName {
		args = append([]string{"serve", "--as-ratelimit"}, args...)
	}
	os.Exit(s.report(run(s, args)))
}

// Command stint is the command line of stint. Every command has a file of its own.
//
//	stint config check stint.yaml
//	stint config explain stint.yaml --request 'POST /api/simulation/start' --claim user=42
//	stint serve --config stint.yaml
//	stint inspect user:42
//	stint --help
//
// It exits with 0 if all is well or the answer is yes, with 1 if something is wrong with what it
// was asked about or the answer is no, with 2 if it was asked wrongly, and with 3 if the server or
// the store cannot be reached or does not let it in. Mistakes are on standard error.
package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	_ "time/tzdata" // time zones of calendar limits, for images that have none
)

// Signals act as by default, except for daemons and commands that run until they are interrupted.
// From the environment stint reads COLUMNS, to wrap help, NO_COLOR and TERM, what flags name, and
// in daemons what daemon.go names, and with --as-ratelimit what as_ratelimit.go does.
func main() {
	redirectGRPC()
	build, _ := debug.ReadBuildInfo() // nil without module support, which version reports
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

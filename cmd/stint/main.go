// Command stint is the command line of stint. Every command has a file of its own.
//
//	stint config check stint.yaml
//	stint config explain stint.yaml --request 'POST /simulations' --claim user=42
//	stint serve --config stint.yaml
//	stint --help
//
// It exits with 0 if all is well, with 1 if something is wrong with what it was asked about, and with 2 if it was
// asked wrongly. Answers are on standard output, mistakes on standard error.
package main

import (
	"os"
	"runtime/debug"
)

// Signals do what they do by default, but for daemons. Of the environment COLUMNS is looked at, by which help is
// wrapped, and by daemons what daemon.go names.
func main() {
	build, _ := debug.ReadBuildInfo() // nil without module support, which version tells
	s := &system{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Build: build}
	os.Exit(s.report(run(s, os.Args[1:])))
}

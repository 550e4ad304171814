//go:build !unix

package main

import "os"

// isTerminal reports whether somebody sits in front of a file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// windowSize is how many columns and rows a terminal has; 0 if it does not say.
func windowSize(*os.File) (columns, rows int) { return 0, 0 }

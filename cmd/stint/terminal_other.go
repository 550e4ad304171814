//go:build !unix

package main

import "os"

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// windowSize returns the columns and rows of a terminal; 0 if it does not report them.
func windowSize(*os.File) (columns, rows int) { return 0, 0 }

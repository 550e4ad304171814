//go:build !unix

package main

import "os"

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// windowSize returns 0, because stint can determine the size of a terminal only on Unix.
func windowSize(*os.File) (columns, rows int) { return 0, 0 }

//go:build !unix

package main

import "os"

// windowColumns is how wide a terminal is; 0 if it does not say.
func windowColumns(*os.File) int { return 0 }

//go:build race

// Package race tells tests whether the race detector watches them. Those that compute much and share
// nothing take several times as long then, and are for the run without it.
package race

// enabled reports whether the race detector watches.
const enabled = true

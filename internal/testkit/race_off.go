//go:build !race

package testkit

// raceEnabled reports whether the race detector is on.
const raceEnabled = false

//go:build !race

package race

// enabled reports whether the race detector watches.
const enabled = false

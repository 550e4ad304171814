// Package race lets tests that compute much and share nothing skip the race detector, under which
// they take several times as long.
package race

import "testing"

// Skip skips a test under the race detector.
func Skip(t *testing.T) {
	t.Helper()
	if enabled {
		t.Skip("computes much and shares nothing: make test runs it without the race detector")
	}
}

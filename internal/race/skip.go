package race

import "testing"

// Skip skips a test under the race detector.
func Skip(t *testing.T) {
	t.Helper()
	if enabled {
		t.Skip("computes much and shares nothing: make test runs it without the race detector")
	}
}

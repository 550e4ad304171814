// Package golden is for tests that compare texts with files.
package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// Compare compares a text with a file in testdata. If update is true, it writes the file first;
// packages have a flag -update for that.
func Compare(t testing.TB, update bool, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (go test . -update writes it); got:\n%s", name, got)
	}
}

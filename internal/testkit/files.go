package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// ReadFile returns the text of a file.
func ReadFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// WriteFile writes a file that only its owner can read, and makes its directory.
func WriteFile(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TempFile is like [WriteFile], in a directory of its own, and returns the path of the file.
func TempFile(t testing.TB, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	WriteFile(t, name, text)
	return name
}

//go:build unix

package config

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLoadDoesNotHang has a pipe among the files, which nobody writes to.
func TestLoadDoesNotHang(t *testing.T) {
	directory := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(directory, "a.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Load(directory)
	if err == nil || !strings.HasSuffix(err.Error(), "a.yaml:1: not a regular file") {
		t.Errorf("got %v", err)
	}
	if _, err := openAgain(filepath.Join(directory, "a.yaml")); err == nil {
		t.Error("a watcher reads a pipe")
	}
}

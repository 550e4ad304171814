//go:build unix

package config

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-limiter/stint/policy"
)

// TestLoadDoesNotHang has a pipe without a writer among the files.
func TestLoadDoesNotHang(t *testing.T) {
	directory := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(directory, "a.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Load(directory)
	if err == nil || !strings.HasSuffix(err.Error(), "a.yaml:1: not a regular file") {
		t.Errorf("got %v", err)
	}
	w := &Watcher{Path: filepath.Join(directory, "a.yaml"), Guard: &policy.Guard{}}
	if err := w.Reload().Err; err == nil {
		t.Error("a watcher reads a pipe")
	}
}

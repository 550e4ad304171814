package callers_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestEnsureToken: the file is made once, for its owner only, whatever the umask lets others do.
func TestEnsureToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "stint", "admin-token")
	var before string
	for n := range 3 {
		if repaired, err := callers.EnsureToken(path); repaired || err != nil {
			t.Fatalf("attempt %d: %t, %v", n+1, repaired, err)
		}
		text := testkit.Must(os.ReadFile(path))(t)
		if _, err := callers.ParseTokens(path, text, true); err != nil {
			t.Error(err)
		}
		if strings.Count(string(text), "\n") != 1 || n > 0 && string(text) != before {
			t.Errorf("attempt %d: the file holds %d bytes, before %d", n+1, len(text), len(before))
		}
		before = string(text)
	}
	for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	warned := func() bool {
		var log bytes.Buffer
		callers.WarnReadable(slog.New(slog.NewTextHandler(&log, nil)), "token", path)
		return log.Len() > 0
	}
	if warned() {
		t.Error("it is said that everybody can read it")
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if !warned() {
		t.Error("it is not said that everybody can read it")
	}
	if repaired, err := callers.EnsureToken(path); !repaired || err != nil {
		t.Errorf("readable by all: got %t, %v; want that it is repaired", repaired, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("after the repair: %v, %v", info.Mode(), err)
	}
}

// TestEnsureTokenLink: EnsureToken does not follow a link, because it could change the mode of
// another file.
func TestEnsureTokenLink(t *testing.T) {
	directory := t.TempDir()
	other, path := filepath.Join(directory, "other"), filepath.Join(directory, "admin-token")
	if err := errors.Join(os.WriteFile(other, []byte("of somebody else"), 0o644), os.Symlink(other, path)); err != nil {
		t.Fatal(err)
	}
	if repaired, err := callers.EnsureToken(path); repaired || err == nil ||
		err.Error() != path+" is not a regular file" {
		t.Errorf("got %t, %v", repaired, err)
	}
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the other file: %v, %v", info.Mode(), err)
	}
}

// TestEnsureTokenTogether: processes that start together read the same, complete token.
func TestEnsureTokenTogether(t *testing.T) {
	for range 50 {
		path := filepath.Join(t.TempDir(), "stint", "admin-token")
		var texts [8]string
		var work sync.WaitGroup
		begin := make(chan struct{})
		for i := range texts {
			work.Go(func() {
				<-begin
				if _, err := callers.EnsureToken(path); err != nil {
					t.Error(err)
				}
				text, err := os.ReadFile(path)
				if err != nil {
					t.Error(err)
				}
				texts[i] = string(text)
			})
		}
		close(begin)
		work.Wait()
		for _, text := range texts {
			if len(text) < 20 || text != texts[0] {
				t.Fatalf("got tokens of %d and %d bytes, want the same", len(text), len(texts[0]))
			}
		}
	}
}

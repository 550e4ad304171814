package redisstore_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

// TestFilesAreReadAgain: the authority and the password of a Redis are those in the files when a
// connection is made, and the last good ones if a file is gone, empty or broken.
func TestFilesAreReadAgain(t *testing.T) {
	server := redistest.StartTLS(t)
	server.CLI(t, "ACL", "SETUSER", "app", "on", ">old", "~*", "&*", "+@all")
	right, _ := server.CertificateFiles()
	wrong, _ := redistest.NewCertificate(t)
	directory := t.TempDir()
	ca, password := filepath.Join(directory, "ca.pem"), filepath.Join(directory, "password")
	put := func(file string, text []byte) { putFile(t, file, text) }
	get := func(file string) []byte { return fileOf(t, file) }
	put(ca, get(wrong))
	put(password, []byte("wrong\n"))
	store, err := redisstore.Open(t.Context(), redisstore.Config{Logger: slog.New(slog.DiscardHandler),
		URL: "rediss://app@" + server.Addr() + "?ca_file=" + ca + "&password_file=" + password})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "x509") {
		t.Fatalf("another authority: got %v", err)
	}
	put(ca, get(right))
	testkit.Eventually(t, "the certificate is trusted, and the password is wrong", func() bool {
		err := store.Ping(t.Context())
		return err != nil && strings.Contains(err.Error(), "WRONGPASS")
	})
	put(password, []byte("old\n"))
	testkit.EventuallyNil(t, "the password is right", func() error { return store.Ping(t.Context()) })

	server.CLI(t, "ACL", "SETUSER", "app", "resetpass", ">new")
	put(password, []byte("new\n"))
	server.CLI(t, "CLIENT", "KILL", "USER", "app")
	testkit.EventuallyNil(t, "a changed password", func() error { return store.Ping(t.Context()) })

	put(password, nil)
	server.CLI(t, "CLIENT", "KILL", "USER", "app")
	testkit.EventuallyNil(t, "an empty file", func() error { return store.Ping(t.Context()) })
	empty := redisstore.Config{URL: server.URL() + "?password_file=" + password}
	if _, err := redisstore.Open(t.Context(), empty); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty file at the start: got %v", err)
	}

	if err := os.Remove(password); err != nil {
		t.Fatal(err)
	}
	put(ca, []byte("broken"))
	server.CLI(t, "CLIENT", "KILL", "USER", "app")
	testkit.EventuallyNil(t, "what was good stays in force", func() error { return store.Ping(t.Context()) })
}

func putFile(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func fileOf(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

package redisstore_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
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
	put := func(file string, text []byte) { t.Helper(); putFile(t, file, text) }
	put(ca, testkit.Must(os.ReadFile(wrong))(t))
	put(password, []byte("wrong\n"))
	store := openTLS(t, "app@"+server.Addr()+"?ca_file="+ca+"&password_file="+password)
	if err := store.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "x509") {
		t.Fatalf("another authority: got %v", err)
	}
	put(ca, testkit.Must(os.ReadFile(right))(t))
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

// openTLS opens a store, whether or not its server accepts it.
func openTLS(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	return testkit.Opened(redisstore.Open(t.Context(),
		redisstore.Config{URL: "rediss://" + url, Logger: slog.New(slog.DiscardHandler)}))(t)
}

func putFile(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestClientCertificateIsReadAgain: a new connection shows the client certificate that is in the
// files when it is made.
func TestClientCertificateIsReadAgain(t *testing.T) {
	server := redistest.StartTLS(t, "--tls-auth-clients", "yes")
	cert, key := server.CertificateFiles() // which it accepts from clients, too
	otherCert, otherKey := redistest.NewCertificate(t)
	directory := t.TempDir()
	mine, secret := filepath.Join(directory, "cert.pem"), filepath.Join(directory, "key.pem")
	roll := func(cert, key string) {
		t.Helper()
		putFile(t, mine, testkit.Must(os.ReadFile(cert))(t))
		putFile(t, secret, testkit.Must(os.ReadFile(key))(t))
		server.CLI(t, "CLIENT", "KILL", "TYPE", "normal")
	}
	roll(otherCert, otherKey)
	store := openTLS(t, server.Addr()+"?ca_file="+cert+"&cert_file="+mine+"&key_file="+secret)
	if err := store.Ping(t.Context()); err == nil {
		t.Fatal("connected with the certificate of a stranger")
	}
	for range 2 {
		roll(cert, key)
		testkit.EventuallyNil(t, "the right certificate", func() error { return store.Ping(t.Context()) })
		roll(otherCert, otherKey)
		testkit.Eventually(t, "the certificate of a stranger", func() bool { return store.Ping(t.Context()) != nil })
	}
}

// No call waits longer than its context for a connection that another call is making.
func TestNoCallWaitsForTheConnectionOfOthers(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	s := open(t, proxy.URL())
	proxy.SetLatency(time.Hour, 0)
	proxy.Cut()
	proxy.Restore()
	long, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_ = s.Ping(long) // finds that the connection was lost
		ended <- s.Ping(long)
	}()
	for range 10 {
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := s.Take(short, unit("near", stint.PerHour(1000)))
		cancel()
		if took := time.Since(start); err == nil || took > time.Minute {
			t.Fatalf("answered after %v: %v", took, err)
		}
	}
	proxy.SetLatency(0, 0)
	<-ended
}

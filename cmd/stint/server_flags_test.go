package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// serving runs a server until the test ends, and returns the host and port of its admin listener.
func serving(t *testing.T, c server.Config) string {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	return startServer(t, c).Addr(server.Admin).String()
}

// startServer runs a server with an admin listener until the test ends.
func startServer(t *testing.T, c server.Config) *server.Server {
	t.Helper()
	c.Admin = "127.0.0.1:0"
	s := testkit.Must(server.New(c))(t)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestServerTLS connects to servers with and without TLS, with the right flags and with every kind
// of wrong ones. For wrong flags, the doctor prints a command that works, and other commands print
// the flags.
func TestServerTLS(t *testing.T) {
	cert, key := redistest.NewCertificate(t)
	plain := serving(t, server.Config{})
	secure := serving(t, server.Config{TLSCert: cert, TLSKey: key})
	mutual := serving(t, server.Config{TLSCert: cert, TLSKey: key, ClientCA: cert})
	named := httptest.NewTLSServer(nil) // its certificate is not for localhost
	defer named.Close()
	_, port, _ := strings.Cut(named.Listener.Addr().String(), ":")
	namedCert := testkit.TempFile(t, "named.pem", certificateOf(named))
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, test := range map[string]struct {
		args  []string
		found string // "" if the server is ready
		flags string // the flags to try
	}{
		"plain": {[]string{"--server", "http://" + plain}, "", ""},
		"TLS":   {[]string{"--server", "https://" + secure, "--ca", cert}, "", ""},
		"both certificates": {[]string{"--server", "https://" + mutual, "--ca", cert, "--cert", cert, "--key", key},
			"", ""},
		"http to TLS": {[]string{"--server", "http://" + secure}, "speaks TLS, but the address says http",
			"--server https://" + secure + " --ca FILE"},
		"https to plain": {[]string{"--server", "https://" + plain},
			"does not speak TLS, but the address says https", "--server http://" + plain},
		"unknown authority": {[]string{"--server", "https://" + secure}, "unknown authority",
			"--server https://" + secure + " --ca FILE"},
		"no certificate": {[]string{"--server", "https://" + mutual, "--ca", cert},
			"requires a client certificate", "--server https://" + mutual + " --ca " + cert +
				" --cert FILE --key FILE"},
		"another name": {[]string{"--server", "https://localhost:" + port, "--ca", namedCert},
			"NAME must be one that the certificate is valid for", "--server https://NAME:" + port + " --ca " + namedCert},
		"no server": {[]string{"--server", gone.URL}, "no stint server at " + gone.URL, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.found == "" {
				wantFinding(t, examine(t, exitGood, test.args...), "server", resultOK, "ready", "")
				wantResult(t, execute(t, "", append([]string{"top", "--once"}, test.args...)...), exitGood, "", "")
				return
			}
			fix := "stint serve"
			if test.flags != "" {
				fix = "stint doctor " + test.flags
			}
			wantFinding(t, examine(t, exitBad, test.args...), "server", resultFail, test.found, fix)
			got := execute(t, "", append([]string{"bans"}, test.args...)...)
			wantResult(t, got, exitUnreachable, "", test.found)
			wantResult(t, got, exitUnreachable, "", test.flags)
		})
	}

	t.Setenv("STINT_CA", cert)
	t.Setenv("STINT_CERT", cert)
	t.Setenv("STINT_KEY", key)
	wantFinding(t, examine(t, exitGood, "--server", "https://"+mutual), "server", resultOK, "ready", "")
	for want, args := range map[string][]string{
		"are for TLS, but the address says http; want --server https://" + plain: {"--server", "http://" + plain},
		"--cert needs --key":                  {"--server", "https://" + mutual, "--key", ""},
		"none.pem: no such file or directory": {"--server", "https://" + mutual, "--ca", "none.pem"},
	} {
		if got := execute(t, "", append([]string{"bans"}, args...)...); got.code == exitGood ||
			!strings.Contains(got.stderr, want) {
			t.Errorf("%v: exit code %d, errors %q; want %q", args, got.code, got.stderr, want)
		}
	}
}

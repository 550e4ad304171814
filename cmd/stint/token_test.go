package main

import (
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

const bansByHand = "bans: {after: 0}\ntiers:\n  - {name: all, identity: ip, limits: 3/1h}\n"

// tokenBinary checks that a daemon generates a token once, and that commands on the same machine
// find it.
func tokenBinary(t *testing.T, binary string) {
	t.Setenv(xdgEnv, t.TempDir())
	path := filepath.Join(os.Getenv(xdgEnv), "stint", tokenName)
	config := testkit.TempFile(t, "stint.yaml", bansByHand)
	start := func() *daemon {
		t.Helper()
		return launch(t, binary, "serve", "--config", config, "--http", "127.0.0.1:0", "--drain", "0s")
	}
	d := start()
	text := testkit.ReadFile(t, path)
	token := strings.TrimSpace(text)
	for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	url := "http://" + d.at(server.Admin)
	if d.log.Await(t, "file="+path); strings.Contains(d.log.String(), token) {
		t.Errorf("logged %s\nwant the file and not the token", d.log.String())
	}
	for path, want := range map[string]int{"/livez": 200, "/api/state": 401} {
		if status, _ := d.getWith(server.Admin, path, ""); status != want {
			t.Errorf("%s without a token: got %d, want %d", path, status, want)
		}
	}
	if status, body := d.get(server.Admin, "/metrics"); status != 200 {
		t.Errorf("/metrics with it: got %d, %s", status, body)
	}
	wantResult(t, execute(t, "", "ban", "ip:192.0.2.1", "--yes", "--server", url), exitGood, "", "")
	d.log.Await(t, `msg=audit who="line 1 of admin-token" what="ban for 1h"`)

	// Another daemon uses the same token, and makes a file that others can read private.
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	other := start()
	if testkit.ReadFile(t, path) != text {
		t.Error("the token has changed")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	other.log.Await(t, "was readable by other users of this machine")

	t.Setenv(xdgEnv, t.TempDir())
	if got := execute(t, "", "bans", "--server", url); got.code != exitUnreachable ||
		!strings.HasPrefix(got.stderr, "stint: the server requires a valid token: none was found in "+filepath.Join(os.Getenv(xdgEnv), "stint", tokenName)+" or "+serviceToken) {
		t.Errorf("without a file: %+v", got)
	}

	// The error says what to do if the token cannot be stored.
	nowhere := filepath.Join(testkit.TempFile(t, "file", ""), "state")
	if got := execute(t, "", "serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state-dir",
		nowhere); got.code != exitBad || !strings.HasSuffix(got.stderr,
		"; want a writable directory in --state-dir, a file of tokens in --admin-token-file, or --no-admin-token\n") {
		t.Errorf("a directory that cannot be made: %+v", got)
	}
}

// TestTokenOnlyHere checks that the token that a server on this machine generated is sent only to
// this machine.
func TestTokenOnlyHere(t *testing.T) {
	for where, want := range map[string]bool{
		"http://127.0.0.1:6070": true, "http://localhost:6070": true, "http://[::1]:6070": true,
		"https://127.9.9.9": true, "http://[::ffff:127.0.0.1]:1": true,
		"http://stint.example": false, "http://192.0.2.1:6070": false, "http://localhost.example": false,
		"http://127.0.0.1.example":       false,
		"http://127.0.0.1@stint.example": false, "http://0.0.0.0:6070": false,
		"http://127.0.0.1:80@192.0.2.1": false, "://": false,
	} {
		if got := onThisMachine(where); got != want {
			t.Errorf("%s: got %t", where, got)
		}
	}
	t.Setenv(xdgEnv, t.TempDir())
	testkit.WriteFile(t, filepath.Join(os.Getenv(xdgEnv), "stint", tokenName), "token-of-this-machine\n")
	sent := ""
	var elsewhere string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		if elsewhere != "" {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write([]byte(`{"bans":[]}`))
	}))
	defer s.Close()
	if got := execute(t, "", "bans", "--server", s.URL); got.code != exitGood || sent != "Bearer token-of-this-machine" {
		t.Errorf("got %+v and sent %q", got, sent)
	}
	// A host name that leads to this machine, but might lead elsewhere.
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	if name, err := os.Hostname(); err == nil {
		sent = ""
		if got := execute(t, "", "bans", "--server", "http://"+name+":"+port); sent != "" {
			t.Errorf("to %s: got %+v and sent %q", name, got, sent)
		}
	}
	// The token is not sent to the target of a redirect.
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed, with %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	elsewhere = other.URL
	wantResult(t, execute(t, "", "bans", "--server", s.URL), exitUnreachable, "", "")
}

func TestStateDir(t *testing.T) {
	t.Setenv("HOME", "/users/alice")
	for _, test := range []struct{ systemd, xdg, want string }{
		{"", "", "/users/alice/.local/state/stint"},
		{"", "relative", "/users/alice/.local/state/stint"},
		{"", "/xdg", "/xdg/stint"},
		{"/var/lib/stint", "/xdg", "/var/lib/stint"},
		{"/var/lib/stint:/var/lib/other", "", "/var/lib/stint"},
	} {
		t.Setenv(stateEnv, test.systemd)
		t.Setenv(xdgEnv, test.xdg)
		if got, err := stateDir(); err != nil || got != test.want {
			t.Errorf("%+v: got %q, %v", test, got, err)
		}
	}
	t.Setenv(stateEnv, "")
	t.Setenv(xdgEnv, "")
	t.Setenv("HOME", "")
	got := execute(t, "", "serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	wantResult(t, got, exitBad, "", "$HOME is not defined; want a writable directory")
}

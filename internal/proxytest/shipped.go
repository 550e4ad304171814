package proxytest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Proxy is a proxy with a shipped configuration.
type Proxy struct {
	Name  string
	start func(testing.TB, Setup)
	// Closed holds the changes to the configuration that make the proxy reject requests while stint
	// is down: pairs of an old and a new string. ClosedStatus is the status of the rejections.
	Closed       []string
	ClosedStatus int
}

// Start starts the proxy and waits until it accepts connections.
func (p Proxy) Start(t testing.TB, s Setup) {
	t.Helper()
	p.start(t, s)
	AwaitDial(t, s.Address)
}

// Setup describes how a proxy runs. Shipped is the directory of the shipped files, and Dir is the
// directory for the proxy's own files. Address, Stint and Application are the addresses of the
// proxy, of stint and of the application; they replace those in the shipped files. Changes holds
// further changes to the configuration: pairs of an old and a new string.
type Setup struct {
	Shipped, Dir                string
	Address, Stint, Application string
	Changes                     []string
}

// The addresses of a Setup replace these addresses in shipped files.
const (
	shippedStint       = "127.0.0.1:8080"
	shippedApplication = "127.0.0.1:3000"
)

// In tests, the proxies wait longer for stint than in the shipped files, because a busy machine may
// stall stint, and the tests are not about the wait.
const (
	shippedTimeout = "100ms"
	timeout        = "1500ms"
)

// Install copies a shipped file to a directory, applies changes to the copy, and returns the name
// of the copy. The changes are pairs of a string and its replacement. The file must contain every
// string to replace.
func Install(t testing.TB, dir, file string, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(changed, changes[i]) {
			t.Fatalf("%s has no %q", file, changes[i])
		}
		changed = strings.ReplaceAll(changed, changes[i], changes[i+1])
	}
	name := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(name, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// configure installs a proxy's configuration with the addresses and the changes of the setup.
func (p Setup) configure(t testing.TB, file string, changes ...string) string {
	t.Helper()
	changes = append(changes, shippedStint, p.Stint, shippedApplication, p.Application, shippedTimeout, timeout)
	return Install(t, p.Dir, filepath.Join(p.Shipped, file), append(changes, p.Changes...)...)
}

// Nginx runs nginx, which asks stint with auth_request.
var Nginx = Proxy{
	Name: "nginx",
	start: func(t testing.TB, p Setup) {
		Install(t, p.Dir, filepath.Join(p.Shipped, "nginx/client_headers.conf"))
		// Keep temporary files in the directory of the test. By default, nginx writes them
		// elsewhere.
		file := p.configure(t, "nginx/nginx.conf", "listen 8000;", "listen "+p.Address+";", "\nhttp {\n", "\nhttp {\n"+
			"access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n")
		Launch(t, nil, Find(t, "nginx", "nginx-light"), "-e", "stderr", "-p", p.Dir, "-c", file,
			"-g", "daemon off; master_process off; pid nginx.pid; error_log stderr;")
	},
	Closed:       []string{"return 204;", "return 500;"},
	ClosedStatus: http.StatusInternalServerError,
}

// Caddy runs Caddy, which asks stint with the expanded form of forward_auth.
var Caddy = Proxy{
	Name: "caddy",
	start: func(t testing.TB, p Setup) {
		_, port, _ := strings.Cut(p.Address, ":")
		file := p.configure(t, "caddy/Caddyfile", "\n:8000 {\n", "\n:"+port+" {\nbind 127.0.0.1\n",
			"\n{\n\tservers {\n", "\n{\n\tadmin off\n\tservers {\n") // all processes on a machine share the admin port
		Launch(t, []string{"HOME=" + p.Dir, "XDG_CONFIG_HOME=" + p.Dir, "XDG_DATA_HOME=" + p.Dir},
			Find(t, "caddy", "caddy"), "run", "--config", file, "--adapter", "caddyfile")
	},
	Closed: []string{"\t\thandle @reads {\n\t\t\timport application\n\t\t}\n", "",
		"\t\thandle @plain {\n\t\t\timport application\n\t\t}\n", ""},
	ClosedStatus: http.StatusServiceUnavailable,
}

// HAProxy runs HAProxy, which asks stint with a Lua script.
var HAProxy = Proxy{
	Name: "haproxy",
	start: func(t testing.TB, p Setup) {
		// All processes on a machine share the names of abstract sockets, so the name of this one
		// contains the port.
		_, port, _ := strings.Cut(p.Address, ":")
		socket := []string{"abns@stint", "abns@stint-test-" + port}
		script := Install(t, p.Dir, filepath.Join(p.Shipped, "haproxy/stint.lua"),
			append(socket, "timeout_ms = 500", "timeout_ms = 5000")...)
		file := p.configure(t, "haproxy/haproxy.cfg",
			append(socket, "bind :8000", "bind "+p.Address, "/etc/haproxy/stint.lua", script)...)
		Launch(t, nil, Find(t, "haproxy", "haproxy"), "-db", "-f", file)
	},
	Closed:       []string{"http-request lua.stint_ask open", "http-request lua.stint_ask closed"},
	ClosedStatus: http.StatusServiceUnavailable,
}

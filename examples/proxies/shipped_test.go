package proxies

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// proxy is one whose configuration is shipped.
type proxy struct {
	name  string
	start func(*testing.T, place)
	// closed is the change to the configuration that has requests refused while stint is down, and closedStatus what with.
	closed       []string
	closedStatus int
}

// place is where a proxy runs: its directory, and the addresses that take the place of those in the shipped file.
type place struct {
	dir                         string
	address, stint, application string
	changes                     []string
}

// What stands in shipped files for the addresses of a place.
const (
	shippedStint       = "127.0.0.1:8080"
	shippedApplication = "127.0.0.1:3000"
)

// Proxies wait for stint for longer than shipped, for a busy machine may stall it, and what is tested is not how long.
const (
	shippedTimeout = "100ms"
	timeout        = "1500ms"
)

// install copies a shipped file to a directory, with changes: pairs of an old and a new text. All that is changed must be
// there. It returns the new file's name.
func install(t *testing.T, dir, file string, changes ...string) string {
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

// configure installs a proxy's configuration with the addresses of the place, and the changes that are wanted there.
func (p place) configure(t *testing.T, file string, changes ...string) string {
	t.Helper()
	changes = append(changes, shippedStint, p.stint, shippedApplication, p.application, shippedTimeout, timeout)
	return install(t, p.dir, file, append(changes, p.changes...)...)
}

var nginx = proxy{
	name: "nginx",
	start: func(t *testing.T, p place) {
		// Files that would be written elsewhere are kept in the prefix.
		file := p.configure(t, "nginx/nginx.conf", "listen 8000;", "listen "+p.address+";", "\nhttp {\n", "\nhttp {\n"+
			"access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n")
		launch(t, nil, find(t, "nginx", "nginx-light"), "-e", "stderr", "-p", p.dir, "-c", file,
			"-g", "daemon off; master_process off; pid nginx.pid; error_log stderr;")
	},
	closed:       []string{"return 204;", "return 500;"},
	closedStatus: http.StatusInternalServerError,
}

var caddy = proxy{
	name: "caddy",
	start: func(t *testing.T, p place) {
		_, port, _ := strings.Cut(p.address, ":")
		file := p.configure(t, "caddy/Caddyfile", "\n:8000 {\n", "\n:"+port+" {\nbind 127.0.0.1\n")
		launch(t, []string{"HOME=" + p.dir, "XDG_CONFIG_HOME=" + p.dir, "XDG_DATA_HOME=" + p.dir, "CADDY_ADMIN=" + freeAddress(t)},
			find(t, "caddy", "caddy"), "run", "--config", file, "--adapter", "caddyfile")
	},
	closed:       []string{"handle @unanswered {\n\t\t\timport application\n\t\t}", "respond @unanswered 503"},
	closedStatus: http.StatusServiceUnavailable,
}

var haproxy = proxy{
	name: "haproxy",
	start: func(t *testing.T, p place) {
		// Abstract sockets are the whole machine's.
		_, port, _ := strings.Cut(p.address, ":")
		socket := []string{"abns@stint", "abns@stint-test-" + port}
		script := install(t, p.dir, "haproxy/stint.lua", append(socket, "patience = 500", "patience = 5000")...)
		file := p.configure(t, "haproxy/haproxy.cfg", append(socket, "bind :8000", "bind "+p.address, "/etc/haproxy/stint.lua", script)...)
		launch(t, nil, find(t, "haproxy", "haproxy"), "-db", "-f", file)
	},
	closed:       []string{"http-request lua.stint_ask open", "http-request lua.stint_ask closed"},
	closedStatus: http.StatusServiceUnavailable,
}

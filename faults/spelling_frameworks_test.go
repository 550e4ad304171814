package faults

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// framework is an application in tools/frameworks. It names the handler that it runs in a field.
type framework struct{ name, address string }

// startFrameworks returns when all answer.
func startFrameworks(r *report) []*framework {
	r.Helper()
	dir := testkit.Must(filepath.Abs("../tools/frameworks"))(r)
	node, puma := proxytest.Find(r, "node", "nodejs"), proxytest.Find(r, "puma", "puma")
	php, python := proxytest.Find(r, "php", "php-cli"), proxytest.Find(r, "/usr/bin/python3", "python3")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".installed")); err != nil {
		r.Fatalf("%v: run make setup", err)
	}
	var list []*framework
	start := func(name, program string, args ...string) {
		f := &framework{name, proxytest.FreeAddress(r)}
		host, port, _ := strings.Cut(f.address, ":")
		for i := range args {
			args[i] = strings.NewReplacer("{host}", host, "{port}", port).Replace(args[i])
		}
		proxytest.Launch(r, []string{"PYTHONDONTWRITEBYTECODE=1"}, program, args...)
		list = append(list, f)
	}
	start("rails", puma, "--quiet", "--config", "-", "--environment", "production", "--threads", "4:4",
		"--bind", "tcp://{host}:{port}", filepath.Join(dir, "rails", "config.ru")) // the slowest first
	for _, name := range []string{"astro", "express", "hono"} {
		start(name, node, filepath.Join(dir, name, "app.js"), "{host}", "{port}")
	}
	start("django", python, "-m", "gunicorn", "--log-level", "error", "--bind", "{host}:{port}", "--threads", "4",
		"--chdir", filepath.Join(dir, "django"), "application")
	start("flask", python, filepath.Join(dir, "flask", "application.py"), "{host}", "{port}")
	for _, name := range []string{"php", "symfony"} {
		root := filepath.Join(dir, name)
		start(name, php, "-q", "-S", "{host}:{port}", "-t", root, filepath.Join(root, "index.php"))
	}
	for _, f := range list {
		f.awaitHandlers(r)
	}
	return list
}

// awaitHandlers returns when honest requests run all handlers.
func (f *framework) awaitHandlers(r *report) {
	r.Helper()
	for _, a := range append(honestAttempts(), attempt{handler: "", honest: spelled("GET", "/login")}) {
		testkit.EventuallyNil(r, fmt.Sprintf("%s runs its handlers", f.name), func() error {
			if ran := f.run(a.honest); ran != a.handler {
				return fmt.Errorf("%q runs %q, want %q", a.honest, ran, a.handler)
			}
			return nil
		})
	}
}

// run sends a request as it is, and returns the handler that it runs, or "".
func (f *framework) run(raw string) string {
	conn, err := dialFrom("127.0.0.1", f.address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, raw); err != nil {
		return ""
	}
	answers := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(answers, &http.Request{Method: http.MethodHead}) // the body does not matter
		if err != nil {
			return ""
		}
		if resp.StatusCode != http.StatusContinue {
			return resp.Header.Get("Ran")
		}
	}
}

// leaks say which framework runs which handler for which request, and which fronts let it pass.
type leaks struct {
	mu   sync.Mutex
	rows []string
}

func (l *leaks) add(f *framework, p *passing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fronts := slices.Compact(slices.Sorted(slices.Values(p.fronts)))
	l.rows = append(l.rows, fmt.Sprintf("%-8s %-9s %s through %s", f.name, p.handler, brief(p.request),
		strings.Join(fronts, ", ")))
}

// brief is a request without what most have.
func brief(request string) string {
	usual := strings.NewReplacer(" HTTP/1.1\r\n", "\r\n", "Host: "+anyHost+"\r\n", "", "Content-Length: 0\r\n", "",
		"Connection: close\r\n", "")
	text := fmt.Sprintf("%q", strings.TrimRight(usual.Replace(request), "\r\n"))
	if len(text) > 120 {
		return text[:100] + "…"
	}
	return text
}

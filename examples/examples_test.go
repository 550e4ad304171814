//go:build unix

// Package examples has programs, configurations and a README with a command for each of them, and
// no code: its test runs the commands as the README has them.
package examples

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// example is a row of the README's table.
type example struct{ directory, command string }

var row = regexp.MustCompile("(?m)^\\|[^|]+\\| \\[([^]]+)\\]\\(([^)]+)\\) \\| `([^`]+)` \\| .+ \\|$")

func TestExamples(t *testing.T) {
	bin := t.TempDir() // for proxies/run.sh, which would build the same programs again each time
	if !testing.Short() {
		if built := os.Getenv("STINT_BINARY"); built != "" { // which go build finds up to date
			if out, err := exec.Command("cp", built, bin).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		build := exec.Command("go", "build", "-o", bin+"/", "../cmd/stint", "./proxies/application")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	checks := map[string]func(*testing.T, example){
		"nethttp":         testServer("GET", "/", 10),
		"redis":           testRedis,
		"routers/chi":     testServer("POST", "/login", 3),
		"routers/gorilla": testServer("GET", "/", 10),
		"routers/echo":    testServer("GET", "/", 10),
		"routers/gin":     testServer("GET", "/api/", 10),
		"grpc":            testGRPC,
		"outbound":        testOutbound,
		"workers":         testWorkers(bin),
		"python":          testPython(bin),
		"login":           testLogin,
		"plans":           testPlans,
		"quota":           testQuota,
		"overrides":       testOverrides,
		"llm":             testLLM,
		"regions":         testRegions,
		"proxies/nginx":   testProxy(bin),
		"proxies/caddy":   testProxy(bin),
		"proxies/haproxy": testProxy(bin),
		"proxies/traefik": testMissingProxy(bin),
		"proxies/envoy":   testMissingProxy(bin),
		"tiers":           func(t *testing.T, e example) { e.output(t) },
	}
	listed := map[string]bool{"proxies/application": true, "proxies/envoy/rules": true, "llm/model": true} // parts of others
	for _, match := range row.FindAllStringSubmatch(testkit.ReadFile(t, "README.md"), -1) {
		e := example{match[1], match[3]}
		for dir := e.directory; dir != "."; dir = filepath.Dir(dir) {
			listed[dir] = true
		}
		if filepath.Dir(match[2]) != e.directory {
			t.Errorf("README.md: the link of %s leads to %s", e.directory, match[2])
		}
		check := checks[e.directory]
		delete(checks, e.directory)
		if check == nil {
			t.Errorf("README.md: no test runs %s", e.directory)
			continue
		}
		t.Run(e.directory, func(t *testing.T) {
			if testing.Short() {
				t.Skip("starts other programs: make test runs it")
			}
			t.Parallel()
			check(t, e)
		})
	}
	for directory := range checks {
		t.Errorf("README.md does not list %s", directory)
	}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name != "." && !listed[name] {
			t.Errorf("README.md does not list %s", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testServer has a program that listens on localhost:8080 allow some requests, and deny the next.
func testServer(method, path string, limit int) func(*testing.T, example) {
	return func(t *testing.T, e example) {
		url := e.serve(t)
		for i := range limit + 1 {
			resp := ask(t, method, url+path, "")
			want := http.StatusOK
			if i == limit {
				want = http.StatusTooManyRequests
			}
			if after := resp.Header.Get("Retry-After"); resp.StatusCode != want || (after != "") != (i == limit) {
				t.Errorf("request %d: got %s, Retry-After %q; want %d", i+1, resp.Status, after, want)
			}
		}
	}
}

// testRedis has a user ask two processes in turn.
func testRedis(t *testing.T, e example) {
	redis := redistest.Start(t).URL()
	var urls [2]string
	for i := range urls {
		urls[i] = e.serve(t, "REDIS_URL="+redis)
	}
	for n := range 10 {
		allowed, degraded := 0, false
		for i := range 20 {
			resp := ask(t, "GET", urls[i%2]+"/", fmt.Sprint("user", n))
			degraded = degraded || resp.Header.Get("X-RateLimit-Degraded") != ""
			if resp.StatusCode == http.StatusTooManyRequests {
				break
			}
			allowed++
		}
		if degraded {
			continue // Redis was too slow for a decision, on a busy machine: ask as another user
		}
		if allowed != 10 {
			t.Errorf("a user was allowed %d requests, want 10", allowed)
		}
		return
	}
	t.Error("every attempt had decisions without Redis")
}

func testGRPC(t *testing.T, e example) {
	got := e.output(t)
	want := regexp.MustCompile(`(?m)^call 1: <nil>\ncall 2: <nil>\ncall 3: .* code = ResourceExhausted .* retry in \S+$`)
	if !want.MatchString(got) {
		t.Errorf("got\n%s", got)
	}
}

func testOverrides(t *testing.T, e example) {
	const want = "configured: 3 allowed, then denied by 3/1h\nraised until tomorrow: 2 allowed, then denied by 5/1h\n" +
		"removed: 0 allowed, then denied by 3/1h\n"
	if got := e.output(t); got != want {
		t.Errorf("got\n%s", got)
	}
}

// testLogin attempts an account too often, then another, and the first one in another spelling.
func testLogin(t *testing.T, e example) {
	url := e.serve(t)
	for i, test := range []struct {
		email string
		want  int
	}{
		{"ann@example.com", 200}, {"ann@example.com", 200}, {"ann@example.com", 200}, {"ann@example.com", 200},
		{"ann@example.com", 200}, {"ann@example.com", 429}, {" Ann@Example.com", 429}, {"bob@example.com", 200},
	} {
		resp := testkit.Must(http.PostForm(url+"/login", map[string][]string{"email": {test.email}}))(t)
		resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("attempt %d, of %s: got %d, want %d", i+1, test.email, resp.StatusCode, test.want)
		}
	}
}

// testPlans asks as customers with plans of their own.
func testPlans(t *testing.T, e example) {
	url := e.serve(t)
	for i, test := range []struct {
		user, path       string
		status           int
		limit, remaining string
	}{
		{"ann", "/", 200, "500", "499"}, {"ann", "/report", 200, "500", "497"},
		{"bob", "/report", 200, "2", "0"}, {"bob", "/", 429, "2", "0"},
		{"eve", "/", 200, "1", "0"}, {"eve", "/", 429, "1", "0"},
	} {
		resp := ask(t, http.MethodGet, url+test.path, test.user)
		limit, remaining := resp.Header.Get("X-RateLimit-Limit"), resp.Header.Get("X-RateLimit-Remaining")
		if resp.StatusCode != test.status || limit != test.limit || remaining != test.remaining {
			t.Errorf("request %d: got %d, %s of %s left; want %+v", i+1, resp.StatusCode, remaining, limit, test)
		}
	}
}

func testQuota(t *testing.T, e example) {
	lines := strings.Split(strings.TrimSpace(e.output(t)), "\n")
	slices.Sort(lines) // events arrive in any order
	want := []string{"received: user:42 has used 100% of 5/month in Europe/Berlin",
		"received: user:42 has used 80% of 5/month in Europe/Berlin", "request 6 is denied"}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q", lines)
	}
}

func testOutbound(t *testing.T, e example) {
	lines := strings.Split(strings.TrimSpace(e.output(t)), "\n")
	if len(lines) != 10 {
		t.Fatalf("got %d lines, want 10", len(lines))
	}
	sixth, err := time.ParseDuration(strings.Fields(lines[5])[0])
	if err != nil || sixth < time.Second {
		t.Errorf("the sixth call came at %v (%v), want at 1s or later", sixth, err)
	}
}

// called is a line about a call of examples/workers.
var called = regexp.MustCompile(`(?m)^(\S+)  GET /(go|curl)/\d+(: too many, a pause of a second)?$`)

// testWorkers has two workers make twelve calls each, under 4/1s, and one more, which the API
// refuses.
//
// A call is printed when it arrives, which on a busy machine may be long after its turn. But a
// worker asks for its turn only after its previous call has arrived, so the turn is between two
// printed times. Five calls for which all of these are within less than a second break the limit,
// however slow the machine is. Times are printed in milliseconds, so the difference of two of them
// may be one too small.
func testWorkers(bin string) func(*testing.T, example) {
	return func(t *testing.T, e example) {
		got := e.output(t, "BIN="+bin, "REDIS="+proxytest.FreeAddress(t), "STINT="+proxytest.FreeAddress(t),
			"API="+proxytest.FreeAddress(t))
		for _, worker := range []string{"go", "curl"} {
			if n := len(regexp.MustCompile(`(?m)GET /`+worker+`/\d+$`).FindAllString(got, -1)); n != 12 {
				t.Errorf("%d calls of %s, want 12", n, worker)
			}
		}
		const second = time.Second - time.Millisecond
		type turn struct{ after, before time.Duration }
		var turns []turn
		last, paused, pauses := map[string]time.Duration{}, map[string]bool{}, 0
		for _, match := range called.FindAllStringSubmatch(got, -1) {
			at := testkit.Must(time.ParseDuration(match[1]))(t)
			worker := match[2]
			if paused[worker] && at-last[worker] < second {
				t.Errorf("a call of %s at %v, and the API asked it for a pause at %v", worker, at, last[worker])
			}
			turns = append(turns, turn{last[worker], at})
			if last[worker], paused[worker] = at, match[3] != ""; paused[worker] {
				pauses++
			}
		}
		if pauses != 1 {
			t.Errorf("%d pauses, want 1", pauses)
		}
		for _, from := range turns {
			within := 0
			for _, turn := range turns {
				if turn.after >= from.after && turn.before < from.after+second {
					within++
				}
			}
			if within > 4 {
				t.Errorf("%d turns in the second after %v", within, from.after)
			}
		}
		total := regexp.MustCompile(`24 calls in (\S+)\n$`).FindStringSubmatch(got)
		if total == nil {
			t.Fatalf("got\n%s", got)
		}
		// The first of 25 calls has its turn after the start, and the last one six seconds later.
		if took, err := time.ParseDuration(total[1]); err != nil || took < 6*second {
			t.Errorf("all calls in %v (%v)", took, err)
		}
	}
}

// TestWorkerPauses: worker.sh has all workers pause for as long as the API says in seconds, else
// for a second. If that fails, it says so, and goes on after a pause of its own.
func TestWorkerPauses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts other programs: make test runs it")
	}
	for _, test := range []struct {
		after  string // Retry-After
		want   string // for_seconds
		status int    // of the answer to that
	}{
		{"7", "7", http.StatusOK},
		{"", "1", http.StatusOK},
		{"0", "1", http.StatusOK},
		{"Wed, 21 Oct 2037 07:28:00 GMT", "1", http.StatusOK},
		{"1", "1", http.StatusBadRequest},
	} {
		t.Run(fmt.Sprintf("%q %d", test.after, test.status), func(t *testing.T) {
			t.Parallel()
			var lock sync.Mutex
			var asked []string
			note := func(r *http.Request) string {
				body, _ := io.ReadAll(r.Body)
				lock.Lock()
				defer lock.Unlock()
				asked = append(asked, r.URL.Path+" "+string(body))
				return strings.Join(asked, "\n")
			}
			stint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if note(r); r.URL.Path == "/v1/cooldown" {
					w.WriteHeader(test.status)
					return
				}
				_, _ = io.WriteString(w, `{"allowed": true}`)
			}))
			defer stint.Close()
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Count(note(r), "/curl/1") > 1 {
					return
				}
				if test.after != "" {
					w.Header().Set("Retry-After", test.after)
				}
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			defer api.Close()
			worker := exec.Command("workers/worker.sh", "1", api.URL)
			worker.Env = append(os.Environ(), "TOKEN=token", "STINT="+strings.TrimPrefix(stint.URL, "http://"))
			out, err := worker.CombinedOutput()
			if err != nil || (test.status == http.StatusOK) != (len(out) == 0) {
				t.Errorf("%v: %s", err, out)
			}
			const turn, call = `/v1/wait {"api": "igdb"}`, "/curl/1 "
			want := []string{turn, call, `/v1/cooldown {"api": "igdb", "for_seconds": ` + test.want + `}`, turn, call}
			if !slices.Equal(asked, want) {
				t.Errorf("got  %q\nwant %q", asked, want)
			}
		})
	}
}

// testPython has threads use up a budget of 1,000 with estimates of 100 that are settled to 50.
func testPython(bin string) func(*testing.T, example) {
	return func(t *testing.T, e example) {
		got := e.output(t, "BIN="+bin, "STINT="+proxytest.FreeAddress(t))
		var allowed, denied int
		_, err := fmt.Sscanf(got, "allowed %d\ndenied %d\nwithout a server: denied\n", &allowed, &denied)
		if err != nil || allowed+denied != 40 || allowed > 19 || allowed < 16 { // four may be in progress
			t.Errorf("%v: got\n%s", err, got)
		}
	}
}

// testLLM has every level deny a caller.
func testLLM(t *testing.T, e example) {
	var by []string
	for _, found := range regexp.MustCompile(`then denied by the limit of the (\w+) for \d+ s`).
		FindAllStringSubmatch(e.output(t), -1) {
		by = append(by, found[1])
	}
	if want := []string{"key", "user", "team", "org", "org"}; !slices.Equal(by, want) {
		t.Errorf("denied by %q, want %q", by, want)
	}
}

func testRegions(t *testing.T, e example) {
	got := e.output(t, "REDIS="+proxytest.FreeAddress(t))
	var europe, america, together int
	_, err := fmt.Sscanf(regexp.MustCompile(`(?m) requests .*$`).ReplaceAllString(got, ""),
		"europe: %d of %d\namerica: %d of %d\ntogether: %d of 1000", &europe, new(int), &america, new(int), &together)
	if err != nil || together == 0 || together > 1000 || together != europe+america {
		t.Errorf("%v: got\n%s\nwant some requests, and at most 1000 of both regions together", err, got)
	}
}

// testProxy has a real proxy deny the eleventh request of an address. It goes on without stint if
// that is slow, so that requests without X-RateLimit-Limit do not count; stint may have charged
// them.
func testProxy(bin string) func(*testing.T, example) {
	return func(t *testing.T, e example) {
		env, addresses := proxyAddresses(t, bin)
		p := e.start(t, env...)
		p.await(t, "was ready", func() bool { return strings.Contains(p.out.String(), "is ready") })
		url := "http://" + addresses["PROXY"] + "/things"
		allowed, bypassed := 0, 0
		testkit.Eventually(t, "a request is denied", func() bool {
			resp := ask(t, "GET", url, "")
			if resp.StatusCode == http.StatusOK && resp.Header.Get("X-RateLimit-Limit") == "10" {
				allowed++
			} else if resp.StatusCode == http.StatusOK {
				bypassed++
			}
			return resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != ""
		})
		if allowed > 10 || allowed < 10 && bypassed == 0 {
			t.Errorf("%d requests were allowed, want 10; %d were not limited", allowed, bypassed)
		}
		if !strings.Contains(p.out.String(), "curl -i http://"+addresses["PROXY"]) {
			t.Errorf("the script does not say what to try:\n%s", p.out.String())
		}
	}
}

// testMissingProxy is for proxies that cannot be installed for tests. The script says what to
// install; with a program in the proxy's place it starts that with stint and the application, and
// the right addresses.
func testMissingProxy(bin string) func(*testing.T, example) {
	return func(t *testing.T, e example) {
		name := filepath.Base(e.directory)
		missing := exec.CommandContext(t.Context(), proxytest.Find(t, "bash", "bash"), "proxies/run.sh", name)
		missing.Env = []string{"PATH=/nonexistent"}
		out, err := missing.CombinedOutput()
		if want := "run.sh: " + name + " not found. To install it: https://"; err == nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("without %s: %v: got %q, want %q", name, err, out, want)
		}

		dir := t.TempDir()
		standIn := "#!/bin/sh\nuntil curl -fso /dev/null http://$STINT/readyz; do sleep 0.1; done\ncat *.yaml >" + dir + "/seen\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(standIn), 0o700); err != nil {
			t.Fatal(err)
		}
		env, addresses := proxyAddresses(t, bin)
		p := e.start(t, append(env, "PATH="+dir+":"+os.Getenv("PATH"))...)
		if err := p.wait(); err == nil || !strings.Contains(p.out.String(), "one of the three programs has ended") {
			t.Errorf("%v: the script does not say that the proxy has ended:\n%s", err, p.out.String())
		}
		seen := testkit.ReadFile(t, filepath.Join(dir, "seen"))
		form := "%s:%s"
		wanted := []string{"PROXY", "APPLICATION", "STINT"}
		if name == "envoy" {
			form, wanted[2] = "{address: %s, port_value: %s}", "STINT_GRPC"
		}
		for _, variable := range wanted {
			host, port, _ := strings.Cut(addresses[variable], ":")
			if want := fmt.Sprintf(form, host, port); !strings.Contains(seen, want) {
				t.Errorf("%s does not get %s: it has no %s", name, variable, want)
			}
		}
	}
}

// proxyAddresses returns free addresses for proxies/run.sh by their names, and its environment with
// them.
func proxyAddresses(t *testing.T, bin string) (env []string, addresses map[string]string) {
	t.Helper()
	env, addresses = []string{"BIN=" + bin}, map[string]string{}
	for _, variable := range []string{"PROXY", "STINT", "STINT_GRPC", "APPLICATION"} {
		addresses[variable] = proxytest.FreeAddress(t)
		env = append(env, variable+"="+addresses[variable])
	}
	return env, addresses
}

// ask makes a request, as a user if there is a name.
func ask(t *testing.T, method, url, user string) *http.Response {
	t.Helper()
	r := testkit.Must(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	if user != "" {
		r.SetBasicAuth(user, "")
	}
	resp := testkit.Must(http.DefaultClient.Do(r))(t)
	_ = resp.Body.Close()
	return resp
}

// serve starts a program that listens on localhost:8080, on another address instead: the compiler
// gets the file with it. It returns when the program listens.
func (e example) serve(t *testing.T, env ...string) (url string) {
	t.Helper()
	const shipped = "localhost:8080"
	address := proxytest.FreeAddress(t)
	file := testkit.Must(filepath.Abs(filepath.Join(e.directory, "main.go")))(t)
	changed := proxytest.Install(t, t.TempDir(), file, `"`+shipped+`"`, `"`+address+`"`)
	overlay := testkit.Must(json.Marshal(map[string]any{"Replace": map[string]string{file: changed}}))(t)
	list := testkit.TempFile(t, "overlay.json", string(overlay))
	p := e.start(t, append(env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+list))...)
	p.await(t, "listened", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://" + address
}

// output runs a command to its end, and returns what it wrote to the standard output.
func (e example) output(t *testing.T, env ...string) string {
	t.Helper()
	p := e.start(t, env...)
	if err := p.wait(); err != nil {
		t.Fatalf("%s: %v:\n%s", e.command, err, p.out.String())
	}
	return p.stdout.String()
}

// process is a command that runs until the test ends it as Ctrl-C does.
type process struct {
	out, stdout testkit.Buffer // everything, and the standard output
	done        chan struct{}
	err         error
}

func (e example) start(t *testing.T, env ...string) *process {
	t.Helper()
	cmd := exec.Command("sh", "-c", "exec "+e.command)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), append(env, "TMPDIR="+t.TempDir())...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run and scripts have children
	p := &process{done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&p.out, &p.stdout), &p.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait() // returns when no child has the output open any more
	}()
	t.Cleanup(func() {
		select {
		case <-p.done: // its number may be that of another process now
		default:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // on failure, it is about to end
		}
		select {
		case <-p.done:
		case <-time.After(time.Minute):
			t.Errorf("%s: processes are left after Ctrl-C", e.command)
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-p.done
		}
		if t.Failed() {
			t.Logf("%s wrote:\n%s", e.command, p.out.String())
		}
	})
	return p
}

func (p *process) wait() error {
	<-p.done
	return p.err
}

// await waits until ok, for as long as the command runs: compiling may take any time.
func (p *process) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-p.done:
			t.Fatalf("ended before it %s: %v", what, p.err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

//go:build unix

package doctest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestPages runs the commands of every page in order, and compares what they print with what the
// page shows.
func TestPages(t *testing.T) {
	program := proxytest.BuildStint(t)
	t.Run("mentions", func(t *testing.T) {
		t.Parallel()
		checkMentions(t, program)
	})
	for _, p := range pages(t) {
		if !slices.ContainsFunc(p.blocks, block.runs) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, program)
			for _, b := range p.blocks {
				s.save(b)
				if !b.runs() {
					continue
				}
				for _, command := range b.before {
					s.run(step{line: b.line, command: command})
				}
				for _, step := range b.steps() {
					s.run(step)
				}
			}
		})
	}
}

func (b block) runs() bool { return (b.language == "console" || b.language == "sh") && b.notRun == "" }

// A step is a command of a block.
type step struct {
	line        int
	command     string
	want        string // what it prints
	shown       bool   // the block shows what it prints
	numbersVary bool
}

var hereDocument = regexp.MustCompile(`<<-?'?(\w+)'?`)

// steps returns the commands of a block. A line that ends with a backslash or opens a document is
// continued.
func (b block) steps() []step {
	var list []step
	end := "" // of the document that the command reads
	open := false
	for i, line := range strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") {
		console := b.language == "console"
		command, begins := strings.CutPrefix(line, "$ ")
		rest, continues := strings.CutPrefix(line, "> ")
		last := len(list) - 1
		switch {
		case open && (!console || continues):
			if !console {
				rest = line
			}
			list[last].command += "\n" + rest
			if rest == end {
				end = ""
			}
			open = end != "" || strings.HasSuffix(rest, `\`)
			continue
		case console && !begins:
			list[last].want += line + "\n"
			list[last].shown = true
			continue
		case !console:
			command = line
		}
		if strings.TrimSpace(command) == "" {
			continue
		}
		list = append(list, step{line: b.line + 1 + i, command: command, numbersVary: b.numbersVary})
		if found := hereDocument.FindStringSubmatch(command); found != nil {
			end = found[1]
		}
		open = end != "" || strings.HasSuffix(command, `\`)
	}
	return list
}

// A session is what a reader who follows a page has: a directory, an environment, ports and the
// servers that run.
type session struct {
	t         *testing.T
	directory string            // where the reader works
	state     string            // the directory of what is not the reader's
	env       []string          // of all commands
	ports     map[string]string // those that are used for those of the page
	servers   []*background
	redisURL  bool // the page has set REDIS_URL
}

func newSession(t *testing.T, program string) *session {
	t.Helper()
	s := &session{t: t, directory: t.TempDir(), state: t.TempDir(), ports: map[string]string{}}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "STINT_") && !strings.HasPrefix(variable, "XDG_") &&
			!strings.HasPrefix(variable, "REDIS_URL=") {
			s.env = append(s.env, variable)
		}
	}
	settings := testkit.Must(exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPATH", "GOENV", "GOVERSION").Output())(t)
	values := strings.Split(string(settings), "\n")
	s.env = append(s.env, "GOCACHE="+values[0], "GOMODCACHE="+values[1], "GOPATH="+values[2], "GOENV="+values[3],
		"GOWORK="+filepath.Join(s.state, "go.work"), "GOFLAGS=", "HOME="+s.state, "LC_ALL=C.UTF-8", "TZ=UTC",
		"ROOT="+absolute(t, root), "PATH="+s.state+":"+os.Getenv("PATH")+":/usr/sbin",
		"STINT_SERVER="+s.mapped("http://127.0.0.1:6070"))
	if err := os.Symlink(program, filepath.Join(s.state, "stint")); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, filepath.Join(s.state, "go.work"), fmt.Sprintf("go %s\nuse %s\nuse %s\n",
		strings.TrimPrefix(values[4], "go"), absolute(t, root), s.directory))
	return s
}

var fileName = regexp.MustCompile(`^(?:#|//|--) ([\w-]+\.\w+)\b`)

// save writes the file that a block is.
func (s *session) save(b block) {
	s.t.Helper()
	if found := fileName.FindStringSubmatch(b.text); found != nil && !b.runs() {
		testkit.WriteFile(s.t, filepath.Join(s.directory, found[1]), s.mapped(b.text))
	}
}

var (
	hostPort  = regexp.MustCompile(`((?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):)(\d{4,5})\b`)
	alonePort = regexp.MustCompile(`([\s"'=]:)(\d{4,5})(["'\s]|$)`)
)

// mapped returns a text with ports that are free instead of those that the page has. Port 6379 is
// that of a Redis.
func (s *session) mapped(text string) string {
	port := func(shown string) string {
		switch {
		case s.ports[shown] != "":
		case shown == "6379":
			s.ports[shown] = fmt.Sprint(redistest.Start(s.t).Port())
		default:
			_, s.ports[shown], _ = net.SplitHostPort(proxytest.FreeAddress(s.t))
		}
		return s.ports[shown]
	}
	text = hostPort.ReplaceAllStringFunc(text, func(found string) string {
		part := hostPort.FindStringSubmatch(found)
		return part[1] + port(part[2])
	})
	return alonePort.ReplaceAllStringFunc(text, func(found string) string {
		part := alonePort.FindStringSubmatch(found)
		return part[1] + port(part[2]) + part[3]
	})
}

// asShown returns a text with the ports that the page has.
func (s *session) asShown(text string) string {
	for shown, used := range s.ports {
		text = regexp.MustCompile(`\b`+used+`\b`).ReplaceAllString(text, shown)
	}
	return text
}

var (
	fetches = regexp.MustCompile(`^(go (get|install) ` + module + `|go mod tidy$|redis-server\b)`)
	serves  = regexp.MustCompile(`^(stint (serve|gateway|demo)|go run|nginx|caddy run|haproxy|python3 -m http\.server)\b`)
	daemon  = regexp.MustCompile(`\bstint (serve|gateway|demo)\b`)
	// storeRedis is a Redis at its usual port, unless REDIS_URL is set.
	storeRedis = regexp.MustCompile(`--store[ =]redis(\s|$)`)
	listens    = regexp.MustCompile(`--(?:http|listen|admin|grpc)[ =]\S*:(\d+)`)
	asks       = regexp.MustCompile(`\bcurl (-so? )`)
)

// run runs a command as the reader would. What the command fetches or starts is here if it is stint
// or Redis.
func (s *session) run(step step) {
	s.t.Helper()
	command := step.command
	if fetches.MatchString(command) {
		return
	}
	if s.redisURL = s.redisURL || strings.Contains(command, "REDIS_URL="); !s.redisURL {
		command = storeRedis.ReplaceAllString(command, "--store redis://localhost:6379$1")
	}
	if !step.shown { // a refusal is a mistake unless the page shows it
		command = asks.ReplaceAllString(command, "curl --fail-with-body $1")
	}
	command = strings.ReplaceAll(command, "redis-cli ", "redis-cli -u redis://127.0.0.1:6379 ")
	command = strings.ReplaceAll(command, "stint doctor --store", "env -u STINT_SERVER stint doctor --store")
	if found := daemon.FindStringSubmatch(command); found != nil {
		defaults := map[string]string{"http": ":8080", "admin": "127.0.0.1:6070"}
		if found[1] != "serve" {
			defaults = map[string]string{"listen": "127.0.0.1:8080", "admin": "127.0.0.1:6070"}
		}
		if strings.Contains(command, "--envoy-config") {
			defaults["grpc"] = ":8081"
		}
		for flag, address := range defaults {
			if !strings.Contains(command, "--"+flag+" ") {
				command = strings.Replace(command, found[0], found[0]+" --"+flag+" "+address, 1)
			}
		}
	}
	if strings.HasPrefix(command, "go ") && !strings.HasPrefix(command, "go mod init") {
		if _, err := os.Stat(filepath.Join(s.directory, "go.mod")); err != nil {
			testkit.WriteFile(s.t, filepath.Join(s.directory, "go.mod"), "module example\n\ngo 1.26.0\n")
		}
	}
	command, apart := strings.CutSuffix(s.mapped(command), " &")
	if apart || serves.MatchString(command) {
		s.serve(step, command)
		return
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := s.bash(ctx, command).CombinedOutput()
	got := s.asShown(string(out))
	switch {
	case !step.shown && err != nil:
		s.t.Errorf("line %d: %s: %v\n%s", step.line, step.command, err, got)
	case step.shown && !step.matches(got, false):
		s.t.Errorf("line %d: %s\nprints\n%s\nthe page shows\n%s", step.line, step.command, got, step.want)
	}
}

// bash prepares a command. It begins with the directory, the variables and the exit code that the
// one before left.
func (s *session) bash(ctx context.Context, command string) *exec.Cmd {
	state := filepath.Join(s.state, "state")
	c := exec.CommandContext(ctx, "bash", "-c", "code=0; [ ! -e "+state+" ] || . "+state+"; (exit $code)\n"+command+
		"\ncode=$?; { declare -p | grep -Ev '^declare -\\S*r| PWD='; "+
		"printf 'cd %q; code=%s\\n' \"$PWD\" $code; } > "+state+"; exit $code")
	c.Dir, c.Env = s.directory, s.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}

// background is a server that the reader has started.
type background struct {
	process *exec.Cmd
	out     testkit.Buffer
	ports   []string
	ended   chan struct{}
}

// serve starts a server, which ends those that have its ports, and returns when it listens.
func (s *session) serve(step step, command string) {
	s.t.Helper()
	b := &background{ended: make(chan struct{})}
	for _, found := range listens.FindAllStringSubmatch(command, -1) {
		b.ports = append(b.ports, found[1])
	}
	if strings.HasPrefix(command, "go run") {
		text := testkit.ReadFile(s.t, filepath.Join(s.directory, "main.go"))
		for _, found := range alonePort.FindAllStringSubmatch(text, -1) {
			b.ports = append(b.ports, found[2])
		}
	}
	for _, other := range s.servers {
		if slices.ContainsFunc(b.ports, func(p string) bool { return slices.Contains(other.ports, p) }) {
			other.stop()
		}
	}
	// A process that ends closes its output before its listeners.
	testkit.Eventually(s.t, fmt.Sprintf("line %d: the ports of the server before are closed", step.line), func() bool {
		return !slices.ContainsFunc(b.ports, func(p string) bool { return dial(p) == nil })
	})
	if len(b.ports) == 0 { // whichever is new
		for _, port := range s.ports {
			if dial(port) != nil {
				b.ports = append(b.ports, port)
			}
		}
	}
	b.process = s.bash(context.Background(), command)
	b.process.Stdout, b.process.Stderr = &b.out, &b.out
	if err := b.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(b.ended)
		_ = b.process.Wait() // the output says how it ended
	}()
	s.servers = append(s.servers, b)
	s.t.Cleanup(func() {
		b.stop()
		if s.t.Failed() {
			s.t.Logf("line %d: %s wrote:\n%s", step.line, step.command, b.out.String())
		}
	})
	failed := false
	testkit.EventuallyNil(s.t, fmt.Sprintf("line %d: %s listens", step.line, step.command), func() error {
		select {
		case <-b.ended:
			failed = true
			return nil
		default:
		}
		return b.ready(listens.MatchString(command))
	})
	if failed && !step.shown {
		s.t.Fatalf("line %d: %s ended:\n%s", step.line, step.command, b.out.String())
	}
	if step.shown {
		testkit.EventuallyNil(s.t, fmt.Sprintf("line %d: %s prints what the page shows", step.line, step.command),
			func() error {
				if got := s.asShown(b.out.String()); !step.matches(got, true) {
					return fmt.Errorf("got\n%s\nwant\n%s", got, step.want)
				}
				return nil
			})
	}
}

// ready returns nil if the server can be asked. A stint has all of its ports open, others one.
func (b *background) ready(stint bool) error {
	var errs []error
	for _, port := range b.ports {
		err := dial(port)
		if err == nil && !stint {
			return nil
		}
		if err == nil && port == b.ports[0] {
			if resp, err := http.Get("http://127.0.0.1:" + port + "/readyz"); err == nil {
				_ = resp.Body.Close() // nothing was read
				if resp.StatusCode == http.StatusServiceUnavailable {
					errs = append(errs, errors.New(resp.Status))
				}
			}
		}
		errs = append(errs, err)
	}
	if len(b.ports) == 0 {
		return errors.New("no port of this server is known")
	}
	return errors.Join(errs...)
}

func dial(port string) error {
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err == nil {
		err = conn.Close()
	}
	return err
}

func (b *background) stop() {
	select {
	case <-b.ended: // its number may be that of another process now
		return
	default:
	}
	_ = syscall.Kill(-b.process.Process.Pid, syscall.SIGTERM) // on failure, it is about to end
	select {
	case <-b.ended:
	case <-time.After(5 * time.Second):
		_ = syscall.Kill(-b.process.Process.Pid, syscall.SIGKILL)
		<-b.ended
	}
}

var (
	anything = regexp.MustCompile(`…|\.\.\.`)
	when     = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT|\d{4}/\d\d/\d\d [\d:]+`)
	dotted   = regexp.MustCompile(`\d+(?:\.\d+)+`) // a fraction, or a version or an IP address
	hex      = regexp.MustCompile(`\b[0-9a-f]{16,}\b`)
	number   = regexp.MustCompile(`\d[\d,.]*(?:[hm]\d[\d.]*)*(?:(?:ns|µs|ms|[smhd])\b)?`)
	spaces   = regexp.MustCompile(` +`)
)

// matches compares what a command has printed with what the page shows, apart from times, numbers
// with a fraction and long hexadecimal ones.
func (s step) matches(got string, more bool) bool {
	masked := func(text string) string {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		text = when.ReplaceAllString(text, "WHEN")
		text = hex.ReplaceAllString(text, "HEX")
		if s.numbersVary {
			return spaces.ReplaceAllString(number.ReplaceAllString(text, "N"), " ")
		}
		return dotted.ReplaceAllStringFunc(text, func(found string) string {
			if strings.Count(found, ".") > 1 {
				return found
			}
			return "N"
		})
	}
	pattern := `\A`
	for line := range strings.Lines(masked(s.want)) {
		line = strings.TrimRight(line, " \n")
		if word := strings.TrimSpace(line); word == "…" || word == "..." {
			pattern += `(?:.*\n)*?`
			continue
		}
		for i, part := range anything.Split(line, -1) {
			if i > 0 {
				pattern += `.*`
			}
			pattern += regexp.QuoteMeta(part)
		}
		pattern += ` *\n`
	}
	if !more {
		pattern += `\z`
	}
	got = masked(got)
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	return regexp.MustCompile(pattern).MatchString(got)
}

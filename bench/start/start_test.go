package start

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/redistest"
)

var update = flag.Bool("update", false, "write the table of docs/benchmarks.md")

const page = "../../docs/benchmarks.md"

// rows are the three steps, and how a test sees that a program has taken one.
var rows = []struct {
	name      string
	processes int
	users     []string // who sends each request
	want      []int
}{
	{"to the first 429", 1, []string{"", "", "", ""}, []int{200, 200, 200, 429}},
	{"the same limit in Redis, for all processes", 2, []string{"", "", "", ""}, []int{200, 200, 200, 429}},
	{"a limit per user", 1, []string{"a", "a", "a", "a", "b"}, []int{200, 200, 200, 429, 200}},
}

type program struct {
	name string // of its function; "" if the library has none
	main func()
}

// libraries are the columns. The programs are in the order of rows.
var libraries = []struct {
	name     string
	programs [3]program
}{
	{"stint", [3]program{{"stintFirst", stintFirst}, {"stintRedis", stintRedis}, {"stintUser", stintUser}}},
	{"httprate", [3]program{
		{"httprateFirst", httprateFirst}, {"httprateRedis", httprateRedis}, {"httprateUser", httprateUser},
	}},
	{"ulule/limiter", [3]program{{"ululeFirst", ululeFirst}, {"ululeRedis", ululeRedis}, {"ululeUser", ululeUser}}},
	{"redis_rate", [3]program{1: {"redisRateRedis", redisRateRedis}, 2: {"redisRateUser", redisRateUser}}},
}

// TestMain runs one of the programs if START_PROGRAM names it: this binary is all of them.
func TestMain(m *testing.M) {
	if name := os.Getenv("START_PROGRAM"); name != "" {
		for _, l := range libraries {
			for _, p := range l.programs {
				if p.name == name {
					p.main()
				}
			}
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestPrograms starts every program and sees its 429 at the right request.
func TestPrograms(t *testing.T) {
	redis := redistest.Start(t)
	for _, l := range libraries {
		for i, p := range l.programs {
			if p.name == "" {
				continue
			}
			chances := 10 // some count by the minute of the clock, or decide alone while Redis is slow
			if l.name == "stint" && rows[i].processes == 1 {
				chances = 1
			}
			for chance := 1; ; chance++ {
				redis.CLI(t, "FLUSHALL")
				got, err := run(t, p.name, redis.URL(), rows[i].processes, rows[i].users)
				if err == nil && slices.Equal(got, rows[i].want) {
					break
				}
				if chance == chances {
					t.Errorf("%s: the statuses are %v, %v; want %v", p.name, got, err, rows[i].want)
					break
				}
			}
		}
	}
}

// run starts a program in some processes, sends requests to them in turn and returns the statuses.
func run(t *testing.T, name, redis string, processes int, users []string) (statuses []int, err error) {
	t.Helper()
	var urls []string
	for range processes {
		url, stop := startProcess(t, name, redis)
		defer stop()
		urls = append(urls, url)
	}
	for i, user := range users {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, urls[i%len(urls)], nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("X-User", user)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		statuses = append(statuses, resp.StatusCode)
	}
	return statuses, nil
}

// startProcess returns the URL of a program when it listens.
func startProcess(t *testing.T, name, redis string) (url string, stop func()) {
	t.Helper()
	addr := proxytest.FreeAddress(t)
	program := proxytest.Launch(t, []string{"START_PROGRAM=" + name, "START_ADDR=" + addr, "START_REDIS=" + redis},
		os.Args[0])
	proxytest.AwaitDial(t, addr)
	return "http://" + addr + "/", program.Kill
}

// TestLines counts the lines of the programs, and holds stint to at most as many as httprate.
func TestLines(t *testing.T) {
	lines, err := count()
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| lines of `main` |")
	for _, l := range libraries {
		table.WriteString(" " + l.name + " |")
	}
	table.WriteString("\n|---|" + strings.Repeat("---|", len(libraries)) + "\n")
	for i, row := range rows {
		table.WriteString("| " + row.name + " |")
		for _, l := range libraries {
			cell := "–"
			if name := l.programs[i].name; name != "" {
				cell = fmt.Sprint(lines[name])
			}
			table.WriteString(" " + cell + " |")
		}
		table.WriteString("\n")
		ours, theirs := lines[libraries[0].programs[i].name], lines[libraries[1].programs[i].name]
		if ours == 0 || theirs == 0 || ours > theirs {
			t.Errorf("%s: stint needs %d lines, want at most the %d of httprate", row.name, ours, theirs)
		}
	}
	if *update {
		if err := contest.Replace(page, "lines", table.String()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "<!-- lines:begin -->\n"+table.String()+"<!-- lines:end -->") {
		t.Errorf("%s has another table (go test ./start -update writes it); want:\n%s", page, table.String())
	}
}

// count returns how many lines with code the body of each function has. The files must be formatted
// and keep to the width of the project, so that lines are comparable.
func count() (map[string]int, error) {
	const width = 120
	names, err := filepath.Glob("*.go")
	if err != nil {
		return nil, err
	}
	lines := map[string]int{}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		formatted, err := format.Source(src)
		if err != nil || string(formatted) != string(src) {
			return nil, errors.Join(fmt.Errorf("%s is not formatted; run gofmt", name), err)
		}
		all := strings.Split(string(src), "\n")
		for i, line := range all {
			if len(strings.ReplaceAll(line, "\t", "    ")) > width {
				return nil, fmt.Errorf("%s:%d: more than %d columns", name, i+1, width)
			}
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, src, 0)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			first, last := fset.Position(f.Body.Lbrace).Line, fset.Position(f.Body.Rbrace).Line
			for _, line := range all[first:max(first, last-1)] {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
					lines[f.Name.Name]++
				}
			}
		}
	}
	return lines, nil
}

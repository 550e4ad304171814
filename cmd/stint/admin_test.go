package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

// TestOnAHashedRedis checks that the list of bans shows hashes if there is a name key, and that
// commands accept hashes as well as names.
func TestOnAHashedRedis(t *testing.T) {
	directory := t.TempDir()
	config := filepath.Join(directory, "stint.yaml")
	testkit.WriteFile(t, config, "store: {name_key_file: name.key}\n"+testkit.ReadFile(t, example))
	testkit.WriteFile(t, filepath.Join(directory, "name.key"), strings.Repeat("secret", 6))
	redis := redistest.Start(t)
	url := redis.URL()
	do := func(args ...string) result {
		return execute(t, "", append(args, "--store", url, "--config", config)...)
	}
	// Only servers set a name key.
	wantResult(t, do("bans"), exitGood, "", "") // before there is a name key
	examine(t, exitGood, "--store", url, "--config", config)
	if n := redis.CLI(t, "EXISTS", "stint:names"); n != "0" {
		t.Error("a command has set a name key")
	}
	running := guardtest.Redis(t, redisstore.Config{URL: url, NameKeys: [][]byte{[]byte(strings.Repeat("secret", 6))}})
	const subject = "user:jane"
	wantResult(t, do("ban", subject, "--for", "1d"), exitGood, "", "")
	got := do("bans")
	row := regexp.MustCompile(`user#[\w-]{22}`).FindString(got.stdout)
	if row == "" || strings.Contains(got.stdout, subject) {
		t.Fatalf("bans: %+v, want a hash", got)
	}
	for _, as := range []string{row, subject} {
		wantResult(t, do("inspect", as), exitGood, "banned for another", "")
	}
	wantResult(t, do("unban", row), exitGood, "", "")
	if got := do("inspect", subject); strings.Contains(got.stdout, "banned for another") {
		t.Errorf("inspect: %+v, want no ban", got)
	}
	// A reset also clears counts for each value of a path parameter, although only hashes of the
	// values are stored.
	part := stint.Claim{Subject: subject, Scope: "phones:555-0100", Limits: []stint.Limit{stint.PerHour(5)}, Cost: 1}
	if _, err := running.Take(t.Context(), stint.Request{Claims: []stint.Claim{part}}); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, config, "store: {name_key_file: name.key}\ntiers: [{name: users, identity: user, limits: 9/1s}, {name: rest, identity: ip, limits: 9/1s}]\n"+
		"policies: [{name: phones, match: {path: '/phones/{phone}'}, per: phone, limits: 5/1h}]\n")
	wantResult(t, do("reset", subject), exitGood, "", "")
	if shown, err := running.Inspect(t.Context(), part); err != nil || shown.Windows[0].Used != 0 {
		t.Errorf("after the reset: %+v, %v; want nothing used", shown.Windows, err)
	}
	wantResult(t, execute(t, "", "bans", "--store", url), exitUsage, "", "this process has none")
}

// TestLimitsOfOnesOwn uses limits from flags, without policies.
func TestLimitsOfOnesOwn(t *testing.T) {
	url := redistest.Start(t).URL()
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"take job:1", exitGood, "allowed"},
		{"take job:1", exitGood, "allowed"},
		{"take job:1", exitBad, "denied"},
		{"inspect job:1", exitGood, "limit in nightly: 2/1h\n"},
		{"inspect job:1", exitGood, "2 of 2, 0 left\n"},
		{"reset job:1", exitGood, ""},
		{"peek job:1", exitGood, "0 of 2 used  2 left"},
	} {
		args := append(strings.Fields(test.command), "--store", url, "--limit", "2/1h", "--scope", "nightly")
		wantResult(t, execute(t, "", args...), test.code, test.want, "")
	}
	for range 2 { // the second request waits until the limit permits it
		wantResult(t, execute(t, "", "take", "job:2", "--wait", "--store", url, "--limit", "1/200ms"), exitGood, "allowed", "")
	}
}

// TestAdminMistakes checks that error messages say how to fix the mistake.
func TestAdminMistakes(t *testing.T) {
	t.Setenv("STINT_SERVER", "")
	redis := redistest.Start(t).URL()
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, test := range []struct {
		args []string
		code int
		want string // end of standard error
	}{
		{[]string{"inspect", "user:1", "--server", closed.URL}, exitUnreachable,
			`stint: no stint server at ` + closed.URL + `; start "stint serve", or specify another server with --server`},
		{[]string{"bans", "--server", "localhost:6070"}, exitUsage, `stint: "localhost:6070" is not the address of a server; want a URL such as http://127.0.0.1:6070`},
		{[]string{"bans", "--store", redis, "--server", closed.URL}, exitUsage, `--store and --server cannot be used together`},
		{[]string{"reset", "user:1", "--scope", "a"}, exitUsage, `--scope needs --limit; without it all scopes are reset`},
		{[]string{"bans", "--store", "redis://127.0.0.1:1"}, exitUnreachable, `connection refused; start Redis there, or specify another server with --store`},
		{[]string{"bans", "--store", "memory"}, exitUsage, `--store: a memory store exists only in a server's process; specify the server with --server`},
		{[]string{"take", "user:1", "--config", example}, exitUsage, `--config needs --store; a server has its own`},
		{[]string{"take", "user:1", "--store", redis, "--limit", "1/1m", "--config", example}, exitUsage,
			`--limit and --config cannot be used together`},
		{[]string{"take", "user:1", "--store", redis}, exitUsage, `stint: the limits of "user:1" are unknown; specify the policies with --config, or a limit with --limit; with --raw, ban and unban take any subject literally`},
		{[]string{"take", "user:1", "--store", redis, "--config", example}, exitUsage,
			`stint: the limits of "user:1" depend on its tier, which its name does not show; want one of enterprise, pro, free`},
		{[]string{"inspect", "usr:1", "--store", redis, "--config", example}, exitUsage, `(did you mean "user:"?); with --raw, ban and unban take any subject literally`},
		{[]string{"inspect", "user:1", "--store", redis, "--config", example, "--tier", "fre"}, exitUsage,
			`stint: user:1 has no limit of the tier "fre"; available: enterprise, pro, free (did you mean "free"?)`},
		{[]string{"inspect", "usr:1", "--store", redis, "--config", "none.yaml"}, exitUsage, `stint: none.yaml: no such file or directory`},
		{[]string{"ban", "user:1", "--for", "10min", "--store", redis}, exitUsage,
			`--for: invalid duration "10min"; want one such as 500ms, 30s, 1h30m or 7d, at most a year (did you mean 10m?)`},
	} {
		got := execute(t, "", test.args...)
		if got.code != test.code || got.stdout != "" || !strings.HasSuffix(strings.TrimSuffix(got.stderr, "\n"), test.want) {
			t.Errorf("%v: exit code %d, output %q, errors:\n%s\nwant %d, %q", test.args, got.code, got.stdout, got.stderr, test.code, test.want)
		}
	}
}

// TestRedisMistakes checks that error messages say how to fix the mistake, and do not show the
// password.
func TestRedisMistakes(t *testing.T) {
	redis, locked := redistest.Start(t), redistest.Start(t)
	redis.CLI(t, "ACL", "SETUSER", "limiter", "on", ">hunter2", "~*", "&*", "+@all", "-evalsha")
	// Only scripts run ZADD.
	redis.CLI(t, "ACL", "SETUSER", "scripted", "on", ">hunter2", "~*", "&*", "+@all", "-zadd")
	// The user blind may decide, but not list bans.
	redis.CLI(t, "ACL", "SETUSER", "blind", "on", ">hunter2", "~*", "&*", "+@all", "-scan")
	locked.CLI(t, "CONFIG", "SET", "requirepass", "secret")
	as := func(user string, server *redistest.Server) string {
		return strings.Replace(server.URL(), "redis://", "redis://"+user+"@", 1)
	}
	const take = "take user:1 --limit 1/1h"
	for _, test := range []struct{ command, store, want string }{
		{take, locked.URL(), "; pass the password in the environment, REDIS_URL=" + as(":PASSWORD", locked) + ", with --store redis"},
		{take, as(":hunter2", locked), "; fix the user or the password in " + as(":PASSWORD", locked)},
		{take, as("bob:hunter2", locked), "; fix the user or the password in " + as("bob:PASSWORD", locked)},
		{take, as("limiter:hunter2", redis) + patient, `'evalsha' command; "stint doctor" with the same --store shows what the user lacks`},
		{take, as("scripted:hunter2", redis) + patient, `; "stint doctor" with the same --store shows what the user lacks`},
		{"bans", as("blind:hunter2", redis), `'scan' command; "stint doctor" with the same --store shows what the user lacks`},
		{take, redis.URL() + "/99" + patient, "DB index is out of range"},
	} {
		got := execute(t, "", append(strings.Fields(test.command), "--store", test.store)...)
		if got.code != exitUnreachable || got.stdout != "" || !strings.HasSuffix(got.stderr, test.want+"\n") ||
			strings.Contains(got.stderr, "hunter2") {
			t.Errorf("%s: got %+v; want that it ends with %q", test.store, got, test.want)
		}
	}
}

// TestRefusals checks the messages and exit codes for error responses of servers.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		status int
		code   int
		want   string
	}{
		{http.StatusUnauthorized, exitUnreachable, "stint: the server requires a valid token: it rejected the given one; pass one with --token-file or in STINT_TOKEN\n"},
		{http.StatusTooManyRequests, exitUnreachable, "stint: the server responded with 429 Too Many Requests; want the admin listener of stint in --server\n"},
		{http.StatusServiceUnavailable, exitUnreachable, "stint: Because.\n"},
		{http.StatusBadRequest, exitUsage, "stint: Because.\n"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(`{"error":"word","message":"Because."}`))
		}))
		got := execute(t, "", "unban", "user:1", "--server", server.URL, "--token", "some-token")
		if got != (result{stderr: test.want, code: test.code}) {
			t.Errorf("%d: got %+v; want %d, %q", test.status, got, test.code, test.want)
		}
		server.Close()
	}
	want := "stint: the server responded with 404 Not Found; want the admin listener of stint in --server\n"
	for name, elsewhere := range map[string]http.Handler{
		"another program": http.NotFoundHandler(),
		"another listener": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			answer.Refuse(w, http.StatusNotFound, "not_found", "There is nothing here.")
		}),
	} {
		server := httptest.NewServer(elsewhere)
		for _, args := range [][]string{{"bans"}, {"take", "user:1"}, {"top"}, {"top", "--once"}, {"tail"}, {"tail", "--last=0"}} {
			got := execute(t, "", append(args, "--server", server.URL)...)
			if got != (result{stderr: want, code: exitUnreachable}) {
				t.Errorf("%s, %v: got %+v; want %q", name, args, got, want)
			}
		}
		server.Close()
	}
}

// TestConfirm checks that commands that change something ask for confirmation on a terminal.
func TestConfirm(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		_, _ = w.Write([]byte(`{"ok":true,"subject":"user:1"}`))
	}))
	defer server.Close()
	for _, test := range []struct {
		stdin string
		args  []string
		asks  bool
		calls int
		want  result
	}{
		{"y\n", nil, true, 1, result{"user:1 is banned for 1h\n", "Ban user:1 for 1h? [y/N] ", exitGood}},
		{"YES\n", nil, true, 1, result{"user:1 is banned for 1h\n", "Ban user:1 for 1h? [y/N] ", exitGood}},
		{"n\n", nil, true, 0, result{"", "Ban user:1 for 1h? [y/N] stint: nothing was changed\n", exitBad}},
		{"", nil, true, 0, result{"", "Ban user:1 for 1h? [y/N] stint: nothing was changed\n", exitBad}},
		{"", []string{"-y"}, true, 1, result{"user:1 is banned for 1h\n", "", exitGood}},
		{"", []string{"--json"}, false, 1, result{"{\n  \"ok\": true,\n  \"subject\": \"user:1\"\n}\n", "", exitGood}},
	} {
		calls = 0
		s := &system{Stdin: strings.NewReader(test.stdin), Asks: test.asks}
		got := executeOn(s, append([]string{"ban", "user:1", "--server", server.URL}, test.args...)...)
		if got != test.want || calls != test.calls {
			t.Errorf("%+v: got %+v after %d calls", test, got, calls)
		}
	}
}

// TestTakeUnavailable checks that a denial because the store is unavailable does not read as if a
// limit were exceeded.
func TestTakeUnavailable(t *testing.T) {
	url := answering(t, map[string]any{"/api/take": control.TakeResult{Named: control.Named{Subject: "user:42"},
		Degraded: true, Unavailable: true, RetryAfter: 1, Limits: []control.Limit{}}})
	for command, want := range map[string]string{
		"take": "user:42  denied: the store is unavailable; try again in 1s\n",
		"peek": "user:42  would be denied: the store is unavailable; try again in 1s\n",
	} {
		if got := execute(t, "", command, "user:42", "--server", url); got.code != exitBad || got.stdout != want {
			t.Errorf("%s: got %+v, want %q", command, got, want)
		}
	}
}

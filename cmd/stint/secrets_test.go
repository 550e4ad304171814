package main

import (
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// secretsBinary checks that neither the log nor the admin listener shows the password of Redis or
// the webhook.
func secretsBinary(t *testing.T, binary string) {
	const password, hook = "KwxQ-password", "KwxQ-webhook"
	redis := redistest.Start(t)
	redis.CLI(t, "CONFIG", "SET", "requirepass", password)
	url := strings.Replace(redis.URL(), "redis://", "redis://:"+password+"@", 1)
	file := testkit.TempFile(t, "webhook", "https://hooks.example/"+hook+"\n")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	d := launch(t, binary, "serve", "--store", url, "--alert-webhook-file", file, "--http", "127.0.0.1:0", "--drain",
		"0s", "--log-level", "debug")
	said := ""
	for _, path := range []string{"/config", "/metrics", "/api/state", "/debug/pprof/", "/debug/pprof/cmdline",
		"/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1"} {
		_, body := d.get(server.Admin, path)
		said += body
	}
	for _, want := range []string{
		"can see the password of --store in the list of processes; pass the URL in REDIS_URL",
		"a file of secrets is readable by all users of this machine",
		"of=--alert-webhook-file",
		"store=redis://:xxxxx@" + redis.Addr(),
	} {
		d.log.Await(t, want)
	}
	if !strings.Contains(said, `"name": "redis://:xxxxx@`+redis.Addr()+`"`) {
		t.Error("/config does not say which store it is")
	}
	if strings.Contains(said+d.log.String(), "KwxQ") {
		t.Error("a secret is served or logged")
	}
}

// TestNoPasswordInErrors checks that no command shows a part of the password in an invalid URL of
// Redis.
func TestNoPasswordInErrors(t *testing.T) {
	const secret = "KwxQ"
	tried := 0
	for _, password := range []string{
		secret + "%zz", secret + "#" + secret, secret + "/" + secret, secret + "?" + secret, secret + "@" + secret,
		secret + " " + secret + "\"",
	} {
		for _, form := range []string{
			"redis://user:PW@127.0.0.1:1", "redis://:PW@127.0.0.1:1/x", "redis:/:PW@127.0.0.1:1",
			"http://:PW@127.0.0.1:1", "user:PW@127.0.0.1:1", "redis://PW@127.0.0.1:1",
		} {
			url := strings.Replace(form, "PW", password, 1)
			config := testkit.TempFile(t, "stint.yaml", "store: {url: '"+url+"'}\n"+small)
			// Run a quarter of the commands for each URL, and each command for a quarter of the
			// URLs.
			tried++
			for i, args := range [][]string{
				{"bans", "--store", url}, {"bans", "--stor=" + url}, {"doctor", "--store", url},
				{"demo", "--rate", "0", "--store", url}, {"serve", url},
				{"config", "check", config}, {"serve", "--http", "127.0.0.1:x", "--admin", "", "--config", config},
				{"serve", "--http", "127.0.0.1:x", "--admin", "", "--store", url},
			} {
				if (i+tried)%4 != 0 {
					continue
				}
				got := execute(t, "", args...)
				if got.code == exitGood && args[0] != "config" || strings.Contains(got.stdout+got.stderr, secret) {
					t.Errorf("%q: got %+v", args, got)
				}
			}
		}
	}
	for _, url := range []string{"http//bob:KwxQ@h", "http://KwxQ@127.0.0.1:1", "http://:KwxQ@127.0.0.1:1",
		"http://127.0.0.1:1/KwxQ@h", "http://127.0.0.1:1?KwxQ@h", "http://127.0.0.1:1#KwxQ@h"} {
		if got := execute(t, "", "bans", "--server", url); got.code == exitGood ||
			strings.Contains(got.stderr, secret) {
			t.Errorf("the URL of a server: %+v", got)
		}
	}
}

// TestNothingUnescaped checks that no command writes control sequences from arguments, servers,
// files or Redis to the terminal.
func TestNothingUnescaped(t *testing.T) {
	const hostile = "a\x1b[31mb\x1b]0;owned\x07\u009b2J\u202ec\r\x7f\xff"
	redis := redistest.Start(t)
	wantResult(t, execute(t, "", "ban", "user:"+hostile, "--store", redis.URL(), "--limit", "1/1m"), exitGood, "", "")
	url := answering(t, map[string]any{
		"/api/subject": control.Subject{Named: control.Named{Subject: hostile}, Limits: []control.Limit{
			{Tier: hostile, Policy: hostile, Scope: hostile, Limit: hostile, Algorithm: "sliding"}}},
		"/api/bans":       map[string]any{"bans": []control.Ban{{Banned: driver.Banned{Subject: hostile}, Ref: hostile}}},
		"/api/top":        map[string]any{"top": []map[string]any{{"subject": hostile, "policy": hostile, "denied": 1}}},
		"/api/violations": map[string]any{"violations": []map[string]any{{"subject": hostile, "reason": hostile, "tier": hostile}}},
		"/api/take": control.TakeResult{Named: control.Named{Subject: hostile},
			Limits: []control.Limit{{Tier: hostile, Limit: hostile}}},
		"/api/state": map[string]any{"version": hostile, "store": map[string]any{"name": hostile},
			"alerts": []map[string]any{{"name": hostile, "state": "firing"}}},
		"/readyz": map[string]any{},
	})
	var commands [][]string
	for _, args := range [][]string{
		{"inspect", "x", "--tier", "\x1b[31m"}, {"inspect", hostile, "--tier", hostile}, {"inspect", "x"},
		{"inspect", "x", "--all", "--json"}, {"bans"}, {"bans", "--json"}, {"top", "--once"}, {"top", "--once", "--json"},
		{"take", "x"}, {"doctor"}, {"doctor", "--json"}, {"tail"},
	} {
		commands = append(commands, append(args, "--server", url))
	}
	for _, args := range [][]string{
		{"bans"}, {"bans", "--json"}, {"inspect", "user:" + hostile}, {"take", hostile}, {"take", hostile, "--json"},
		{"reset", hostile}, {"unban", hostile},
	} {
		commands = append(commands, append(args, "--store", redis.URL(), "--limit", "1/1m"))
	}
	for _, args := range append(commands, [][]string{
		{hostile}, {"bans", hostile}, {"bans", "--" + hostile}, {"bans", "--server", hostile},
		{"bans", "--store", hostile}, {"bans", "--token-file", hostile}, {"top", "--by", hostile},
		{"config", "check", hostile}, {"config", "explain", example, "--request", "/" + hostile},
		{"config", "explain", example, "--request", "/", "--claim", "user=" + hostile}, {"serve", "--config", hostile},
		{"serve", "--log-level", hostile}, {"gateway", "--upstream", hostile},
		{"simulate", "--config", hostile, hostile},
	}...) {
		got := execute(t, "tiers:\n  - {name: '"+"\u202e"+"'}\n", args...)
		for _, text := range []string{got.stdout, got.stderr} {
			if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q: %q is given to the terminal", args, text[i:min(len(text), i+20)])
			}
		}
	}
}

// TestPaint checks that render keeps the colors of paint, and no others.
func TestPaint(t *testing.T) {
	s := &system{Color: true, Window: func() (int, int) { return 80, 24 }}
	got := string(s.render([]byte(s.paint(red, "a\x1b[34mb") + "\x1b[1mc\n")))
	if want := "\x1b[31ma\\u001b[34mb\x1b[0m\\u001b[1mc\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	const honest = "user:jürgen\t用户 ▁█ ✓ “quoted” 🙂\n"
	if got := string(s.render([]byte(honest))); got != honest {
		t.Errorf("got %q, want %q", got, honest)
	}
	var out strings.Builder
	s.Stdout = &out
	screen := display{system: s}
	if err := screen.draw([]byte(s.paint(red, "a\x1b[2J") + "\n")); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[31ma\\u001b[2J\x1b[0m\x1b[0m\x1b[K\n\x1b[J"; out.String() != want {
		t.Errorf("drew %q, want %q", out.String(), want)
	}
}

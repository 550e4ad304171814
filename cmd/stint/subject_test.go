package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// bannable obeys bans, and counts by address, by user and by API key.
const bannable = `
client_ip: {trusted_proxies: loopback}
identities:
  apikey: {header: X-API-Key}
claims: {user: X-User}
bans: {after: 0}
failure: {mode: error, budget: 10s}
tiers:
  - {name: users, identity: user, limits: 100000/1h}
  - {name: keys, identity: apikey, limits: 100000/1h}
  - {name: rest, identity: ip, limits: 100000/1h}
`

// bansAsTyped has people ban whom they mean, on a server and on a Redis: requests of that client
// are denied by a real gateway, and those of others are not.
func bansAsTyped(t *testing.T, binary string) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	redis, config, token := redistest.Start(t).URL(), write(t, "stint.yaml", bannable), write(
		t, "tokens", "alice: token-of-alice-and-more\n")
	d := launch(t, binary, "gateway", "--upstream", upstream.URL, "--listen", "127.0.0.1:0", "--store", redis,
		"--config", config, "--admin-token-file", token)
	ways := map[string][]string{
		"server": {"--server", "http://" + d.at(server.Admin), "--token-file", token},
		"store":  {"--store", redis, "--config", config},
	}
	const key = "sk-live-0123456789"
	for _, test := range []struct {
		typed, subject, note string
		banned, free         string // fields of requests
	}{
		{"ip:203.0.113.9", "ip:203.0.113.9", "", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 203.0.113.10"},
		{"ip:::ffff:203.0.113.9", "ip:203.0.113.9", "::ffff:203.0.113.9 is counted under it",
			"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 203.0.113.10"},
		{"ip:2001:db8:9:9::7", "ip:2001:db8:9:9::/64", "2001:db8:9:9::7 is counted under it",
			"X-Forwarded-For: 2001:db8:9:9::8", "X-Forwarded-For: 2001:db8:9:a::7"},
		{"ip:[2001:DB8:9:9::7]:443", "ip:2001:db8:9:9::/64", "[2001:DB8:9:9::7]:443 is counted under it",
			"X-Forwarded-For: 2001:db8:9:9::7", "X-Forwarded-For: 2001:db8:9:a::7"},
		{"ip:203.0.113.9", "ip:203.0.113.9", "", "X-Forwarded-For: 64:ff9b::cb00:7109",
			"X-Forwarded-For: 64:ff9b::cb00:710a"},
		{"ip:2002:cb00:7109:1::1", "ip:203.0.113.9", "2002:cb00:7109:1::1 is counted under it",
			"X-Forwarded-For: 2002:cb00:7109:2::2", "X-Forwarded-For: 2002:cb00:710a::1"},
		{"user:jane doe+1", "user:jane doe+1", "", "X-User: jane doe+1", "X-User: jane"},
		{"apikey:" + key, "apikey:", "it is the hash of the given value of X-Api-Key", "X-API-Key: " + key,
			"X-API-Key: " + key + "0"},
	} {
		for name, flags := range ways {
			do := func(args ...string) result { return execute(t, "", append(args, flags...)...) }
			got := do("ban", test.typed)
			subject, _, _ := strings.Cut(got.stdout, " is banned for 1h")
			note := ""
			if test.note != "" {
				note = " (" + test.note + ")"
			}
			if want := subject + " is banned for 1h" + note + "\n"; got != (result{stdout: want}) ||
				!strings.HasPrefix(subject, test.subject) || strings.Contains(got.stdout, key) {
				t.Errorf("ban %s on a %s: got %+v, want %s, %q", test.typed, name, got, test.subject, note)
			}
			if status := d.asks(test.banned); status != http.StatusTooManyRequests {
				t.Errorf("ban %s on a %s: a request with %s got %d", test.typed, name, test.banned, status)
			}
			if status := d.asks(test.free); status != http.StatusOK {
				t.Errorf("ban %s on a %s: a request with %s got %d", test.typed, name, test.free, status)
			}
			if got := do("inspect", test.typed); !strings.HasPrefix(got.stdout, subject+note+"\nbanned for another ") {
				t.Errorf("inspect %s on a %s: got %+v", test.typed, name, got)
			}
			if got := do("peek", test.typed); got.code != exitBad ||
				!strings.HasPrefix(got.stdout, subject+"  would be denied: banned for ") {
				t.Errorf("peek %s on a %s: got %+v", test.typed, name, got)
			}
			if got := do("unban", subject, "--json"); got.code != exitGood ||
				!strings.Contains(got.stdout, `"subject": "`+subject+`"`) {
				t.Errorf("unban %s on a %s: got %+v", subject, name, got)
			}
			// A gateway that denied them hears of the unban a moment later.
			testkit.Eventually(t, "a request with "+test.banned+" is allowed after the unban on a "+name,
				func() bool { return d.asks(test.banned) == http.StatusOK })
		}
	}
	for typed, want := range map[string]string{
		"ip:203.0.113.999":  `"203.0.…" is not an address; want one such as ip:203.0.113.9 or ip:2001:db8::7`,
		"ip:203.0.113.0/24": "203.0.113.0/24 is a network of many subjects, and this is for one; want an address of it, such as ip:203.0.113.1. ",
		"ip:203.0.113.x":    `"ip:203.0.…" is a shortened subject from a list; want all of it, or the ref beside it. `,
		"user:jan…":         `"user:jan…" is a shortened subject from a list; `,
		"usr:42":            `(did you mean "user:"?)`,
		"203.0.113.9":       "an address is written with its kind; want ip: before it",
	} {
		for name, flags := range ways {
			commands := []string{"ban"}
			if typed == "usr:42" {
				commands = append(commands, "unban", "inspect", "reset", "peek", "take")
			}
			for _, command := range commands {
				got := execute(t, "", append([]string{command, typed}, flags...)...)
				if got.code != exitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) {
					t.Errorf("%s %s on a %s: got %+v, want %s", command, typed, name, got, want)
				}
			}
		}
	}
	for name, flags := range ways {
		got := execute(t, "", append([]string{"ban", "job:nightly", "--raw"}, flags...)...)
		if got != (result{stdout: "job:nightly is banned for 1h\n"}) {
			t.Errorf("--raw on a %s: got %+v", name, got)
		}
	}
	if log := d.logged(); strings.Contains(log, "sk-liv") || strings.Contains(log, "2001:db8:9:9") {
		t.Errorf("the log has the banned subject:\n%s", log)
	}
}

// asks sends a request with a field to the gateway, and returns the status.
func (d *daemon) asks(field string) int {
	d.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+d.at(server.HTTP)+"/", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	name, value, _ := strings.Cut(field, ": ")
	r.Header.Set(name, value)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	status, _ := readAll(d.t, response)
	return status
}

// TestBanWithoutConfiguration: an address is banned as it is counted by default, and of what else
// programs count by nothing is known.
func TestBanWithoutConfiguration(t *testing.T) {
	redis := redistest.Start(t).URL()
	do := func(args ...string) result { return execute(t, "", append(args, "--store", redis)...) }
	const byDefault = "without the configuration, addresses are assumed to be counted as by default"
	if got, want := do("ban", "ip:2001:db8:9:9::7"), "ip:2001:db8:9:9::/64 is banned for 1h (2001:db8:9:9::7 is counted under it; "+byDefault+")\n"; got != (result{stdout: want}) {
		t.Errorf("got %+v, want %s", got, want)
	}
	if got, want := do("ban", "user:42"), "user:42 is banned for 1h\n"; got != (result{stdout: want}) {
		t.Errorf("got %+v, want %s", got, want)
	}
	want := `stint: the limits of "job:1" are unknown; name the policies with --config, or a limit with --limit; with --raw, ban and unban take any subject literally` + "\n"
	if got := do("ban", "job:1"); got != (result{stderr: want, code: exitUsage}) {
		t.Errorf("got %+v, want %s", got, want)
	}
	if got, want := do("ban", "job:1", "--raw"), "job:1 is banned for 1h\n"; got != (result{stdout: want}) {
		t.Errorf("got %+v, want %s", got, want)
	}
	if got := do("ban", "ref:x1"); got.code != exitUsage || !strings.Contains(got.stderr, "a ref stands for a subject on the server that showed it") {
		t.Errorf("got %+v", got)
	}
}

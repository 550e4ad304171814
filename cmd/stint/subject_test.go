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

// bannable is a configuration in which bans apply, and that counts by address, by user and by API
// key.
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

// bansAsTyped bans clients, named as operators type them, on a server and in a Redis. A real
// gateway denies requests of the banned client, but not of others. The tests of package control
// cover the subjects that are refused.
func bansAsTyped(t *testing.T, binary string) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	redis, config := redistest.Start(t).URL(), testkit.TempFile(t, "stint.yaml", bannable)
	token := testkit.TempFile(t, "tokens", "alice: token-of-alice-and-more\n")
	d := launch(t, binary, "gateway", "--upstream", upstream.URL, "--listen", "127.0.0.1:0", "--store", redis,
		"--config", config, "--admin-token-file", token)
	ways := map[string][]string{
		"server": {"--server", "http://" + d.at(server.Admin), "--token-file", token},
		"store":  {"--store", redis, "--config", config},
	}
	const key = "sk-live-0123456789"
	for _, test := range []struct {
		typed, subject, note string
		banned, free         string // header fields of requests
	}{
		{"ip:[2001:DB8:9:9::7]:443", "ip:2001:db8:9:9::/64", "[2001:DB8:9:9::7]:443 is counted under it",
			"X-Forwarded-For: 2001:db8:9:9::8", "X-Forwarded-For: 2001:db8:9:a::7"},
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
			wantResult(t, do("unban", subject, "--json"), exitGood, `"subject": "`+subject+`"`, "")
			// The gateway remembers the ban until it learns of the unban, a moment later.
			testkit.Eventually(t, "a request with "+test.banned+" is allowed after the unban on a "+name,
				func() bool { return d.asks(test.banned) == http.StatusOK })
		}
	}
	if log := d.log.String(); strings.Contains(log, "sk-liv") || strings.Contains(log, "2001:db8:9:9") {
		t.Errorf("the log has the banned subject:\n%s", log)
	}
}

// asks sends a request with a header field to the gateway, and returns the status.
func (d *daemon) asks(field string) int {
	d.t.Helper()
	status, _ := d.getWith(server.HTTP, "/", field)
	return status
}

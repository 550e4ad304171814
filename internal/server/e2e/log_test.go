package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// records counts the lines of the log that have all texts.
func (r *rig) records(texts ...string) (n int) {
lines:
	for line := range strings.Lines(r.log.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		n++
	}
	return n
}

// TestServerLogs: the server logs every outage at ERROR with its cause, the shortened key, the limit
// and the window, with one request only or none; denials at WARN with when to try again, and
// admissions with their count as the configuration says.
func TestServerLogs(t *testing.T) {
	const name = "jane-doe-of-sales"
	for mode, status := range map[string]int{"local": http.StatusOK, "error": http.StatusServiceUnavailable} {
		t.Run(mode, func(t *testing.T) {
			redis := redistest.Start(t)
			r := start(t, "tiers:\n  - {name: all, identity: user, limits: 3/7m}\n  - {name: rest, identity: ip, limits: 1/1m}\n"+
				"failure: {mode: "+mode+", instances: 1, budget: 5s}\nlog: {admissions: 2}\n",
				sharing(redis.URL()))
			testkit.Eventually(t, "Redis decides", func() bool { return r.take(name) })
			// A ping may notice an outage before the request does: then "still unavailable" has the request.
			withRequest := func() int {
				return r.records("level=ERROR", "unavailable: ", "cause=", "mode="+mode, "key=user:jane-d…", "limit=3/7m")
			}
			for outage := 1; outage <= 2; outage++ {
				before := withRequest()
				redis.Kill()
				if got := r.post("/v1/take", question(name)); got != status {
					t.Errorf("status %d, want %d", got, status)
				}
				testkit.Eventually(t, "the outage is logged with what was asked", func() bool { return withRequest() > before })
				redis.Restart(t)
				testkit.Eventually(t, "the end of the outage is logged", func() bool {
					return r.records("level=INFO", "is available again") == outage
				})
			}
			testkit.Eventually(t, "a denial and an admission are logged", func() bool {
				r.take(name) // a connection may still turn out to be lost
				return r.records("level=WARN", "denied", "key=user:jane-d…", "limit=3/7m", "retry_after=") > 0 &&
					r.records("level=INFO", "allowed", "key=user:jane-d…", "limit=3/7m", "used=") > 0
			})
			before := r.records("level=ERROR", "the store is unavailable", "cause=")
			redis.Kill()
			testkit.Eventually(t, "an outage without traffic is logged", func() bool {
				return r.records("level=ERROR", "the store is unavailable", "cause=") > before
			})
			if strings.Contains(r.log.String(), name) {
				t.Error("the log has a name in full")
			}
		})
	}
}

// TestServerLogsWarnings: warnings of the configuration are logged at the start.
func TestServerLogsWarnings(t *testing.T) {
	r := start(t, five+"client_ip: {trusted_proxies: 0.0.0.0/0}\n", func(c *server.Config) { c.APIPublic = true })
	if got := r.records(`level=WARN msg="config: \"0.0.0.0/0\" is every IPv4 address: `); got != 1 {
		t.Errorf("logged %d times, want once", got)
	}
	if !r.take("jane") {
		t.Error("it does not serve")
	}
}

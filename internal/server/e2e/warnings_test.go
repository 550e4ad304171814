package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/server"
)

// TestServerLogsWarnings at the start, and serves all the same.
func TestServerLogsWarnings(t *testing.T) {
	r := start(t, five+"client_ip: {trusted_proxies: 0.0.0.0/0}\n", func(c *server.Config) { c.APIPublic = true })
	const want = `level=WARN msg="config: \"0.0.0.0/0\" is every IPv4 address: `
	if got := strings.Count(r.log.String(), want); got != 1 {
		t.Errorf("%d of %q, want 1, in\n%s", got, want, r.log.String())
	}
	if got := r.post("/v1/take", question("jane")); got != http.StatusOK {
		t.Errorf("got %d, want 200", got)
	}
}

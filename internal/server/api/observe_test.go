package api_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/api"
	"github.com/stint-limiter/stint/policy"
)

// F34: whatever is sent, labels stay as many as they are, log entries are lines, and secrets are in
// none.
func TestF34HostileValues(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2"
	var log bytes.Buffer
	labels := map[string]bool{} // the values that metrics would have as labels
	logger := slog.New(slog.NewTextHandler(&log, nil))
	observer := observerFunc(func(e stint.Event) {
		if v, ok := e.(*policy.Verdict); ok {
			labels[v.Tier], labels[v.Route], labels[v.Skipped] = true, true, true
		}
	})
	s := serveGuarded(t, guardtest.Memory(t), rules, policy.GuardConfig{Observer: observer, Logger: logger}, func(c *api.Config) {
		c.Logger = logger
	})
	began, lines := time.Now(), 0
	for i := range 200 {
		hostile := quote(fmt.Sprintf("%s\r\nlevel=ERROR \x00\x1b[31m{}\"',%d", secret, i))
		s.post("/v1/take", `{"method":"GET","path":`+quote("/"+fmt.Sprint(i)+secret)+`,"host":`+hostile+
			`,"peer":"203.0.113.9","headers":{"X-Key":`+hostile+`},"claims":{"user":`+hostile+`},"id":`+hostile+`}`)
		s.post("/v1/take", `{"subject":`+hostile+`,"tier":"free"}`)
		s.post("/v1/take", `{"subject":`+hostile+`,"policy":`+hostile+`}`)
		s.post("/v1/take", `{`+hostile+`:1}`)
		s.post("/v1/refund", `{"charge":`+hostile+`}`)
		s.post("/v1/take", `{}`, "Authorization: Bearer "+secret)
		asked(s, "GET", "/auth?deny="+secret, proxy, "X-Forwarded-Method: "+secret, "X-Forwarded-Uri: "+secret)
		asked(s, "GET", "/auth", "203.0.113.9:1", "X-Forwarded-For: "+secret)
	}
	for line := range strings.Lines(log.String()) {
		lines++
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("a line that is no entry: %q", line)
		}
	}
	if strings.Contains(log.String(), secret) {
		t.Errorf("a secret is in the log: %s", log.String())
	}
	// The log admits a few lines of a kind each second, however many mistakes there are.
	if most := 30 + 10*int(time.Since(began).Seconds()); lines > most {
		t.Errorf("%d lines, want at most %d", lines, most)
	}
	if got := sortedKeys(labels); !slices.Equal(got, []string{"", "free"}) {
		t.Errorf("labels %q", got)
	}
}

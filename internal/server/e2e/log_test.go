package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// records counts the lines of a log that have all texts.
func records(log *testkit.Buffer, texts ...string) (n int) {
lines:
	for line := range strings.Lines(log.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		n++
	}
	return n
}

// TestServerLogs: the server logs every outage at ERROR with its cause, the shortened key, the limit and the
// window, with one request only; denials at WARN with when to try again,
// and admissions with their count as the configuration says.
func TestServerLogs(t *testing.T) {
	t.Parallel()
	program := buildProgram(t)
	const who = "somebody-in-particular"
	for mode, status := range map[string]int{
		"local": http.StatusOK, "error": http.StatusServiceUnavailable,
	} {
		t.Run(mode, func(t *testing.T) {
			redis := redistest.Start(t)
			s := program.serve(t, "tiers:\n  - {name: all, identity: user, limits: 3/7m}\n  - {name: rest, identity: ip, limits: 1/1m}\n"+
				"failure: {mode: "+mode+", instances: 1, budget: 5s}\nlog: {admissions: 2}\n", "--store", redis.URL())
			if s.take(who) != http.StatusOK {
				t.Fatal("denied")
			}
			for outage := 1; outage <= 2; outage++ {
				redis.Kill()
				if got := s.take(who); got != status {
					t.Errorf("status %d, want %d", got, status)
				}
				testkit.Eventually(t, "the outage is logged with what was asked", func() bool {
					return records(&s.log, "level=ERROR", "cannot be asked", "cause=", "mode="+mode, "key=user:somebo…",
						"limit=3/7m") >= outage
				})
				redis.Restart(t)
				testkit.Eventually(t, "the end of the outage is logged", func() bool {
					return records(&s.log, "level=INFO", "can be asked again") == outage
				})
			}
			testkit.Eventually(t, "a denial and an admission are logged", func() bool {
				s.take(who) // a connection may still turn out to be lost
				return records(&s.log, "level=WARN", "denied", "key=user:somebo…", "limit=3/7m", "retry_after=") > 0 &&
					records(&s.log, "level=INFO", "allowed", "key=user:somebo…", "limit=3/7m", "used=") > 0
			})
			if strings.Contains(s.log.String(), who) {
				t.Error("the log has a name in full")
			}
		})
	}
}

// TestOutageWithoutTrafficIsLogged: an outage during which nobody asks is logged, too.
func TestOutageWithoutTrafficIsLogged(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := buildProgram(t).serve(t, five, "--store", redis.URL())
	redis.Kill()
	testkit.Eventually(t, "the outage is logged", func() bool {
		return records(&s.log, "level=ERROR", "the store cannot be asked", "cause=") > 0
	})
}

// TestDenialsAreLoggedInSamples: sampled means that a flood is a few lines, which say how many they stand for.
func TestDenialsAreLoggedInSamples(t *testing.T) {
	t.Parallel()
	s := buildProgram(t).serve(t, five)
	const asked = 400
	for range asked {
		s.take("42")
	}
	denied := records(&s.log, "level=WARN", "denied")
	if denied == 0 || denied > asked/4 {
		t.Errorf("%d lines for %d denials, want a few", denied, asked-5)
	}
	if records(&s.log, "allowed") > 0 {
		t.Error("admissions are logged, although nothing asks for them")
	}
}

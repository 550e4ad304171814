package e2e

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/logtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// records counts the lines of a log that have all texts.
func records(log *logtest.Buffer, texts ...string) (n int) {
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

// E5: the server logs every outage at ERROR with its cause, the shortened key, the limit and the
// window, in every failure mode and with one request only; denials at WARN with when to try again,
// and admissions with their count as the configuration says.
func TestE5ServerLogs(t *testing.T) {
	t.Parallel()
	program := buildProgram(t)
	const who = "somebody-in-particular"
	for mode, status := range map[string]int{
		"local": http.StatusOK, "allow": http.StatusOK,
		"deny": http.StatusTooManyRequests, "error": http.StatusServiceUnavailable,
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
				if got := s.take(who); got != status && !(mode == "deny" && got == http.StatusServiceUnavailable) {
					t.Errorf("status %d, want %d", got, status)
				}
				eventually.True(t, "the outage is logged with what was asked", func() bool {
					return records(&s.log, "level=ERROR", "cannot be asked", "cause=", "mode="+mode, "key=user:somebo…",
						"limit=3/7m") >= outage
				})
				redis.Restart(t)
				eventually.True(t, "the end of the outage is logged", func() bool {
					return records(&s.log, "level=INFO", "can be asked again") == outage
				})
			}
			eventually.True(t, "a denial and an admission are logged", func() bool {
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

// E5: an outage during which nobody asks is logged, too.
func TestE5OutageWithoutTraffic(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := buildProgram(t).serve(t, five, "--store", redis.URL())
	redis.Kill()
	eventually.True(t, "the outage is logged", func() bool {
		return records(&s.log, "level=ERROR", "the store cannot be asked", "cause=") > 0
	})
}

// E5: sampled means that a flood is a few lines, which say how many they stand for.
func TestE5Sampled(t *testing.T) {
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

// D1b, E5: the caller's own logger gets what a plain limiter does, and what httplimit.By does, with
// the store and without it.
func TestD1bLoggerOfThePlainLimiter(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"store", "stack"} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Start(t)
			store, err := redisstore.Open(t.Context(), redisstore.Config{URL: redis.URL()})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			over := stint.Store(store)
			if name == "stack" {
				over = stackOver(t, store)
			}
			var plain, handler logtest.Buffer
			lim := limiterWith(t, over, &plain)
			middleware := httplimit.By(func(*http.Request) string { return "user:handler-of-" + name },
				stint.PerHour(2),
				stint.WithLogger(loggerTo(&handler)), httplimit.WithStore(over))(http.NotFoundHandler())
			ask := func() {
				_, _ = lim.Allow(t.Context(), "user:plain-in-"+name) // what is logged is the question
				middleware.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}
			eventually.True(t, "denials", func() bool { // a busy machine may exceed the time of some decisions
				ask()
				return strings.Contains(plain.String(), "level=WARN") &&
					strings.Contains(handler.String(), "level=WARN")
			})
			redis.Kill()
			ask()
			for key, log := range map[string]*logtest.Buffer{"key=user:plain-…": &plain, "key=user:handle…": &handler} {
				for want, texts := range map[string][]string{
					"admissions": {"level=DEBUG", key, "limit=2/1h", "used="},
					"denials":    {"level=WARN", key, "limit=2/1h", "retry_after="},
					"failures":   {"level=ERROR", key, "limit=2/1h", "cause="},
				} {
					if records(log, texts...) == 0 {
						t.Errorf("no %s of %s in %s", want, key, log.String())
					}
				}
				if regexp.MustCompile("plain-in|handler-of").MatchString(log.String()) {
					t.Errorf("a key in full in %s", log.String())
				}
			}
		})
	}
}

// stackOver returns a stack that returns the store's errors.
func stackOver(t *testing.T, store *redisstore.Store) stint.Store {
	t.Helper()
	stack, err := resilience.New(store, resilience.Config{Failure: stint.FailurePolicy{Mode: stint.FailError},
		NoDenyCache: true, Logger: loggerTo(new(logtest.Buffer))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Close() }) // the store may be gone
	return stack
}

func limiterWith(t *testing.T, store stint.Store, log *logtest.Buffer) *stint.Limiter {
	t.Helper()
	lim, err := stint.New(store, stint.PerHour(2), stint.WithLogger(loggerTo(log)))
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

func loggerTo(log *logtest.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

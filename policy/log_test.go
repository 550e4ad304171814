package policy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/policy"
)

// away is a store that cannot be asked, under [stint.FailDeny].
type away struct{ stint.Store }

func (away) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	return stint.Decision{Degraded: true, Unavailable: true, RetryAfter: time.Second,
		Charge: driver.NewCharge(r.Claims, driver.ChargeData{})}, nil
}

// TestLogLevels: failures are errors with what was asked, denials warnings with when to come back,
// and admissions are told with their count to those who want to know.
func TestLogLevels(t *testing.T) {
	w := newWorld(t, "tiers: [{name: members, identity: user, limits: 3/1m}, {name: others, identity: ip, limits: 1/1m}]")
	in := get("/")
	in.Claims = claims{"user": "somebody-with-a-name"}
	for _, c := range []struct {
		name  string
		level slog.Level
		store stint.Store
		want  []string // in the last record
	}{
		{"failed", slog.LevelInfo, broken{w.store},
			[]string{"level=ERROR", "cause=", "tier=members", "key=user:someb", "limit=3/1m"}},
		{"denied for want of the store", slog.LevelInfo, away{w.store},
			[]string{"level=WARN", "denied", "tier=members", "key=user:someb", "degraded=true", "unavailable=true"}},
		{"admitted", slog.LevelDebug, w.store,
			[]string{"level=DEBUG", "allowed", "tier=members", "key=user:someb", "limit=3/1m", "used=1",
				"remaining=2"}},
		{"admitted, at the usual level", slog.LevelInfo, w.store, nil},
		{"the last one", slog.LevelInfo, w.store, nil},
		{"denied", slog.LevelInfo, w.store,
			[]string{"level=WARN", "denied", "tier=members", "key=user:someb", "limit=3/1m", "retry_after="}},
	} {
		var out bytes.Buffer
		guard, err := policy.NewGuard(c.store, w.Set(), policy.GuardConfig{
			Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: c.level})),
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = guard.Decide(t.Context(), &in, new(policy.Verdict)) // it is for the log to tell of a failure
		if c.want == nil && out.Len() > 0 {
			t.Errorf("%s: %s", c.name, out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %s in %s", c.name, want, out.String())
			}
		}
		if strings.Contains(out.String(), "somebody-with-a-name") {
			t.Errorf("%s: names who was asking in full: %s", c.name, out.String())
		}
	}
}

// TestHowManyAreLogged: the set says how many admissions and denials are logged, and the next one
// may say otherwise.
func TestHowManyAreLogged(t *testing.T) {
	for limit, allowed := range map[string]bool{"1000/1m": true, "0/1m": false} {
		synctest.Test(t, func(t *testing.T) { testHowManyAreLogged(t, limit, allowed) })
	}
}

func testHowManyAreLogged(t *testing.T, limit string, allowed bool) {
	var out bytes.Buffer
	w := newWorld(t, "tiers: [{name: all, identity: ip, limits: "+limit+"}]")
	guard, err := policy.NewGuard(w.store, w.Set(), policy.GuardConfig{
		Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	usual, level, message := "WARN", "WARN", "stint: denied"
	if allowed {
		usual, level, message = "DEBUG", "INFO", "stint: allowed"
	}
	for _, c := range []struct {
		most  *int
		level string
		want  int
	}{{new(1_000_000), level, 60}, {new(50), level, 50}, {new(3), level, 3}, {new(0), level, 0}, {nil, usual, 5}} {
		spec := *w.Set().Spec()
		spec.LogAdmissions, spec.LogRejections = c.most, new(7)
		if !allowed {
			spec.LogAdmissions, spec.LogRejections = spec.LogRejections, spec.LogAdmissions
		}
		set, err := policy.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		guard.Swap(set)
		time.Sleep(time.Second) // another interval begins
		out.Reset()
		in := get("/")
		for range 60 {
			if err := guard.Decide(t.Context(), &in, new(policy.Verdict)); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Count(out.String(), fmt.Sprintf("level=%s msg=%q", c.level, message)); got != c.want ||
			strings.Count(out.String(), "level=") != got {
			t.Errorf("%s: %d requests are logged at %s, want %d", message, got, c.level, c.want)
		}
	}
}

// TestFewerThanNone: a negative number of records is a mistake.
func TestFewerThanNone(t *testing.T) {
	spec := *newWorld(t, "tiers: [{name: all, identity: ip, limits: 3/1m}]").Set().Spec()
	spec.LogAdmissions, spec.LogRejections = new(-1), new(-2)
	_, err := policy.New(spec)
	if err == nil || !strings.Contains(err.Error(), "log.admissions: -1; want 0 or more") ||
		!strings.Contains(err.Error(), "log.rejections: -2; want 0 or more") {
		t.Errorf("got %v, want both mistakes", err)
	}
}

// TestLogOfOthers: the verdict of somebody else is logged and passed on as the guard's own are.
func TestLogOfOthers(t *testing.T) {
	var out bytes.Buffer
	var seen eventCount
	w := newWorld(t, "tiers: [{name: all, identity: ip, limits: 3/1m}]")
	guard, err := policy.NewGuard(w.store, w.Set(), policy.GuardConfig{
		Observer: &seen, Logger: slog.New(slog.NewTextHandler(&out, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	rule := policy.Rule{Policy: "shop.to_number", Limits: []stint.Limit{stint.PerMinute(2)}}
	guard.Observe(t.Context(), &policy.Verdict{
		Tier: "envoy", Decision: stint.Decision{RetryAfter: 30 * time.Second},
		Results: []policy.Result{{
			Rule: &rule, Claim: stint.Claim{Subject: "envoy:somebody-with-a-number", Limits: rule.Limits},
			Usages: []stint.Usage{{Used: 2, RetryAfter: 30 * time.Second}}, Denied: true,
		}},
	})
	guard.Observe(t.Context(), &policy.Settlement{})
	for _, want := range []string{`level=WARN msg="stint: denied"`, "policy=shop.to_number", "tier=envoy",
		"key=envoy:somebo…", "limit=2/1m", "retry_after=30s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, &out)
		}
	}
	if strings.Count(out.String(), "\n") != 1 || seen != 2 {
		t.Errorf("%d events are passed on, want 2; logged %s", seen, &out)
	}
}

// TestLogOfTheGone: that a caller has gone away while it was asked is no failure of ours.
func TestLogOfTheGone(t *testing.T) {
	var out bytes.Buffer
	guard := newWorld(t, "tiers: [{name: all, identity: ip, limits: 3/1m}]").withLog(&out)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	in := get("/")
	if err := guard.Decide(gone, &in, new(policy.Verdict)); !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("error %v, log %q; want that it was canceled, and nothing", err, &out)
	}
}

// TestLogOfAFailedLook: a question that only looks is logged if it fails, with who and what was
// asked about; the observer receives nothing.
func TestLogOfAFailedLook(t *testing.T) {
	var out bytes.Buffer
	var seen eventCount
	w := newWorld(t, "tiers: [{name: members, identity: ip, limits: 3/1m}]")
	guard, err := policy.NewGuard(w.store, w.Set(), policy.GuardConfig{
		Observer: &seen, Logger: slog.New(slog.NewTextHandler(&out, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	in := get("/")
	var v policy.Verdict
	var r stint.Request
	if err := guard.Ask(&in, &v, &r); err != nil {
		t.Fatal(err)
	}
	r.Mode = stint.ModePeek
	v.Err = errors.New("no answer")
	guard.Answer(t.Context(), &v, &r)
	for _, want := range []string{"level=ERROR", "no answer", "policy=members", "tier=members", "key=ip:",
		"limit=3/1m"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, &out)
		}
	}
	if seen != 0 {
		t.Errorf("the observer received %d events", seen)
	}
}

// eventCount counts events.
type eventCount int

func (o *eventCount) Observe(context.Context, stint.Event) { *o++ }

package overrides_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

const text = `
claims: {user: ""}
tiers:
  - {name: free, identity: [user, ip], limits: [2/1h, 100/1d]}
policies:
  - {name: login, match: {path: /login}, limits: 1/1h}
`

// process is one of those that share a store.
type process struct {
	t     testing.TB
	table *overrides.Table
	guard *policy.Guard
}

func start(t testing.TB, store stint.Store) *process {
	table := testkit.Must(overrides.Open(t.Context(), store, overrides.Config{}))(t)
	t.Cleanup(table.Close)
	return &process{t, table, guardtest.New(t, store, text, policy.GuardConfig{Overrides: table})}
}

// take sends a request, and returns whether it is allowed and its first limit.
func (p *process) take(who string) (bool, stint.Limit) {
	var v policy.Verdict
	in := policy.Input{Method: "GET", Host: "example.com", Path: "/", Claims: guardtest.Claims{"user": who}}
	if err := p.guard.Decide(context.Background(), &in, &v); err != nil {
		p.t.Fatal(err)
	}
	return v.Decision.Allowed, v.Results[0].Limits[0]
}

func (p *process) admitted(who string) (n int) {
	for ok, _ := p.take(who); ok; ok, _ = p.take(who) {
		n++
	}
	return n
}

func (p *process) set(o overrides.Override) {
	p.t.Helper()
	if err := p.table.Set(context.Background(), o); err != nil {
		p.t.Fatal(err)
	}
}

func raise(who string, limits ...stint.Limit) overrides.Override {
	return overrides.Override{Subject: "user:" + who, Policy: "free", Limits: limits, Why: "TICKET-7", By: "ann"}
}

// stores are those that keep tables: in memory, in Redis, and there under hashed names.
func stores(t *testing.T, f func(t *testing.T, open func() stint.Store, lose func())) {
	t.Run("memory", func(t *testing.T) {
		store := guardtest.Memory(t)
		f(t, func() stint.Store { return store }, nil)
	})
	for name, keys := range map[string][][]byte{"redis": nil, "hashed": {[]byte(strings.Repeat("k", 32))}} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			f(t, func() stint.Store { return onRedis(t, server.URL(), keys...) }, func() { server.Do("FLUSHALL") })
		})
	}
}

// TestOverrides: a customer's limits change in all processes, what is used stays, and the end of an
// override is the end of it.
func TestOverrides(t *testing.T) {
	stores(t, func(t *testing.T, open func() stint.Store, lose func()) {
		one, two := start(t, open()), start(t, open())
		if a, b := one.admitted("42"), one.admitted("43"); a != 2 || b != 2 {
			t.Fatalf("got %d and %d, want 2", a, b)
		}
		one.set(raise("42", stint.PerHour(5)))
		if more := one.admitted("42"); more != 3 {
			t.Errorf("raised from 2 to 5: got %d more, want 3", more)
		}
		testkit.Eventually(t, "the other process knows of it", func() bool { _, l := two.take("42"); return l.Max == 5 })
		if n := two.admitted("43"); n != 0 {
			t.Errorf("another subject got %d more", n)
		}
		two.set(raise("42", stint.PerHour(1))) // no lower than the configuration
		if _, l := two.take("42"); l.Max != 2 {
			t.Errorf("got %s, want the larger of 2 and 1", l)
		}
		low := raise("42", stint.PerHour(1))
		low.Lower = true
		two.set(low)
		if _, l := two.take("42"); l.Max != 1 {
			t.Errorf("got %s, want 1/1h", l)
		}
		testkit.Eventually(t, "lowered in the other process", func() bool { _, l := one.take("42"); return l.Max == 1 })
		if all := two.table.Of("user:42"); len(all) != 1 || all[0].Why != "TICKET-7" || !all[0].Lower {
			t.Errorf("got %+v", all)
		}
		if lose != nil {
			lose()
			testkit.Eventually(t, "a process that starts after a loss of memory knows it", func() bool {
				return start(t, open()).table.Len() == 1
			})
		}
		if ok, err := one.table.Unset(t.Context(), "user:42", "free"); !ok || err != nil {
			t.Errorf("got %v, %v", ok, err)
		}
		testkit.Eventually(t, "removed in the other process", func() bool {
			if lose != nil { // the other process may have put it back just now
				_, _ = one.table.Unset(t.Context(), "user:42", "free")
			}
			return two.table.Len() == 0
		})
		if ok, err := one.table.Unset(t.Context(), "user:42", "free"); ok || err != nil {
			t.Errorf("removed twice: got %v, %v", ok, err)
		}
		for _, end := range []time.Time{time.Now().Add(-time.Second), time.Unix(0, 0), time.Unix(-1, 0)} {
			past := raise("42", stint.PerHour(9))
			past.Until = end
			one.set(past)
			if _, l := one.take("42"); l.Max != 2 {
				t.Errorf("got %s after the end at %s", l, end)
			}
		}
	})
}

// TestNeverLower: where the larger number and the larger burst cannot be counted together, the
// limit with the larger number applies.
func TestNeverLower(t *testing.T) {
	const year = 366 * 24 * time.Hour
	configured, burst := stint.Per(200_000_033, year), stint.Per(126_489_600, year).BurstTimes(2)
	for _, c := range []struct{ configured, over, want stint.Limit }{
		{configured, burst, configured},
		{burst, configured, configured},
	} {
		o := overrides.Override{Limits: []stint.Limit{c.over}}
		if got := o.Apply([]stint.Limit{c.configured}); got[0] != c.want {
			t.Errorf("%s over %s: got %s, want %s", c.over, c.configured, got[0], c.want)
		}
	}
}

// TestCheck: an override that has no effect is refused, with what would have one.
func TestCheck(t *testing.T) {
	for want, o := range map[string]overrides.Override{
		`unknown policy or tier "fre"; want`: {Subject: "user:1", Policy: "fre"},
		`free has no limit like 5/1m; want the name, algorithm and window of one of 2/1h, 100/1d`: {Subject: "user:1",
			Policy: "free", Limits: []stint.Limit{stint.PerMinute(5)}},
	} {
		if err := o.Check(guardtest.Parse(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for want, o := range map[string]overrides.Override{
		"the subject has 0 bytes": {Policy: "free", Limits: []stint.Limit{stint.PerHour(1)}},
		"0 limits":                {Subject: "a", Policy: "free"},
		"want at most 200 bytes":  {Subject: "a", Policy: "free", Limits: []stint.Limit{stint.PerHour(1)}, Why: "a\nb"},
		"a maximum of -1":         {Subject: "a", Policy: "free", Limits: []stint.Limit{stint.PerHour(-1)}},
	} {
		if err := o.Validate(); !errors.As(err, new(*stint.InvalidError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestRead: what is wrong with a line of a file is said with what would be right.
func TestRead(t *testing.T) {
	const user = `{"subject":"user:42","policy":"free",`
	for text, want := range map[string]string{
		user + `"limits":["500/1h"],"until":"friday"}`: `line 1: "friday" is not a time; want one such as "2026-`,
		user + `"limit":["500/1h"]}`:                   `line 1: unknown field "limit"; want an override such as {"subject"`,
		user + `"limits":"500/1h"}`:                    `line 1: limits is a string; want an override such as`,
		"\n" + user + `"limits":["5"]}`:                `line 2: limit "5": no window; want "units/window"`,
		user + `"limits":["5/1h"]} {}`:                 `line 1: more than one value`,
		`user:42,free,500/1h`:                          `line 1: invalid character 'u'`,
	} {
		err := overrides.Read(strings.NewReader(text), func(overrides.Override) error { return nil })
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestOpenOnNothing(t *testing.T) {
	for _, store := range []stint.Store{nil, (*memorystore.Store)(nil), struct{ stint.Store }{}} {
		if _, err := overrides.Open(t.Context(), store, overrides.Config{}); !errors.As(err, new(*stint.InvalidError)) {
			t.Errorf("%T: got %v, want an InvalidError", store, err)
		}
	}
}

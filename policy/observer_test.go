package policy_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/policy"
)

// witness is an observer that writes down what it hears.
type witness struct {
	verdicts []policy.Verdict
	wanted   any // the value of the context's key
	lost     []policy.Settlement
}

type wantedKey struct{}

func (w *witness) Observe(ctx context.Context, event stint.Event) {
	switch e := event.(type) {
	case *policy.Verdict:
		w.verdicts = append(w.verdicts, *e)
		w.wanted = ctx.Value(wantedKey{})
	case *policy.Settlement:
		w.lost = append(w.lost, *e)
	}
}

// slow is a store that takes its time.
type slow struct {
	stint.Store
	time time.Duration
	err  error
}

func (s slow) Take(context.Context, stint.Request) (stint.Decision, error) {
	time.Sleep(s.time)
	return stint.Decision{Allowed: true}, s.err
}

const observed = `
tiers:
  - {name: member, identity: user, limits: 9/1m}
  - {name: anyone, identity: ip, limits: 9/1m}
policies:
  - {name: free, match: {path: /free}, skip: true}
  - {name: open, match: {path: /open}, skip: true}
  - {name: always, limits: 9/1m}
  - {name: search, match: {path: /search}, limits: 9/1m}
  - {name: buy, match: {path: /buy}, limits: 9/1m}
`

func observedGuard(t testing.TB, store stint.Store, o stint.Observer) *policy.Guard {
	t.Helper()
	conf, err := config.Parse("stint.yaml", []byte(observed))
	if err != nil {
		t.Fatal(err)
	}
	g, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: discard, Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestObserver: it receives what was decided, how long it took, and for whom.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no")
		for _, err := range []error{nil, failure} {
			var w witness
			g := observedGuard(t, slow{time: 3 * time.Second, err: err}, &w)
			in, v := get("/search"), policy.Verdict{}
			if got := g.Decide(context.WithValue(t.Context(), wantedKey{}, 7), &in, &v); !errors.Is(got, err) {
				t.Fatal(got)
			}
			if len(w.verdicts) != 1 || w.verdicts[0].Route != "search" || w.verdicts[0].Took != 3*time.Second ||
				w.verdicts[0].Err != err || w.wanted != 7 {
				t.Errorf("received %+v", w)
			}
		}
	})
}

// TestTiming: of few decisions all are timed, of many some, and of few again all.
func TestTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		untimed := func(n int, pause time.Duration) (count int) {
			g := observedGuard(t, slow{time: pause}, &w)
			for range n {
				in, v := get("/"), policy.Verdict{}
				_ = g.Decide(t.Context(), &in, &v)
			}
			for i := range w.verdicts {
				if took := w.verdicts[i].Took; took == 0 {
					count++
				} else if took != max(pause, 1) {
					t.Errorf("took %v, want %v", took, pause)
				}
			}
			w = witness{}
			return count
		}
		if n := untimed(5_000, time.Millisecond); n > 0 {
			t.Errorf("of 1,000 a second %d are not timed", n)
		}
		if n := untimed(20_000, 10*time.Microsecond); n < 20_000-12*32 || n > 20_000-9*32 {
			t.Errorf("of 20,000 in 200 ms %d are not timed; want all but 32 of every 20 ms", n)
		}
		if n := untimed(32, 0); n > 0 {
			t.Errorf("of 32 at once %d are not timed", n)
		}

		store := &slow{time: 10 * time.Microsecond}
		g := observedGuard(t, store, &w)
		for i := range 5_000 {
			if i == 4_000 {
				store.time = 100 * time.Millisecond
			}
			in, v := get("/"), policy.Verdict{}
			_ = g.Decide(t.Context(), &in, &v)
		}
		if slices.ContainsFunc(w.verdicts[4_001:], func(v policy.Verdict) bool { return v.Took == 0 }) {
			t.Error("some are not timed although there are few again")
		}
	})
}

// TestVerdictSubject is who was denied, whichever claim that was.
func TestVerdictSubject(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: member, identity: user, limits: 9/1m}, {name: anyone, identity: ip, limits: unlimited}]
policies:
  - {name: login, match: {path: /login}, identity: ip, limits: 1/1m}
  - {name: trial, match: {path: /trial}, identity: ip, limits: 0/1m, shadow: true}
  - {name: free, match: {path: /free}, skip: true}
`)
	for _, test := range []struct {
		path, user, want string
	}{
		{"/login", "7", "user:7"},
		{"/login", "7", "ip:" + client.String()}, // which has no room
		{"/trial", "7", "ip:" + client.String()},
		{"/trial", "", "ip:" + client.String()},
		{"/", "7", "user:7"},
		{"/", "", ""},
		{"/free", "7", ""},
	} {
		in := get(test.path)
		if test.user != "" {
			in.Claims = claims{"user": test.user}
		}
		if v := w.judge(in); v.Subject() != test.want {
			t.Errorf("%s: about %q, want %q", test.path, v.Subject(), test.want)
		}
	}
}

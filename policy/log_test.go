package policy_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// TestLogLevels: failures are errors, denials warnings, and admissions are logged for debugging.
func TestLogLevels(t *testing.T) {
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	store := guardtest.MemoryWith(t, memorystore.Config{Now: now})
	for _, c := range []struct {
		name  string
		level slog.Level
		store stint.Store
		want  []string // in the last record
	}{
		{"failed", slog.LevelInfo, broken,
			[]string{"level=ERROR", "cause=", "tier=members", "key=user:someb", "limit=3/1m"}},
		{"denied without the store", slog.LevelInfo, guardtest.Away{},
			[]string{"level=WARN", "denied", "tier=members", "key=user:someb", "degraded=true", "unavailable=true"}},
		{"admitted", slog.LevelDebug, store,
			[]string{"level=DEBUG", "allowed", "tier=members", "key=user:someb", "limit=3/1m", "used=1", "remaining=2"}},
		{"admitted, at the usual level", slog.LevelInfo, store, nil},
		{"the last one", slog.LevelInfo, store, nil},
		{"denied", slog.LevelInfo, store, []string{"level=WARN", "denied", "tier=members", "key=user:someb", "limit=3/1m", "retry_after="}},
	} {
		w := worldOver(t, c.store, "tiers: [{name: members, identity: user, limits: 3/1m}, {name: others, identity: ip, limits: 1/1m}]")
		w.level.Set(c.level)
		in := query()
		_ = w.Decide(t.Context(), &in, new(policy.Verdict)) // a failure is logged
		w.wantLog(c.name, c.want...)
	}
}

// TestHowManyAreLogged: the set says how many admissions and denials are logged each second.
func TestHowManyAreLogged(t *testing.T) {
	spec := *parse(t, "tiers: [{name: all, identity: ip, limits: 3/1m}]").Spec()
	spec.LogAdmissions, spec.LogDenials = new(-1), new(-2)
	if _, err := policy.New(spec); err == nil || !strings.Contains(err.Error(), "log.admissions: -1; want 0 or more") ||
		!strings.Contains(err.Error(), "log.denials: -2; want 0 or more") {
		t.Errorf("got %v, want both mistakes", err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tiers: [{name: all, identity: ip, limits: 40/1m}]")
		w.level.Set(slog.LevelDebug)
		for _, c := range []struct {
			admissions, denials         *int
			wantAdmissions, wantDenials int
		}{{new(50), new(7), 40, 7}, {new(3), new(0), 0, 0}, {nil, nil, 0, 5}} {
			spec := *w.Set().Spec()
			spec.LogAdmissions, spec.LogDenials = c.admissions, c.denials
			set := testkit.Must(policy.New(spec))(t)
			_ = w.Replace(set)
			time.Sleep(time.Second) // another interval begins
			w.log.Reset()
			w.admitted(60, get("/"))
			admissions := strings.Count(w.log.String(), `level=INFO msg="stint: allowed"`)
			denials := strings.Count(w.log.String(), `level=WARN msg="stint: denied"`)
			if admissions != c.wantAdmissions || denials != c.wantDenials {
				t.Errorf("%d admissions and %d denials are logged, want %d and %d", admissions, denials,
					c.wantAdmissions, c.wantDenials)
			}
		}
	})
}

// TestLogOfFailures: a failed peek is logged and not observed; a client that disconnects is no
// failure.
func TestLogOfFailures(t *testing.T) {
	w := newWorld(t, "tiers: [{name: members, identity: ip, limits: 3/1m}]")
	in := get("/")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Decide(gone, &in, new(policy.Verdict)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was canceled", err)
	}
	w.wantLog("canceled")

	w.seen = witness{}
	var v policy.Verdict
	var r stint.Request
	if err := w.Prepare(&in, &v, &r); err != nil {
		t.Fatal(err)
	}
	r.Mode, v.Err = stint.ModePeek, errors.New("no answer")
	w.Finish(t.Context(), &v, &r)
	w.wantLog("peek", "level=ERROR", "no answer", "policy=members", "tier=members", "key=ip:", "limit=3/1m")
	if len(w.seen.verdicts) != 0 {
		t.Errorf("observed %+v", w.seen)
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

const observed = "tiers: [{name: anyone, identity: ip, limits: 9/1m}]\npolicies: [{name: search, match: {path: /search}, limits: 9/1m}]"

// TestTiming: of few decisions all are timed, of many some, and of few again all.
func TestTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		untimed := func(w *world) (count int) {
			for i := range w.seen.verdicts {
				if w.seen.verdicts[i].Took == 0 {
					count++
				}
			}
			return count
		}
		for _, test := range []struct {
			n           int
			pause       time.Duration
			least, most int // untimed
		}{
			{5_000, time.Millisecond, 0, 0},
			{20_000, 10 * time.Microsecond, 20_000 - 12*32, 20_000 - 9*32}, // 32 of every 20 ms are timed
			{32, 0, 0, 0},
		} {
			w := worldOver(t, slow{time: test.pause}, observed)
			w.admitted(test.n, get("/"))
			if n := untimed(w); n < test.least || n > test.most || w.seen.verdicts[0].Took != max(test.pause, 1) {
				t.Errorf("%+v: %d are not timed; took %v", test, n, w.seen.verdicts[0].Took)
			}
		}
		store := &slow{time: 10 * time.Microsecond}
		w := worldOver(t, store, observed)
		w.admitted(4_000, get("/"))
		store.time = 100 * time.Millisecond
		w.judge(get("/"))
		w.seen = witness{}
		w.admitted(1_000, get("/"))
		if n := untimed(w); n > 0 {
			t.Errorf("%d are not timed although there are few again", n)
		}
	})
}

// TestVerdictSubject: the subject is the one that was denied, whichever claim that was.
func TestVerdictSubject(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: member, identity: user, limits: 9/1m}, {name: anyone, identity: ip, limits: unlimited}]
policies:
  - {name: login, match: {path: /login}, identity: ip, limits: 1/1m}
  - {name: trial, match: {path: /trial}, identity: ip, limits: 0/1m, shadow: true}
  - {name: free, match: {path: /free}, skip: true}
`)
	address := "ip:" + client.String()
	for _, test := range []struct{ path, user, want string }{
		{"/login", "7", "user:7"}, {"/login", "7", address}, // which has no room
		{"/trial", "7", address}, {"/trial", "", address},
		{"/", "7", "user:7"}, {"/", "", ""}, {"/free", "7", ""},
	} {
		if v := w.judge(getAs(test.path, claims{"user": test.user})); v.Subject() != test.want {
			t.Errorf("%s: about %q, want %q", test.path, v.Subject(), test.want)
		}
	}
}

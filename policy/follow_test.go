package policy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/policy"
)

const followConfig = `
tiers: [{name: anyone, identity: ip, limits: 100/1m, budget: 100/1m}]
policies:
  - {name: header, match: {path: /header}, cost: 10, settle: {header: X-Cost}}
  - {name: bytes, match: {path: /bytes}, cost: 10, settle: {bytes: 1KiB}, refund: [404, 5xx]}
  - {name: slowly, match: {path: /slowly}, cost: 10, refund: [4xx, 5xx]}
  - {name: slow, match: {path: /slow}, limits: 2/10s concurrency, refund: 503}
`

func TestFollow(t *testing.T) {
	for _, test := range []struct {
		name, path string
		outcome    policy.Outcome
		want       []int64 // requests and units
	}{
		{"settled downwards", "/header", policy.Outcome{Status: 200, Cost: "3"}, []int64{1, 3}},
		{"settled upwards, into debt", "/header", policy.Outcome{Status: 200, Cost: " 150 "}, []int64{1, 150}},
		{"into a debt that a window forgets", "/header", policy.Outcome{Status: 200, Cost: "5000"}, []int64{1, 5000}},
		{"settled to nothing", "/header", policy.Outcome{Status: 200, Cost: "0"}, []int64{1, 0}},
		{"as charged", "/header", policy.Outcome{Status: 200, Cost: "10"}, []int64{1, 10}},
		{"no header", "/header", policy.Outcome{Status: 200}, []int64{1, 10}},
		{"not a cost", "/header", policy.Outcome{Status: 200, Cost: "-1"}, []int64{1, 10}},
		{"an absurd cost", "/header", policy.Outcome{Status: 200, Cost: "9223372036854775808"}, []int64{1, 10}},
		{"by size, every part of a unit", "/bytes", policy.Outcome{Status: 200, Bytes: 2049}, []int64{1, 3}},
		{"by size, none", "/bytes", policy.Outcome{Status: 204}, []int64{1, 0}},
		{"refunded", "/bytes", policy.Outcome{Status: 500, Bytes: 1 << 20}, []int64{0, 0}},
		{"refunded by code", "/bytes", policy.Outcome{Status: 404, Bytes: 1 << 20}, []int64{0, 0}},
		{"another code", "/bytes", policy.Outcome{Status: 403, Bytes: 1024}, []int64{1, 1}},
		{"the client went away", "/slowly", policy.Outcome{Status: 499}, []int64{1, 10}},
		{"settled upwards in another spelling", "//x/header", policy.Outcome{Status: 200, Cost: "50"}, []int64{1, 50}},
		{"settled upwards in another case", "/HEADER", policy.Outcome{Status: 200, Cost: "50"}, []int64{1, 50}},
		{"another spelling gives nothing back", "/header;x", policy.Outcome{Status: 200, Cost: "3"}, []int64{1, 10}},
		{"another spelling is not refunded", "//x/bytes", policy.Outcome{Status: 500, Bytes: 20 << 10}, []int64{1, 20}},
	} {
		w := newWorld(t, followConfig)
		v, end := w.begin(get(test.path))
		end(test.outcome)
		if got := w.used(v); !slices.Equal(got, test.want) {
			t.Errorf("%s: used %v, want %v", test.name, got, test.want)
		}
	}
}

// TestFollowShadow: a charge in shadow is corrected like any other.
func TestFollowShadow(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: unlimited}]
policies:
  - {name: p, budget: 100/1h, cost: 50, shadow: true, refund: 5xx, settle: {header: X-Cost}}
`)
	failed := policy.Outcome{Status: 500}
	for i, step := range []struct {
		outcome policy.Outcome
		used    int64
	}{
		{failed, 0}, {failed, 0}, {failed, 0}, {policy.Outcome{Status: 200, Cost: "10"}, 10},
		{policy.Outcome{Status: 200}, 60}, {policy.Outcome{Status: 200}, 60},
	} {
		v, end := w.begin(get("/"))
		end(step.outcome)
		if got := w.used(v)[0]; got != step.used || (len(shadowed(v)) > 0) != (i == 5) {
			t.Errorf("request %d: used %d, want %d; denied by %v", i, got, step.used, shadowed(v))
		}
	}
}

// TestPlaces: a request keeps its place for as long as it takes, and then gives it back.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldOver(t, guardtest.Memory(t), followConfig)
		_, first := w.begin(get("/slow"))
		_, second := w.begin(get("/slow"))
		for range 5 {
			if w.judge(get("/slow")).Decision.Allowed {
				t.Fatal("a third was let in")
			}
			time.Sleep(7 * time.Second) // well over the 10 s that a place lasts by itself
		}
		first(policy.Outcome{Status: 200})
		_, third := w.begin(get("/slow"))
		second(policy.Outcome{Status: 503}) // gives everything back, its place too
		v, fourth := w.begin(get("/slow"))
		if !v.Decision.Allowed || w.judge(get("/slow")).Decision.Allowed {
			t.Error("want two places again, and no more")
		}
		third(policy.Outcome{Status: 200})
		fourth(policy.Outcome{Status: 200})
	})
}

// TestFollowSettlesHolds: a hold is charged when a request ends, with or without a true cost, and
// given back if the process dies.
func TestFollowSettlesHolds(t *testing.T) {
	for _, test := range []struct {
		name, path string
		outcome    *policy.Outcome // nil: the process dies
		want       []int64         // requests, cost, in, out, in shadow
	}{
		{"a true cost", "/chat", &policy.Outcome{Status: 200, Cost: "7"}, []int64{1, 7, 100, 400, 7}},
		{"no true cost", "/chat", &policy.Outcome{Status: 200}, []int64{1, 10, 100, 400, 10}},
		{"a refund", "/chat", &policy.Outcome{Status: 500}, []int64{0, 0, 0, 0, 0}},
		{"no settlement", "/plain", &policy.Outcome{Status: 200}, []int64{1, 10, 10, 10}},
		{"dead", "/chat", nil, []int64{0, 0, 0, 0, 0}},
	} {
		w := newWorld(t, `
tiers: [{name: all, identity: ip, limits: 100/1d, budget: [1000/1d, "in: 1000/1d", "out: 1000/1d"]}]
policies:
  - {name: chat, match: {path: /chat}, cost: 10, costs: {in: 100, out: 400}, hold: 5m, settle: {header: X-Cost}, refund: 5xx}
  - {name: plain, match: {path: /plain}, cost: 10, hold: 5m}
  - {name: trial, match: {path: /chat}, identity: everyone, budget: "trial: 1000/1d", shadow: true}
`)
		v := w.judge(get(test.path))
		if d := v.Decision.Charge.Data(); d.Hold != 5*time.Minute {
			t.Fatalf("%s: the hold is %v", test.name, d.Hold)
		}
		if test.outcome != nil {
			w.Follow(t.Context(), v)(*test.outcome)
			if s := w.seen.settlements; len(s) != 1 || s[0].Hold != 5*time.Minute || !s[0].Amended.Changed {
				t.Errorf("%s: observed %+v, want the hold once", test.name, s)
			}
		}
		w.advance(time.Hour)
		if got := w.used(v); !slices.Equal(got, test.want) {
			t.Errorf("%s: used %v, want %v", test.name, got, test.want)
		}
	}
	w := newWorld(t, `
tiers: [{name: all, identity: ip, limits: 100/1d}]
policies: [{name: chat, hold: 5m}]
`)
	w.Follow(t.Context(), w.judge(get("/")))(policy.Outcome{Status: 200})
	if s := w.seen.settlements; len(s) != 1 || s[0].Hold != 5*time.Minute {
		t.Errorf("without a budget: observed %+v, want the hold once", s)
	}
}

const settled = `
tiers: [{name: member, identity: user, limits: 100000/1h, budget: 100000/1h}, {name: rest, identity: ip, limits: 1/1h}]
policies:
  - {name: query, match: {path: /query}, cost: 1, settle: {header: X-True-Cost}, refund: 5xx}
`

// query is a request of a member.
func query() policy.Input { return getAs("/query", claims{"user": "somebody-with-a-name"}) }

// mortal is the store of a process that may die: then nothing is amended.
type mortal struct {
	stint.Store
	dead atomic.Bool
	err  error // what a dead process gets
}

func (m *mortal) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if m.dead.Load() {
		return stint.Amended{}, m.err
	}
	return m.Store.Amend(ctx, c, a)
}

// TestLostSettlements: charges that were not corrected are logged and observed, apart by whether
// the store failed.
func TestLostSettlements(t *testing.T) {
	failure := errors.New("no answer")
	for _, test := range []struct {
		name    string
		err     error
		outcome policy.Outcome
		log     []string
		want    policy.Settlement
	}{
		{"settlement", nil, policy.Outcome{Status: 200, Cost: "7"},
			[]string{"level=WARN", "a settlement was not applied", "cost=7"}, policy.Settlement{Cost: 7}},
		{"settlement to nothing", nil, policy.Outcome{Status: 200, Cost: "0"},
			[]string{"level=WARN", "a settlement was not applied", "cost=0"}, policy.Settlement{}},
		{"refund", nil, policy.Outcome{Status: 500},
			[]string{"level=WARN", "a refund was not applied", "cost=0"}, policy.Settlement{Refund: true}},
		{"failed settlement", failure, policy.Outcome{Status: 200, Cost: "7"},
			[]string{"level=ERROR", "a settlement failed", `cause="no answer"`, "cost=7"},
			policy.Settlement{Cost: 7, Err: failure}},
		{"failed refund", failure, policy.Outcome{Status: 500},
			[]string{"level=ERROR", "a refund failed", `cause="no answer"`},
			policy.Settlement{Refund: true, Err: failure}},
		{"nothing to settle", failure, policy.Outcome{Status: 200}, nil, policy.Settlement{}},
	} {
		process := &mortal{Store: guardtest.Memory(t), err: test.err}
		process.dead.Store(true)
		w := worldOver(t, process, settled)
		_, end := w.begin(query())
		end(test.outcome)
		if test.log == nil {
			if w.wantLog(test.name); len(w.seen.settlements) > 0 {
				t.Errorf("%s: observed %+v", test.name, w.seen.settlements)
			}
			continue
		}
		w.wantLog(test.name, append(test.log, "tier=member", "policy=member", "key=user:someb", "charged=1")...)
		got := w.seen.settlements
		if len(got) != 1 || got[0].Rule == nil || got[0].Rule.Name() != "member" {
			t.Fatalf("%s: observed %+v, want one of the tier", test.name, got)
		}
		if got[0].Rule, got[0].Verdict = nil, nil; got[0] != test.want {
			t.Errorf("%s: observed %+v, want %+v", test.name, got[0], test.want)
		}
	}
}

// TestSettlementsAreCut: a debt above the maximum is not charged, which is logged and observed.
func TestSettlementsAreCut(t *testing.T) {
	for _, test := range []struct {
		settle, cost string
		charged      int64
	}{
		{"{header: X-Cost}", "250", 200}, // one capacity
		{"{header: X-Cost, max_debt: 30}", "250", 130},
		{"{header: X-Cost, max_debt: 1000}", "250", 250},
		{"{header: X-Cost}", "150", 150},
	} {
		w := newWorld(t, `
tiers: [{name: member, identity: user, limits: 1000/1h, budget: 100/1h bucket}, {name: rest, identity: ip, limits: 1/1h}]
policies: [{name: query, match: {path: /query}, cost: 10, settle: `+test.settle+`}]
`)
		_, end := w.begin(query())
		end(policy.Outcome{Status: 200, Cost: test.cost})
		lost := w.seen.settlements
		if test.cost == fmt.Sprint(test.charged) {
			if w.wantLog(test.settle); len(lost) > 0 {
				t.Errorf("%+v: observed %+v", test, lost)
			}
			continue
		}
		w.wantLog(test.settle, fmt.Sprintf("level=WARN msg=\"stint: a settlement was charged only in part: its debt would be "+
			"too large\" tier=member key=user:somebo… charged=%d cost=250", test.charged))
		if len(lost) != 1 || lost[0].Cost != 250 || lost[0].Amended != (stint.Amended{Changed: true, Charged: test.charged}) {
			t.Errorf("%+v: observed %+v", test, lost)
		}
	}
}

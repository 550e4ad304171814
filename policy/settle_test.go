package policy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/storebounds"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
)

// eachStore runs a test over the store in memory and over a real Redis.
func eachStore(t *testing.T, test func(*testing.T, stint.Store)) {
	t.Run("memory", func(t *testing.T) {
		store, err := memorystore.New(memorystore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		test(t, store)
	})
	t.Run("redis", func(t *testing.T) {
		store, err := redisstore.Open(t.Context(), redisstore.Config{URL: redistest.Start(t).URL(), Logger: discard})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		test(t, store)
	})
}

// guardOver is a guard by a configuration over a store.
func guardOver(t *testing.T, store stint.Store, text string, c policy.GuardConfig) *policy.Guard {
	t.Helper()
	conf, err := config.Parse("stint.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c.Logger == nil {
		c.Logger = discard
	}
	guard, err := policy.NewGuard(store, conf.Set, c)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// begin decides a request, and returns what ends it if it was allowed.
func begin(t *testing.T, g *policy.Guard, in policy.Input) (*policy.Verdict, func(policy.Outcome)) {
	t.Helper()
	v := new(policy.Verdict)
	if err := g.Decide(t.Context(), &in, v); err != nil {
		t.Fatal(err)
	}
	end := g.Follow(t.Context(), v)
	if end == nil {
		end = func(policy.Outcome) {}
	}
	return v, end
}

// A request is repeated eight times while it is served, then fails and would be refunded. If it
// were, whoever sends one that fails with eight that work would never be limited.
func TestARepeatedRequestIsNotRefunded(t *testing.T) {
	const limit, repeats = 3, 8
	eachStore(t, func(t *testing.T, store stint.Store) {
		g := guardOver(t, store, `
tiers: [{name: anyone, identity: ip, limits: 3/1h}]
policies:
  - {name: things, match: {path: "/things/{id}"}, refund: [404, 5xx], request_id: {header: Idempotency-Key}}
`, policy.GuardConfig{})
		firsts, served := 0, 0
		for round := range 20 {
			in := get("/things/1")
			in.Header = http.Header{"Idempotency-Key": {fmt.Sprint(round)}}
			first, fail := begin(t, g, in)
			if !first.Decision.Allowed {
				continue
			}
			firsts++
			for range repeats {
				if again, end := begin(t, g, in); again.Decision.Allowed {
					served++
					end(policy.Outcome{Status: 200})
				}
			}
			fail(policy.Outcome{Status: 404})
		}
		if firsts+served > limit*(1+repeats) {
			t.Errorf("%d requests that failed and %d that were served under a limit of %d; want at most %d", firsts, served, limit, limit*(1+repeats))
		}
	})
}

// A request that nobody repeated is refunded, and its id may be used for another.
func TestAFailedRequestIsRefunded(t *testing.T) {
	eachStore(t, func(t *testing.T, store stint.Store) {
		g := guardOver(t, store, `
tiers: [{name: anyone, identity: ip, limits: 3/1h}]
policies: [{name: things, refund: 5xx, request_id: {header: Idempotency-Key}}]
`, policy.GuardConfig{})
		in := get("/")
		in.Header = http.Header{"Idempotency-Key": {"a"}}
		for range 10 {
			v, end := begin(t, g, in)
			if d := &v.Decision; !d.Allowed || d.Repeat || d.Usages()[0].Used != 1 {
				t.Fatalf("got %+v, want the first of 3", d)
			}
			end(policy.Outcome{Status: 503})
		}
	})
}

// A client may send the port of the host or not: the request is the same.
func TestRequestIDsDoNotDependOnThePort(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 9/1h}]
request_id: {header: Idempotency-Key}
`)
	for _, test := range []struct {
		host   string
		repeat bool
	}{
		{"example.com", false}, {"example.com:443", true}, {"example.com:8443", true}, {"EXAMPLE.com", true},
		{"example.com.:80", true},
		{"www.example.com", false}, {"[2001:db8::1]", false}, {"[2001:db8::1]:80", true}, {"[2001:db8::2]:80", false},
	} {
		in := get("/")
		in.Host, in.Header = test.host, http.Header{"Idempotency-Key": {"k"}}
		if v := w.judge(in); v.Decision.Repeat != test.repeat {
			t.Errorf("%s: repeat %v, want %v", test.host, v.Decision.Repeat, test.repeat)
		}
	}
}

const settled = `
tiers: [{name: member, identity: user, limits: 100000/1h, budget: 100000/1h}, {name: rest, identity: ip, limits: 1/1h}]
policies:
  - {name: query, match: {path: /query}, cost: 1, settle: {header: X-True-Cost}, refund: 5xx}
`

// query is a request of a member.
func query() policy.Input {
	in := get("/query")
	in.Claims = claims{"user": "somebody-with-a-name"}
	return in
}

// What takes longest is settled last, when more than a thousand others have been. Its cost counts
// all the same.
func TestSettledAfterAThousandOthers(t *testing.T) {
	eachStore(t, func(t *testing.T, store stint.Store) {
		for i := 0; !settlesLate(t, store, "user"+strconv.Itoa(i)); i++ { // the store was too slow, on a busy machine
			if i == 10 {
				t.Fatal("the store does not answer")
			}
		}
	})
}

// settlesLate reports false if the store did not answer in time.
func settlesLate(t *testing.T, store stint.Store, user string) bool {
	t.Helper()
	in := query()
	in.Claims = claims{"user": user}
	var lost witness
	g := guardOver(t, store, settled, policy.GuardConfig{Observer: &lost})
	spent := int64(0)
	for spent < 100_000 {
		_, slow := begin(t, g, in)
		for range storebounds.MaxSettled + 1 {
			v, end := begin(t, g, in)
			if !v.Decision.Allowed {
				t.Fatalf("denied after %d units", spent)
			}
			end(policy.Outcome{Status: 200, Cost: "2"})
			spent += 2
		}
		slow(policy.Outcome{Status: 200, Cost: "50000"})
		spent += 50_000
	}
	v, _ := begin(t, g, in)
	if slices.ContainsFunc(lost.lost, func(s policy.Settlement) bool { return s.Err != nil }) {
		return false
	}
	if used := v.Decision.Usages()[1].Used; v.Decision.Allowed || used != spent {
		t.Errorf("allowed %v, used %d of 100000; want a denial, and %d used", v.Decision.Allowed, used, spent)
	}
	if len(lost.lost) > 0 {
		t.Errorf("lost %+v", lost.lost)
	}
	return true
}

// An upstream dies with thousands of requests of one member under way. All are refunded, whatever
// the order.
func TestRefundStorm(t *testing.T) {
	const requests, callers = 600, 16
	orders := map[string]func([]func(policy.Outcome)){
		"oldest first": func([]func(policy.Outcome)) {},
		"newest first": slices.Reverse[[]func(policy.Outcome)],
		"random": func(all []func(policy.Outcome)) {
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		},
	}
	eachStore(t, func(t *testing.T, store stint.Store) {
		for name, order := range orders {
			in := query()
			in.Claims = claims{"user": name}
			g := guardOver(t, store, settled, policy.GuardConfig{})
			ends := make([]func(policy.Outcome), requests)
			each(callers, requests, func(i int) {
				v := new(policy.Verdict)
				own := in
				if err := g.Decide(context.Background(), &own, v); err != nil || !v.Decision.Allowed {
					t.Errorf("allowed %v, %v", v.Decision.Allowed, err)
					return
				}
				ends[i] = g.Follow(context.Background(), v)
			})
			if t.Failed() {
				return
			}
			order(ends)
			each(callers, requests, func(i int) { ends[i](policy.Outcome{Status: 502}) })
			if v, _ := begin(t, g, in); v.Decision.Usages()[0].Used != 1 || v.Decision.Usages()[1].Used != 1 {
				t.Errorf("%s: %v used after all %d were refunded, want this one alone", name, v.Decision.Usages(), requests)
			}
		}
	})
}

// each calls f with every number below n, by some goroutines, and returns when all are done.
func each(goroutines, n int, f func(int)) {
	var group sync.WaitGroup
	for from := range goroutines {
		group.Go(func() {
			for i := from; i < n; i += goroutines {
				f(i)
			}
		})
	}
	group.Wait()
}

// unsettling is a store that does not amend.
type unsettling struct {
	stint.Store
	err error
}

func (s unsettling) Amend(context.Context, stint.Charge, stint.Amendment) (stint.Amended, error) {
	return stint.Amended{}, s.err
}

// What is not corrected is logged and observed, apart by whether the store failed.
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
		t.Run(test.name, func(t *testing.T) {
			store, err := memorystore.New(memorystore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			var out bytes.Buffer
			var seen witness
			g := guardOver(t, unsettling{store, test.err}, settled,
				policy.GuardConfig{Observer: &seen, Logger: slog.New(slog.NewTextHandler(&out, nil))})
			_, end := begin(t, g, query())
			end(test.outcome)
			if test.log == nil {
				if out.Len() > 0 || len(seen.lost) > 0 {
					t.Errorf("logged %q, observed %+v; want nothing", &out, seen.lost)
				}
				return
			}
			for _, want := range append(test.log, "tier=member", "policy=member", "key=user:someb", "charged=1") {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %s in %s", want, &out)
				}
			}
			if strings.Contains(out.String(), "somebody-with-a-name") {
				t.Errorf("names the subject in full: %s", &out)
			}
			if len(seen.lost) != 1 || seen.lost[0].Rule == nil || seen.lost[0].Rule.Name() != "member" {
				t.Fatalf("observed %+v, want one of the tier", seen.lost)
			}
			if seen.lost[0].Rule, seen.lost[0].Verdict = nil, nil; seen.lost[0] != test.want {
				t.Errorf("observed %+v, want %+v", seen.lost[0], test.want)
			}
		})
	}
}

// What would be too large a debt is not charged: that is logged and observed.
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
		store, err := memorystore.New(memorystore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var out bytes.Buffer
		var seen witness
		g := guardOver(t, store, `
tiers: [{name: member, identity: user, limits: 1000/1h, budget: 100/1h bucket}, {name: rest, identity: ip, limits: 1/1h}]
policies: [{name: query, match: {path: /query}, cost: 10, settle: `+test.settle+`}]
`, policy.GuardConfig{Observer: &seen, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		_, end := begin(t, g, query())
		end(policy.Outcome{Status: 200, Cost: test.cost})
		if test.cost == fmt.Sprint(test.charged) {
			if out.Len() > 0 || len(seen.lost) > 0 {
				t.Errorf("%+v: logged %q, observed %+v; want nothing", test, &out, seen.lost)
			}
			continue
		}
		want := fmt.Sprintf("level=WARN msg=\"stint: a settlement was not charged wholly: its debt would be too large\" "+
			"tier=member key=user:somebo… charged=%d cost=250", test.charged)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%+v: logged %q, want %q", test, &out, want)
		}
		if len(seen.lost) != 1 || seen.lost[0].Cost != 250 ||
			seen.lost[0].Amended != (stint.Amended{Changed: true, Charged: test.charged}) {
			t.Errorf("%+v: observed %+v", test, seen.lost)
		}
	}
}

// Of many that are lost a few are logged each second; all are observed.
func TestLostSettlementsAreLoggedSeldom(t *testing.T) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var out bytes.Buffer
	var seen witness
	g := guardOver(t, unsettling{store, nil}, settled,
		policy.GuardConfig{Observer: &seen, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	start := time.Now()
	for range 1000 {
		_, end := begin(t, g, query())
		end(policy.Outcome{Status: 500})
	}
	most := 5 * (1 + int(time.Since(start)/time.Second+1))
	if lines := strings.Count(out.String(), "\n"); lines > most || len(seen.lost) != 1000 {
		t.Errorf("%d lines and %d observed; want at most %d, and 1000", lines, len(seen.lost), most)
	}
}

func TestDebtIsExplained(t *testing.T) {
	for config, want := range map[string]string{
		"{header: X-Cost, max_debt: 30}": "budgets are settled by the response header X-Cost, with a debt of at most 30",
		"{bytes: 64, max_debt: 1}":       "budgets are settled at a unit per 64 bytes of response body, with a debt of at most 1",
		"{header: X-Cost}":               "budgets are settled by the response header X-Cost",
	} {
		w := newWorld(t, "tiers: [{name: all, identity: ip, budget: 10/1m}]\npolicies: [{name: p, settle: "+config+"}]")
		in := get("/")
		if got := w.Set().Explain(&in).After; got != want {
			t.Errorf("%s: explained as %q, want %q", config, got, want)
		}
	}
}

// A repeat leaves what the first request was charged to that: it neither settles nor refunds it.
func TestRepeatsAreLeftToTheFirstRequest(t *testing.T) {
	for name, shadow := range map[string]string{"enforced": "false", "in shadow": "true"} {
		t.Run(name, func(t *testing.T) {
			store, err := memorystore.New(memorystore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			var out bytes.Buffer
			g := guardOver(t, store, `
request_id: {header: Idempotency-Key, life: 1m}
tiers: [{name: anyone, identity: ip, limits: 1000/1h}]
policies:
  - {name: query, budget: 100/1h, cost: 10, settle: {header: X-Cost}, refund: 5xx, shadow: `+shadow+`}
`, policy.GuardConfig{Logger: slog.New(slog.NewTextHandler(&out, nil))})
			in := get("/")
			in.Header = http.Header{"Idempotency-Key": {"x"}}
			_, end := begin(t, g, in)
			time.Sleep(time.Millisecond) // a repeat in the same moment would be told to wait
			for _, o := range []policy.Outcome{{Status: 200, Cost: "1"}, {Status: 500}} {
				again, end := begin(t, g, in)
				if !again.Decision.Repeat {
					t.Fatalf("got %+v, want a repeat", again.Decision)
				}
				end(o)
			}
			usages := func() (used []int64) {
				v, _ := begin(t, g, get("/"))
				for _, r := range v.Results {
					used = append(used, r.Usages[0].Used)
				}
				return used
			}
			during := usages()
			end(policy.Outcome{Status: 200, Cost: "40"})
			after := usages()
			if !slices.Contains(during, 20) || !slices.Contains(after, 60) || out.Len() > 0 {
				t.Errorf("used %v and then %v, logged %s", during, after, &out)
			}
		})
	}
}

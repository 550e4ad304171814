package api_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/api"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/redisstore"
)

// A settlement says what is charged, and how large a debt may be.
func TestSettleAnswers(t *testing.T) {
	const bucket, window = `{"subject":"a","limits":["100/1h bucket"],"cost":5}`, `{"subject":"a","limits":["100/1h"],"cost":5}`
	for _, test := range []struct {
		take, path, more string
		charged          int64
	}{
		{window, "settle", `,"cost":5000`, 5000},
		{window, "settle", `,"cost":0`, 0},
		{window, "refund", ``, -1},
		{bucket, "settle", `,"cost":150`, 150},
		{bucket, "settle", `,"cost":5000`, 200},
		{bucket, "settle", `,"max_debt":7,"cost":5000`, 107},
		{bucket, "settle", `,"cost":5000,"max_debt":5000`, 5000},
	} {
		var log bytes.Buffer
		var seen []any
		s := serve(t, guardtest.Memory(t), rules, func(c *api.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c.Observer = observerFunc(func(e stint.Event) { seen = append(seen, e) })
		})
		body := withCharge(s.post("/v1/take", test.take).decision(200).Charge, test.more)
		for i, want := range []int64{test.charged, -1} {
			if changed, charged := s.post("/v1/"+test.path, body).charged(); changed != (i == 0) || charged != want {
				t.Errorf("%s%s, time %d: changed is %v, charged %d; want %d", test.take, test.more, i+1, changed, charged, want)
			}
		}
		cut := strings.Contains(test.more, `"cost":5000`) && test.charged < 5000
		if cut != (len(seen) == 1) || cut != strings.Contains(log.String(), "level=WARN msg=\"stint: a settlement through the API was charged only in part") {
			t.Errorf("%s%s: observed %v, logged %s", test.take, test.more, seen, &log)
		}
	}
	s := serve(t, guardtest.Memory(t), rules)
	charge := s.post("/v1/take", window).decision(200).Charge
	s.mistaken("/v1/settle", withCharge(charge, `,"cost":1,"max_debt":0`), "max_debt")
}

type observerFunc func(stint.Event)

func (f observerFunc) Observe(_ context.Context, e stint.Event) { f(e) }

// A client that kept a charge must not take a place with it that is no longer its own: it could do
// so with any number of them.
func TestExtendTakesNoForgottenPlace(t *testing.T) {
	redis := redistest.Start(t)
	s := serve(t, guardtest.Redis(t, redisstore.Config{URL: redis.URL()}), rules)
	const take = `{"subject":"a","limits":["2/30s concurrency"]}`
	body := withCharge(s.post("/v1/take", take).decision(200).Charge, "")
	if !s.post("/v1/extend", body).changed() {
		t.Error("a place that is held is not extended")
	}
	redis.CLI(t, "FLUSHALL")
	if s.post("/v1/extend", body).changed() {
		t.Error("a forgotten place is extended")
	}
	if got := s.looks(take); got != "limits 0/2" {
		t.Errorf("afterwards %s, want limits 0/2", got)
	}
}

// clocked returns a server over a store whose clock the test moves.
func clocked(t *testing.T, rules string) (*server, func(time.Duration)) {
	t.Helper()
	var now atomic.Int64 // the store sweeps at any time
	now.Store(int64(1e18))
	store := guardtest.MemoryWith(t, memorystore.Config{Now: func() time.Time { return time.Unix(0, now.Load()) }})
	return serve(t, store, rules), func(d time.Duration) { now.Add(int64(d)) }
}

// A hold keeps an estimate in a long window, heartbeats charge what was used so far, and the true
// cost is charged once, whatever is repeated.
func TestHold(t *testing.T) {
	const look = `{"subject":"a","limits":["100/1m","1000/1d"]}`
	const take = `{"subject":"a","limits":["100/1m","1000/1d"],"cost":40,"hold_seconds":300}`
	s, pass := clocked(t, rules)
	charge := s.post("/v1/take", take).decision(200).Charge
	step := func(path, more string, changed bool, charged int64, want string) {
		t.Helper()
		if c, n := s.post("/v1/"+path, withCharge(charge, more)).charged(); c != changed || n != charged {
			t.Errorf("%s%s: changed is %v, charged %d; want %v, %d", path, more, c, n, changed, charged)
		}
		if got := s.looks(look); got != want {
			t.Errorf("after %s%s: %s, want %s", path, more, got, want)
		}
	}
	pass(2 * time.Minute) // the estimate has left the minute
	step("extend", `,"cost":30`, true, -1, "limits 0/100, limits 40/960")
	step("extend", `,"cost":30`, true, -1, "limits 0/100, limits 40/960")
	step("extend", ``, true, -1, "limits 0/100, limits 40/960")
	step("extend", `,"cost":55`, true, -1, "limits 15/85, limits 55/945")
	step("settle", `,"cost":70`, true, 70, "limits 30/70, limits 70/930")
	step("settle", `,"cost":70`, false, -1, "limits 30/70, limits 70/930")
	step("refund", ``, false, -1, "limits 30/70, limits 70/930")
	step("extend", `,"cost":90`, false, -1, "limits 30/70, limits 70/930")
}

// Several quantities are charged by the names of their limits, and settled together or apart.
func TestCosts(t *testing.T) {
	const limits = `"subject":"a","limits":["requests: 10/1m","in: 1000/1d","out: 1000/1d"]`
	s, _ := clocked(t, rules)
	take := func() string {
		return s.post("/v1/take", `{`+limits+`,"costs":{"in":100,"out":400},"hold_seconds":60}`).decision(200).Charge
	}
	want := func(want string) {
		t.Helper()
		if got := s.looks(`{` + limits + `}`); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	charge := take()
	want("limits 1/9, limits 100/900, limits 400/600")
	for i, test := range []struct {
		more    string
		changed bool
		charged int64
		want    string
	}{
		{`,"costs":{"out":50}`, true, 50, "limits 1/9, limits 100/900, limits 50/950"},
		{`,"costs":{"out":70}`, false, -1, "limits 1/9, limits 100/900, limits 50/950"},
		{`,"costs":{"in":80,"out":70}`, true, 80, "limits 1/9, limits 80/920, limits 50/950"},
		{`,"costs":{"requests":1}`, true, 1, "limits 1/9, limits 80/920, limits 50/950"},
	} {
		changed, charged := s.post("/v1/settle", withCharge(charge, test.more)).charged()
		if changed != test.changed || charged != test.charged {
			t.Errorf("settlement %d: changed is %v, charged %d", i+1, changed, charged)
		}
		want(test.want)
	}
	for body, field := range map[string]string{
		`{` + limits + `,"costs":{"inn":1}}`: "costs.inn", `{` + limits + `,"costs":{}}`: "costs",
		`{` + limits + `,"costs":{"in":-1}}`:             "costs.in",
		`{"subject":"a","tier":"free","costs":{"in":1}}`: "costs.in",
	} {
		s.mistaken("/v1/take", body, field)
	}
	charge = take()
	for more, field := range map[string]string{
		`,"costs":{"inn":1}`: "costs.inn", `,"cost":1,"costs":{"in":1}`: "costs", ``: "cost",
	} {
		s.mistaken("/v1/settle", withCharge(charge, more), field)
	}
}

// A policy that is asked for by its name, or that matches, says what is estimated, and how long
// that is held. What is reported or booked is no estimate.
func TestHoldOfAPolicy(t *testing.T) {
	const rules = `tiers: [{name: free, identity: ip, limits: 100/1d}]
policies:
  - {name: chat, match: {path: /chat}, budget: ["in: 1000/1d", "out: 1000/1d"], costs: {in: 100, out: 400}, hold: 5m}
  - {name: plain, match: {path: /plain}, budget: ["in: 1000/1d"]}
`
	named, matched := `"subject":"ip:203.0.113.9","policy":"chat"`, `"method":"GET","path":"/chat","peer":"203.0.113.9"`
	const both, less, nothing = "100/900, chat 400/600", "5/995, chat 400/600", "0/1000, chat 0/1000"
	beside := `"subject":"x","policy":"plain","and":[{` + named + `}]`
	for name, test := range map[string]struct {
		path, body string
		hold       float64
		costs      string // of in and out
		later      string // when the hold has expired
	}{
		"by name":                 {"take", named, 300, both, nothing},
		"by name, a cost":         {"take", named + `,"costs":{"in":7}`, 300, "7/993, chat 400/600", nothing},
		"by name, beside another": {"take", beside, 300, both, nothing},
		"by match":                {"take", matched, 300, both, nothing},
		"reported by match":       {"report", matched + `,"costs":{"in":5}`, 0, less, less},
		"reserved by name":        {"reserve", named, 0, both, both},
	} {
		t.Run(name, func(t *testing.T) {
			s, pass := clocked(t, rules)
			d := s.post("/v1/"+test.path, `{`+test.body+`}`).decision(200)
			if d.Hold != test.hold || !strings.HasSuffix(usage(d), "chat "+test.costs) {
				t.Errorf("held for %v s: %s", d.Hold, usage(d))
			}
			pass(10 * time.Minute)
			if got := s.looks(`{` + named + `}`); got != "chat "+test.later {
				t.Errorf("later: %s", got)
			}
		})
	}
}

// A caller whose answer was lost refunds by the request that it sent.
func TestRefundByID(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules)
	const look = `{"subject":"job","limits":["100/1h"]}`
	for i, body := range []string{
		`{"subject":"job","limits":["100/1h"],"cost":40,"id":"one"}`,
		`{"subject":"job","limits":["100/1h"],"cost":40,"hold_seconds":60,"id":"two"}`,
		`{"subject":"job","limits":["100/1h","in: 9/1h"],"costs":{"in":3},"hold_seconds":60,"id":"three"}`,
	} {
		if s.post("/v1/refund", body).changed() {
			t.Errorf("%d: refunded before it was charged", i)
		}
		s.post("/v1/take", body).decision(200)
		// The id of another request, or another subject's, is nothing.
		if s.post("/v1/refund", strings.Replace(body, `"id":"`, `"id":"x`, 1)).changed() ||
			s.post("/v1/refund", strings.Replace(body, "job", "bob", 1)).changed() {
			t.Errorf("%d: refunded by another id or subject", i)
		}
		for k, want := range []bool{true, false} {
			if got := s.post("/v1/refund", body).changed(); got != want {
				t.Errorf("%d: refund %d: changed is %v", i, k+1, got)
			}
		}
		if got := s.looks(look); got != "limits 0/100" {
			t.Errorf("%d: afterwards %s", i, got)
		}
	}
	// With the charge it can be settled as well.
	const body = `{"subject":"job","limits":["100/1h"],"cost":40,"id":"four"}`
	s.post("/v1/take", body).decision(200)
	found := s.post("/v1/peek", body).decision(200).Charge
	if !s.post("/v1/settle", withCharge(found, `,"cost":2`)).changed() {
		t.Errorf("not settled by its id")
	}
	for body, field := range map[string]string{
		`{"subject":"job","limits":["100/1h"]}`: "id",
		withCharge("x", `,"id":"one"`):          "charge",
		withCharge("x", ``):                     "charge",
	} {
		s.mistaken("/v1/refund", body, field)
	}
}

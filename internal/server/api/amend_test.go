package api_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/api"
)

func TestAmend(t *testing.T) {
	const user = `{"method":"GET","path":"/","peer":"203.0.113.9","claims":{"user":"1"},"cost":5}`
	for _, test := range []struct {
		name, take      string
		path, more      string
		changed, second bool
		want            string
	}{
		{"settle a budget", user, "settle", `,"cost":2`, true, false, "free 1/9, free 2/18"},
		{"settle upwards", user, "settle", `,"cost":30`, true, false, "free 1/9, free 30/0"},
		{"settle to nothing", user, "settle", `,"cost":0`, true, false, "free 1/9, free 0/20"},
		{"refund", user, "refund", ``, true, false, "free 0/10, free 0/20"},
		{"no place to extend", user, "extend", ``, false, false, "free 1/9, free 5/15"},
		{"no place to release", user, "release", ``, false, false, "free 1/9, free 5/15"},
		{"settle limits of one's own", `{"subject":"a","limits":["9/1m"],"cost":5}`, "settle", `,"cost":2`, true, false,
			"limits 2/7"},
		{"settle what counts requests", `{"subject":"a","policy":"login"}`, "settle", `,"cost":2`, false,
			false, "login 1/1"},
		{"refund what counts requests", `{"subject":"a","policy":"login"}`, "refund", ``, true, false, "login 0/2"},
		{"refund a booking", `{"subject":"a","limits":["1/1m"]}`, "refund", ``, true, false, "limits 0/1"},
		{"extend", `{"subject":"a","limits":["2/30s concurrency","9/1m"]}`, "extend", ``, true, true, "limits 1/1, limits 1/8"},
		{"release", `{"subject":"a","limits":["2/30s concurrency","9/1m"]}`, "release", ``, true, false, "limits 0/2, limits 1/8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, memory(t), rules)
			body := withCharge(s.post("/v1/take", test.take).decision(200).Charge, test.more)
			for i, want := range []bool{test.changed, test.second} {
				if got := s.post("/v1/"+test.path, body).changed(); got != want {
					t.Errorf("time %d: changed is %v, want %v", i+1, got, want)
				}
			}
			if got := s.looks(test.take); got != test.want {
				t.Errorf("afterwards %s, want %s", got, test.want)
			}
		})
	}
}

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
		s := serve(t, memory(t), rules, func(c *api.Config) {
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
		if cut != (len(seen) == 1) || cut != strings.Contains(log.String(), "level=WARN msg=\"stint: a settlement through the API was not charged wholly") {
			t.Errorf("%s%s: observed %v, logged %s", test.take, test.more, seen, &log)
		}
	}
	s := serve(t, memory(t), rules)
	charge := s.post("/v1/take", window).decision(200).Charge
	if p := s.post("/v1/settle",
		`{"charge":"`+charge+`","cost":1,"max_debt":0}`).problem(400); p.Mistakes[0].Field != "max_debt" {
		t.Errorf("got %+v", p)
	}
}

type observerFunc func(stint.Event)

func (f observerFunc) Observe(_ context.Context, e stint.Event) { f(e) }

func TestAmendFailure(t *testing.T) {
	broken := serve(t, amendFails{memory(t)}, rules)
	charge := broken.post("/v1/take", `{"subject":"a","tier":"free"}`).decision(200).Charge
	if p := broken.post("/v1/refund", withCharge(charge, "")).problem(503); p.Error != "unavailable" {
		t.Errorf("got %+v", p)
	}
}

// A client that kept a charge must not take a place with it that is no longer its own: it could do
// so with any number of them.
func TestExtendTakesNoForgottenPlace(t *testing.T) {
	redis := redistest.Start(t)
	s := serve(t, opened(t, redis, ""), rules)
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

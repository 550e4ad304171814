package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/api"
)

// all is a tier that takes everybody.
const all = "tiers: [{name: all, identity: everyone, limits: 1000/1m}]\n"

// turn is a call of wait in the background.
type turn struct {
	answer chan answer
	leave  context.CancelFunc
	at     time.Time // of the answer
}

func (s *server) waits(body string) *turn {
	ctx, cancel := context.WithCancel(s.t.Context())
	t := &turn{make(chan answer, 1), cancel, time.Time{}}
	go func() {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, request("/v1/wait", body).WithContext(ctx))
		t.at = time.Now()
		t.answer <- answer{w, s.t}
	}()
	return t
}

// inTime runs a test with an API whose time is virtual.
func inTime(t *testing.T, text string, test func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, serve(t, guardtest.Memory(t), text)) })
}

// Callers come in order. One that goes away gives its place back, and those behind it move up.
func TestWaitInLine(t *testing.T) {
	for name, body := range map[string]string{
		"policy": `{"subject":"u","policy":"slow"}`,
		"api":    `{"api":"theirs"}`,
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, all+`
policies: [{name: slow, match: {path: /slow}, limits: 1/10s}]
outbound: {theirs: {limits: 1/10s}}
`, func(t *testing.T, s *server) {
				start := time.Now()
				var line []*turn
				for range 3 {
					line = append(line, s.waits(body))
					synctest.Wait()
				}
				if d := (<-line[0].answer).decision(200); !d.Allowed || d.Charge == "" || *d.RetryAfter != 0 {
					t.Errorf("the first: %+v", d)
				}
				if waiting, _ := s.api.Waits(); waiting != 2 {
					t.Errorf("%d wait, want 2", waiting)
				}
				time.Sleep(2 * time.Second)
				line[1].leave()
				if p := (<-line[1].answer).problem(503); p.Error != "unavailable" { // for one that only half-closed
					t.Errorf("the one that left: %+v", p)
				}
				d := (<-line[2].answer).decision(200)
				// A booking may be used for 20 ms, and counts from their end.
				if took := line[2].at.Sub(start).Round(100 * time.Millisecond); !d.Allowed || took != 10*time.Second {
					t.Errorf("the third was answered after %v, want 10s: %+v", took, d)
				}
				if waiting, _ := s.api.Waits(); waiting != 0 {
					t.Errorf("%d wait, want none", waiting)
				}
				// What was admitted and is not used is given back, so that the next has its turn.
				if !s.post("/v1/refund", withCharge(d.Charge, "")).changed() {
					t.Error("the turn is not given back")
				}
				if d := (<-s.waits(body).answer).decision(200); !d.Allowed || time.Since(start) > 21*time.Second {
					t.Errorf("after the refund: %+v, after %v", d, time.Since(start))
				}
			})
		})
	}
}

// A turn that is too far ahead is denied at once, and the denial takes no place.
func TestWaitTooLong(t *testing.T) {
	inTime(t, all+"outbound: {theirs: {limits: 1/20s}}\n", func(t *testing.T, s *server) {
		start := time.Now()
		const subject = `{"subject":"u","limits":["1/20s"]`
		for name, body := range map[string]string{"limits": subject, "api": `{"api":"theirs"`} {
			(<-s.waits(body + "}").answer).decision(200)
			for range 3 {
				a := <-s.waits(body + `,"max_wait_seconds":15}`).answer
				d := a.decision(429)
				if *d.RetryAfter < 19 || *d.RetryAfter > 20 || a.Header().Get("Retry-After") != "20" {
					t.Errorf("%s: got %+v, Retry-After %s", name, d, a.Header().Get("Retry-After"))
				}
				if len(d.Limits) != 1 || d.Limits[0].Used != 1 || d.Limits[0].Limit != "1/20s" {
					t.Errorf("%s: limits %+v", name, d.Limits)
				}
			}
		}
		// The third in line is more than 30 seconds ahead.
		second := s.waits(subject + "}")
		synctest.Wait()
		if d := (<-s.waits(subject + "}").answer).decision(429); *d.RetryAfter < 39 {
			t.Errorf("the third: %+v", d)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("denials took %v", took)
		}
		(<-second.answer).decision(200)
	})
}

// A pause of an API holds for those who wait already, and is bounded by the configuration.
func TestCooldown(t *testing.T) {
	inTime(t, all+"outbound: {theirs: {limits: 1/1s, max_cooldown: 1m}}\n", func(t *testing.T, s *server) {
		paused := func(body string) (p struct {
			Paused float64 `json:"paused_seconds"`
		}) {
			s.post("/v1/cooldown", body).into(200, &p)
			return p
		}
		(<-s.waits(`{"api":"theirs"}`).answer).decision(200)
		start := time.Now()
		waiting := s.waits(`{"api":"theirs"}`)
		synctest.Wait()
		if p := paused(`{"api":"theirs","for_seconds":5}`); p.Paused != 5 {
			t.Errorf("got %+v", p)
		}
		if (<-waiting.answer).decision(200); waiting.at.Sub(start) < 5*time.Second {
			t.Errorf("a call was made %v after the pause began", waiting.at.Sub(start))
		}
		if p := paused(`{"api":"theirs","for_seconds":31622400}`); p.Paused != 60 {
			t.Errorf("the longest pause: %+v", p)
		}
		if p := paused(`{"api":"theirs","for_seconds":1}`); p.Paused != 60 {
			t.Errorf("a pause in force: %+v", p)
		}
		a := <-s.waits(`{"api":"theirs"}`).answer
		if d := a.decision(429); !d.Banned || *d.RetryAfter != 60 || a.Header().Get("Retry-After") != "60" {
			t.Errorf("during the pause: %+v", d)
		}
	})
}

// A pause stops all processes, so callers need a token for it.
func TestCooldownNeedsToken(t *testing.T) {
	s := serve(t, guardtest.Memory(t), all+"outbound: {theirs: {limits: 1/1s}}\n", func(c *api.Config) { c.Known = false })
	p := s.post("/v1/cooldown", `{"api":"theirs","for_seconds":5}`).problem(403)
	if p.Error != "forbidden" || !strings.Contains(p.Message, "--api-token-file") {
		t.Errorf("got %+v", p)
	}
	(<-s.waits(`{"api":"theirs"}`).answer).decision(200)
}

func TestTooManyWait(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules)
	s.api.Crowd()
	a := s.post("/v1/wait", `{"subject":"u","tier":"free"}`)
	if p := a.problem(503); p.Error != "busy" || a.Header().Get("Retry-After") == "" {
		t.Errorf("got %+v", p)
	}
	if waiting, refused := s.api.Waits(); waiting != 1000 || refused != 1 {
		t.Errorf("%d wait, and %d were refused", waiting, refused)
	}
	s.post("/v1/take", `{"subject":"u","tier":"free"}`).decision(200)
}

// What waits when the server stops is answered at once, and has no place any more.
func TestStop(t *testing.T) {
	inTime(t, all+"outbound: {theirs: {limits: 1/20s}}\n", func(t *testing.T, s *server) {
		for _, body := range []string{`{"api":"theirs"}`, `{"subject":"u","limits":["1/20s"]}`} {
			(<-s.waits(body).answer).decision(200)
		}
		start := time.Now()
		waiting := []*turn{s.waits(`{"api":"theirs"}`), s.waits(`{"subject":"u","limits":["1/20s"]}`)}
		synctest.Wait()
		s.api.EndWaits()
		for _, w := range append(waiting, s.waits(`{"subject":"other","limits":["1/20s"]}`)) {
			a := <-w.answer
			if p := a.problem(503); p.Error != "stopping" || a.Header().Get("Retry-After") == "" {
				t.Errorf("got %+v", p)
			}
		}
		if time.Since(start) > 0 {
			t.Errorf("it took %v", time.Since(start))
		}
		if got := s.looks(`{"subject":"u","limits":["1/20s"]}`); got != "limits 1/0" {
			t.Errorf("got %s, want the one that was used", got)
		}
	})
}

func TestWaitMistakes(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules+"outbound: {igdb: {limits: 4/1s}}\n")
	const apiOnly = "conflicts with api, because the configuration sets the limits of an API; only max_wait_seconds can be added"
	for _, test := range []struct {
		path, body string
		want       mistake
	}{
		{"wait", `{"api":"igbd"}`, mistake{Field: "api", Message: `there is no API "igbd" (did you mean "igdb"?); known: igdb`}},
		{"wait", `{"api":""}`, mistake{Field: "api", Message: "has 0 bytes; want 1 to 64"}},
		{"wait", `{"api":"igdb","subject":"u"}`, mistake{Field: "subject", Message: apiOnly}},
		{"wait", `{"api":"igdb","max_wait_seconds":31}`, mistake{Field: "max_wait_seconds",
			Message: "is 31; want a number of seconds from 0.000001 to 30"}},
		{"take", `{"api":"igdb"}`, mistake{Field: "api"}},
		{"wait", `{"subject":"u","tier":"free","id":"x"}`, mistake{Field: "id"}},
		{"cooldown", `{}`, mistake{Field: "api", Message: "is missing"}},
		{"cooldown", `{"api":"igdb","for_seconds":0}`, mistake{Field: "for_seconds",
			Message: "is 0; want a number of seconds from 0.000001 to 31622400"}},
		{"cooldown", `{"api":"none","for_seconds":1}`, mistake{Field: "api",
			Message: `there is no API "none"; known: igdb`}},
	} {
		p := s.post("/v1/"+test.path, test.body).problem(http.StatusBadRequest)
		if !slices.ContainsFunc(p.Mistakes, func(m mistake) bool {
			return m.Field == test.want.Field && (test.want.Message == "" || m.Message == test.want.Message)
		}) {
			t.Errorf("%s %s:\ngot  %+v\nwant %+v", test.path, test.body, p.Mistakes, test.want)
		}
	}
	if waiting, _ := s.api.Waits(); waiting != 0 {
		t.Errorf("%d wait", waiting)
	}
}

package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/api"
)

// Every mistake is told at once, with its place and what would be right.
func TestMistakes(t *testing.T) {
	members := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"n%d":"v"`, i))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	for _, test := range []struct {
		path, body string
		want       []string // field: a part of the message
	}{
		{"take", ``, []string{": is empty"}},
		{"take", "\xff", []string{": is not JSON"}},
		{"take", `{"subject":"` + "\xff" + `","tier":"free"}`, []string{": is not UTF-8"}},
		{"take", `{"subject":"\ud800","tier":"free"}`, []string{"subject: has an invalid character"}},
		{"take", `{"subject":"x","tier":"free",}`, []string{": is not JSON"}},
		{"take", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), []string{": exceeded max depth"}},
		{"take", `{"x":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`, []string{"x: unknown field"}},
		{"take", `null`, []string{": is null; want an object"}},
		{"take", `{}`, []string{": has no members; want method and path, or subject and policy"}},
		{"take", `{"cost":1}`, []string{"method: is missing", "path: is missing"}},
		{"take", `{"subject":"a","polcy":"login","Cost":1}`,
			[]string{`polcy: unknown field (did you mean "policy"?)`, `Cost: unknown field (did you mean "cost"?)`,
				": want a policy, a tier, or limits"}},
		{"take", `{"subject":"a","subject":"b","tier":"free"}`, []string{"subject: duplicate field"}},
		{"take", `{"subject":"","policy":7,"tier":[],"limits":{},"cost":"1","id":true}`, []string{
			"subject: has 0 bytes; want 1 to 1024", "policy: is a number; want a string",
			"tier: is an array; want a string",
			"limits: is an object; want an array", "cost: is a string; want a whole number", "id: is true; want a string",
			": want a policy, a tier, or limits"}},
		{"take", `{"subject":"a","tier":"free","cost":-1}`, []string{"cost: is -1; want a whole number from 0 to 9007199254740992"}},
		{"take", `{"subject":"a","tier":"free","cost":1.5}`, []string{"cost: is 1.5; want a whole number"}},
		{"take", `{"subject":"a","tier":"free","cost":9` + strings.Repeat("9", 5000) + `}`, []string{"cost: is 9999"}},
		{"take", `{"subject":"a","policy":"login","cost":5}`, []string{"cost: no limit here counts costs"}},
		{"take", `{"subject":"a","policy":"logn"}`, []string{`policy: there is no policy "logn" (did you mean "login"?)`}},
		{"take", `{"subject":"a","policy":"search"}`, []string{`tier: is missing: the limits of the policy "search" differ by tier; want one of staff, pro, free, anonymous`}},
		{"take", `{"subject":"a","limits":[]}`, []string{"limits: has no limits"}},
		{"take", `{"subject":"a","limits":["1/1m","ten a minute",5]}`, []string{"limits[1]: limit", "limits[2]: is a number"}},
		{"take", `{"subject":"a","limits":["1/1m","2/1m"]}`, []string{": cannot be decided: Limits[1] (2/1m) has the same name"}},
		{"take", `{"subject":"a","limits":[` + strings.Repeat(`"1/1m",`, 16) + `"1/1m"]}`,
			[]string{"limits: has 17 limits; want at most 16"}},
		{"take", `{"subject":"a","tier":"free","method":"GET","peer":"::1"}`, []string{"method: conflicts with a subject", "peer: conflicts with a subject"}},
		{"take", `{"method":"G T","path":"login","peer":"nobody","host":"","headers":{"a b":"c","X-A":1,"x-a":"d","X-B":[1]},"claims":{"user":7}}`, []string{
			`method: is "G T"`, "path: is not a path", `peer: is "nobody"; want an address`, "host: has 0 bytes",
			"headers.a b: is not the name of a header",
			"headers.X-A: is a number", "headers.x-a: duplicate header field", "headers.X-B: is an array; want a string",
			"claims.user: is a number"}},
		{"take", `{"method":"GET","path":"/","peer":"::1","headers":` + members(101) + `,"claims":` + members(33) + `}`,
			[]string{"headers: has 101 headers; want at most 100", "claims: has 33 claims; want at most 32"}},
		{"take", `{"method":"GET","path":"/%zz","peer":"::1"}`, []string{"path: is not a path"}},
		{"take", `{"subject":"a","tier":"free","mode":"peek"}`, []string{"mode: unknown field"}},
		{"take", `{"subject":"a","tier":"free","max_wait_seconds":5}`, []string{"max_wait_seconds: unknown field"}},
		{"reserve", `{"subject":"a","tier":"free","max_wait_seconds":0}`,
			[]string{"max_wait_seconds: is 0; want a number of seconds from 0.000001 to 31622400"}},
		{"reserve", `{"subject":"a","policy":"slots"}`, []string{": cannot be decided: a concurrency limit cannot be reserved"}},
		{"take", `{"subject":"a","limits":["1/1m"],"claims":{"rpm":"5"}}`, []string{"claims: have no effect on your own limits"}},
		{"take", `{"subject":"a","policy":"login","and":[]}`, []string{"and: is empty; want 1 to 7 subjects"}},
		{"take", `{"subject":"a","policy":"login","and":[{},{"policy":"login"},{"subject":"b"},{"subject":"b","tier":"free","cost":2}]}`,
			[]string{"and[0]: has no members; want subject and policy", "and[1].subject: is missing",
				"and[2]: want a policy, a tier, or limits", "and[3].cost: unknown field"}},
		{"peek", `{"subject":"a","policy":"login","and":[{"subject":"b","policy":"logn"},{"subject":"b","policy":"search"}]}`,
			[]string{`and[0].policy: there is no policy "logn"`, "and[1].tier: is missing"}},
		{"take", `{"subject":"a","policy":"login","and":[{"subject":"a","policy":"login"}]}`,
			[]string{": cannot be decided: Claims[1] repeats a limit of an earlier claim"}},
		{"take", `{"subject":"a","policy":"login","and":[` + strings.Repeat(`{"subject":"b","policy":"login"},`, 7) +
			`{"subject":"b","policy":"login"}]}`, []string{"and: has 8 subjects; want at most 7"}},
		{"take", `{"method":"GET","path":"/","peer":"::1","and":[{"subject":"b","policy":"login"}]}`,
			[]string{"method: conflicts with a subject", "path: conflicts with a subject",
				"peer: conflicts with a subject", "subject: is missing", ": want a policy, a tier, or limits"}},
		{"batch", `{}`, []string{"requests: is missing or empty; want 1 to 100 requests"}},
		{"batch", `{"requests":[{"subject":"a","tier":"free"},{"subject":"a","tier":"fre"},7,{"subject":"a","tier":"free","mode":"pek"},{"subject":"a","tier":"free","max_wait_seconds":5}]}`, []string{
			`requests[1].tier: there is no tier "fre"`, "requests[2]: is a number; want an object", `requests[3].mode: is "pek"; want take, peek, reserve`,
			"requests[4].max_wait_seconds: works only with the mode reserve"}},
		{"batch", `{"requests":[` + strings.Repeat(`{"subject":"a","tier":"free"},`, 100) + `{}]}`,
			[]string{"requests: has 101 requests; want at most 100"}},
		{"settle", `{}`, []string{"charge: is missing", "cost: is missing"}},
		{"release", `{"charge":"` + strings.Repeat("A", 64) + `","cost":1}`,
			[]string{"charge: was not made by a process that shares this store", "cost: unknown field"}},
		{"refund", `{"charge":"` + strings.Repeat("A", 64) + `","cost":1}`, []string{"charge: must be the only member"}},
		{"batch", `{"requests":[{"subject":"a","tier":"free","hold_seconds":5,"mode":"reserve"}]}`,
			[]string{"requests[0].hold_seconds: does not work with the mode reserve"}},
		{"take", `{"subject":"a","tier":"free","hold_seconds":86401}`, []string{"hold_seconds: is 86401; want a number of seconds"}},
	} {
		store := guardtest.Memory(t)
		p := serve(t, store, rules).post("/v1/"+test.path, test.body).problem(http.StatusBadRequest)
		var got []string
		for _, m := range p.Mistakes {
			got = append(got, m.Field+": "+m.Message)
		}
		ok := len(got) == len(test.want) && p.Error == "invalid"
		for i := 0; ok && i < len(got); i++ {
			field, part, _ := strings.Cut(test.want[i], ": ")
			ok = p.Mistakes[i].Field == field && strings.Contains(p.Mistakes[i].Message, part)
		}
		if !ok {
			t.Errorf("%s %.200s\ngot  %q\nwant %q", test.path, test.body, got, test.want)
		}
		if store.Stats().Subjects != 0 {
			t.Errorf("%s %.200s: something was charged", test.path, test.body)
		}
	}
}

// Whatever is sent is answered: with mistakes or with a decision, never with a panic, and never
// half read.
func FuzzTake(f *testing.F) {
	for _, body := range []string{
		`{"method":"POST","path":"/login","peer":"203.0.113.9","claims":{"user":"42"},"headers":{"X-Api-Key":"k"},"host":"a:1"}`,
		`{"subject":"user:42","policy":"login","tier":"all","scope":"s","cost":1,"id":"x","max_wait_seconds":5,"mode":"peek"}`,
		`{"subject":"user:42","limits":["100/1m burst 3x","5/1s bucket"],"cost":5}`,
		`{"requests":[{"subject":"a","tier":"all"},{"mode":"reserve","subject":"a","tier":"all"}]}`,
		`{"charge":"AAAA","cost":5}`, `{"a":{"b":[[{"c":null}]]},"a":true,"subject":"\ud800"}`, `[`, ``, `{"cost":1e9}`,
	} {
		f.Add(body)
	}
	s := serve(f, guardtest.Memory(f), "tiers: [{name: all, identity: ip, limits: 5/1m, budget: 9/1h}]\npolicies: [{name: login, match: {path: /login}, limits: 2/1m}]")
	s.api.EndWaits() // no body waits
	f.Fuzz(func(t *testing.T, body string) {
		for path := range specification(t).paths() {
			if specification(t).method(path) != "post" {
				continue
			}
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, request(path, body))
			if !slices.Contains([]int{200, 400, 413, 429}, w.Code) && (w.Code != 503 || path != "/v1/wait") {
				t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: the answer is not JSON: %s", path, w.Body)
			}
			if w.Code == 200 && !json.Valid([]byte(body)) {
				t.Errorf("%s: accepted what is not JSON", path)
			}
		}
	})
}

// However much is wrong, the answer stays readable.
func TestManyMistakes(t *testing.T) {
	var members []string
	for i := range 5000 {
		members = append(members, fmt.Sprintf(`"%s%d":1`, strings.Repeat("x", i%300), i))
	}
	a := serve(t, guardtest.Memory(t), rules).post("/v1/batch", `{"requests":[{`+strings.Join(members, ",")+`}]}`)
	if p := a.problem(http.StatusBadRequest); len(p.Mistakes) != 50 || a.Body.Len() > 20_000 {
		t.Errorf("%d mistakes in %d bytes", len(p.Mistakes), a.Body.Len())
	}
}

func TestAdHocIsOffUnlessAskedFor(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules, func(c *api.Config) { c.AdHoc = false })
	p := s.post("/v1/take", `{"subject":"a","limits":["1/1m"]}`).problem(http.StatusBadRequest)
	if !slices.ContainsFunc(p.Mistakes, func(m mistake) bool {
		return m.Field == "limits" && strings.Contains(m.Message, "does not accept limits from callers")
	}) {
		t.Errorf("got %+v", p)
	}
}

// A caller that asks for it gets denials with the status 200, and all else as it is.
func TestStatusOfDenials(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules)
	const body = `{"subject":"a","limits":["0/1m"]}`
	for path, want := range map[string]int{
		"/v1/take": 429, "/v1/take?": 429, "/v1/take?status=200": 200, "/v1/reserve?status=200": 200,
		"/v1/peek": 200, "/v1/peek?status=200": 200,
	} {
		a := s.post(path, body)
		if d := a.decision(want); d.Allowed || d.Denial == "" {
			t.Errorf("%s: got %+v", path, d)
		}
	}
	for query, want := range map[string]mistake{
		"status=204":            {Field: "?status", Message: `is "204"; want 200, to give denials this status, or leave it out`},
		"status=200&status=200": {Field: "?status", Message: `is "200, 200"; want 200, to give denials this status, or leave it out`},
		"staus=200":             {Field: "?staus", Message: `unknown field (did you mean "status"?); want status`},
		"%zz":                   {Field: "?", Message: "the URL parameters are malformed; want none, or status=200"},
	} {
		p := s.post("/v1/take?"+query, body).problem(http.StatusBadRequest)
		if !slices.Equal(p.Mistakes, []mistake{want}) {
			t.Errorf("%s: got %+v, want %+v", query, p.Mistakes, want)
		}
	}
	var many struct{ Results []struct{ Status int } }
	s.post("/v1/batch", `{"requests":[{"subject":"a","limits":["0/1m"],"mode":"peek"},{"subject":"a","limits":["0/1m"]}]}`).
		loosely(&many)
	if len(many.Results) != 2 || many.Results[0].Status != 200 || many.Results[1].Status != 429 {
		t.Errorf("got %+v", many)
	}
	broken := serve(t, failing, rules)
	if p := broken.post("/v1/take?status=200", `{"subject":"a","tier":"free"}`).problem(503); p.Error != "unavailable" {
		t.Errorf("got %+v", p)
	}
}

// The address is required where a tier, a policy or a match needs it, and nowhere else.
func TestPeerWhereItCounts(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules+"  - {name: office, match: {path: /office, network: 192.0.2.0/24}, limits: 1/1m}\n")
	const user = `"claims":{"user":"1"}`
	for _, body := range []string{
		`{"method":"GET","path":"/",` + user + `}`,
		`{"method":"GET","path":"/search",` + user + `}`,
		`{"method":"GET","path":"/healthz"}`,
		`{"method":"GET","path":"/","peer":"203.0.113.9"}`,
		`{"method":"POST","path":"/login","peer":"203.0.113.9",` + user + `}`,
	} {
		s.post("/v1/take", body).decision(http.StatusOK)
	}
	for _, body := range []string{
		`{"method":"GET","path":"/"}`,
		`{"method":"POST","path":"/login",` + user + `}`,
		`{"method":"GET","path":"/office",` + user + `}`,
	} {
		p := s.post("/v1/take", body).problem(http.StatusBadRequest)
		if len(p.Mistakes) != 1 || p.Mistakes[0].Field != "peer" {
			t.Errorf("%s: got %+v", body, p.Mistakes)
		}
	}
}

// A header or a claim that is null is absent. The document's schemas do not take it.
func TestNullIsAbsent(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, request("/v1/take",
		`{"method":"GET","path":"/","peer":"203.0.113.9","headers":{"X-A":null,"X-B":"b"},"claims":{"user":null,"plan":null}}`))
	if d := (answer{w, t}).decision(http.StatusOK); d.Tier != "anonymous" {
		t.Errorf("got %+v", d)
	}
}

package api_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// A member that is null is absent, at every depth. What is required is missing then, what is
// unknown stays unknown, and an element of a list is not a member.
func TestNullIsAbsent(t *testing.T) {
	s := serve(t, memory(t), rules)
	const all = `"host":null,"headers":null,"claims":null,"subject":null,"scope":null,"policy":null,"tier":null,` +
		`"limits":null,"and":null,"cost":null,"costs":null,"id":null,"hold_seconds":null`
	for _, body := range []string{
		`{"method":"GET","path":"/","peer":"203.0.113.9",` + all + `}`,
		`{"method":"GET","path":"/","peer":"203.0.113.9","headers":{"X-A":null,"X-B":"b"},"claims":{"user":null,"plan":null}}`,
		`{"method":null,"path":null,"peer":null,"subject":"ip:203.0.113.9","tier":"anonymous","policy":null}`,
	} {
		if d := nulls(s, "/v1/take", body).decision(http.StatusOK); d.Tier != "anonymous" {
			t.Errorf("%s: got %+v", body, d)
		}
	}
	batch := s.post("/v1/batch", `{"requests":[{"subject":"a","tier":"free","mode":null,"max_wait_seconds":null}]}`)
	if batch.Code != http.StatusOK {
		t.Errorf("got %s", batch.Body)
	}
	charge := s.post("/v1/take", `{"subject":"b","tier":"free","cost":3}`).decision(http.StatusOK).Charge
	settled := s.post("/v1/settle", withCharge(charge, `,"cost":2,"costs":null,"max_debt":null`))
	if ok, cost := settled.charged(); !ok || cost != 2 {
		t.Errorf("settled %v to %d", ok, cost)
	}
	for body, want := range map[string]mistake{
		`{"subject":null,"tier":"free"}`:                       {Field: "subject", Message: "is missing"},
		`{"subject":"a","tier":"free","suject":null}`:          {Field: "suject"},
		`{"subject":"a","tier":"free","id":null,"id":"x"}`:     {Field: "id", Message: "is there twice; want it once"},
		`{"subject":"a","limits":[null]}`:                      {Field: "limits[0]", Message: "is null; want a text"},
		`{"subject":"a","tier":"free","and":[null]}`:           {Field: "and[0]", Message: "is null; want an object"},
		`{"subject":"a","tier":"free","costs":{"cost":null}}`:  {Field: "costs"},
		`{"subject":"a","tier":"free","cost":{"a":[null,{}]}}`: {Field: "cost", Message: "is an object; want a whole number"},
		`null`: {Message: "is null; want an object"},
	} {
		p := s.post("/v1/take", body).problem(http.StatusBadRequest)
		got := p.Mistakes[0]
		if got.Field != want.Field || want.Message != "" && got.Message != want.Message {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
	}
}

// nulls posts a body that the document's schemas do not take: they do not list members of other
// forms, nor null in headers and claims.
func nulls(s *server, path, body string) answer {
	s.t.Helper()
	r, w := request(path, body), httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return answer{w, s.t}
}

// A caller that asks for it gets denials with the status 200, and all else as it is.
func TestStatusOfDenials(t *testing.T) {
	s := serve(t, memory(t), rules)
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
		"status=204":            {Field: "?status", Message: `is "204"; want 200, so that a denial has this status, or leave it out`},
		"status=200&status=200": {Field: "?status", Message: `is "200, 200"; want 200, so that a denial has this status, or leave it out`},
		"staus=200":             {Field: "?staus", Message: `is not known (did you mean "status"?); want status`},
		"%zz":                   {Field: "?", Message: "the parameters of the URL cannot be read; want none, or status=200"},
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
	broken := serve(t, failing{}, rules)
	if p := broken.post("/v1/take?status=200", `{"subject":"a","tier":"free"}`).problem(503); p.Error != "unavailable" {
		t.Errorf("got %+v", p)
	}
}

// The address is required where a tier, a policy or a match needs it, and nowhere else.
func TestPeerWhereItCounts(t *testing.T) {
	s := serve(t, memory(t), rules+"  - {name: office, match: {path: /office, network: 192.0.2.0/24}, limits: 1/1m}\n")
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

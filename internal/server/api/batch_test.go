package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
)

func TestBatch(t *testing.T) {
	const body = `{"requests":[
		{"subject":"a","limits":["2/1m"],"cost":2},
		{"method":"GET","path":"/healthz","peer":"203.0.113.9"},
		{"subject":"b","limits":["0/1m"]},
		{"subject":"c","tier":"free","mode":"peek"},
		{"subject":"d","limits":["1/1m"],"mode":"reserve","max_wait_seconds":1},
		{"method":"GET","path":"/trial","peer":"203.0.113.9"}
	]}`
	want := "200 limits 2/0; 200 ; 429 limits 0/0; 200 free 0/10, free 0/20; 200 limits 1/0; 200 anonymous 1/2"
	s := serve(t, memory(t), rules)
	var got batch
	s.post("/v1/batch", body).into(http.StatusOK, &got)
	var texts []string
	for _, r := range got.Results {
		texts = append(texts, fmt.Sprint(r.Status, " ", usage(*r.Decision)))
	}
	if text := strings.Join(texts, "; "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if !s.post("/v1/refund", `{"charge":"`+got.Results[0].Decision.Charge+`"}`).changed() {
		t.Error("a charge of a batch is not refunded")
	}
}

// Requests of a batch are decided in no order, and never more of them allowed than there is room
// for.
func TestBatchOnOneSubject(t *testing.T) {
	s := serve(t, memory(t), rules)
	var requests []string
	for i := range 100 {
		requests = append(requests, fmt.Sprintf(`{"subject":"s%d","limits":["10/1m"]}`, i%5))
	}
	var got batch
	s.post("/v1/batch", `{"requests":[`+strings.Join(requests, ",")+`]}`).into(http.StatusOK, &got)
	allowed := map[int]int{}
	for i, r := range got.Results {
		switch r.Status {
		case http.StatusOK:
			allowed[i%5]++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("request %d: got %d", i, r.Status)
		}
	}
	for i := range 5 {
		if allowed[i] != 10 {
			t.Errorf("subject %d: got %d allowed, want 10", i, allowed[i])
		}
	}
}

// What fails is told for each request; a mistake that only the store knows too.
func TestBatchFailures(t *testing.T) {
	s := serve(t, failing{}, rules)
	var got batch
	s.post("/v1/batch", `{"requests":[{"subject":"a","tier":"free"},{"method":"GET","path":"/healthz","peer":"::1"}]}`).into(http.StatusOK, &got)
	if got.Results[0].Status != 503 || got.Results[0].Problem.Error != "unavailable" || got.Results[1].Status != 200 {
		t.Errorf("got %+v", got)
	}
	s = serve(t, refusingStore{}, rules)
	s.post("/v1/batch", `{"requests":[{"subject":"a","tier":"free"}]}`).into(http.StatusOK, &got)
	if r := got.Results[0]; r.Status != 400 || r.Problem.Mistakes[0].Message != "cannot be decided: not here" {
		t.Errorf("got %+v", got)
	}
}

// refusingStore finds every request invalid.
type refusingStore struct{ stint.Store }

func (refusingStore) Take(context.Context, stint.Request) (stint.Decision, error) {
	return stint.Decision{}, &stint.InvalidError{Err: fmt.Errorf("not here")}
}

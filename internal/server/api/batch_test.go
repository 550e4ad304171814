package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
)

// What fails is told for each request; a mistake that only the store knows too.
func TestBatchFailures(t *testing.T) {
	s := serve(t, failing{}, rules)
	var got batch
	s.post("/v1/batch", `{"requests":[{"subject":"a","tier":"free"},{"method":"GET","path":"/healthz","peer":"::1"}]}`).into(http.StatusOK, &got)
	if got.Results[0].Status != 503 || got.Results[0].Problem.Error != "unavailable" || got.Results[1].Status != 200 {
		t.Errorf("got %+v", got)
	}
	const one = `{"subject":"a","tier":"free","mode":"peek"}`
	s = serve(t, memory(t), rules)
	s.post("/v1/batch", `{"requests":[`+one+strings.Repeat(","+one, 99)+`]}`).into(http.StatusOK, &got) // as many as may be
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

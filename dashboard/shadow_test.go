package dashboard

import (
	"net/http"
	"testing"

	"github.com/stint-limiter/stint/observe"
)

type shadowAnswer struct{ Reports []observe.ShadowReport }

// TestShadow: the report is of the rules in force, whether they judged anything or not, and its
// refs lead to subjects.
func TestShadow(t *testing.T) {
	r := newRig(t)
	for range 4 {
		r.ask("mallory", "/trial") // three are within the tier's limit, two of which are over that in shadow
	}
	r.ask("alice", "/trial")
	r.ask("alice", "/")
	var got shadowAnswer
	r.get("/api/shadow?n=1", &got)
	if len(got.Reports) != 2 || got.Reports[0].Tier != "users" || got.Reports[1].Tier != "anyone" {
		t.Fatalf("got %+v, want those of two tiers", got.Reports)
	}
	trial := got.Reports[0]
	want := observe.ShadowCounts{Requests: 4, Denied: 2, Subjects: 2, Hit: 1}
	if trial.Policy != "trial" || trial.Limits[0] != "1/1m" || trial.Total != want || trial.Recent != want ||
		len(trial.Top) != 1 {
		t.Fatalf("got %+v, want %+v", trial, want)
	}
	if top := trial.Top[0]; top.Subject != r.short("user:mallory") || top.Denied != 2 {
		t.Errorf("the first of those it would hit is %+v", top)
	}
	var subject struct{ Subject string }
	r.get("/api/subject?ref="+trial.Top[0].Ref, &subject, asAlice)
	if subject.Subject != "user:mallory" {
		t.Errorf("its ref leads to %q", subject.Subject)
	}
	for _, n := range []string{"0", "101", "many"} {
		if response, text := r.call(http.MethodGet, "/api/shadow?n="+n,
			""); response.StatusCode != http.StatusBadRequest || problemOf(t, text).Error != "invalid" {
			t.Errorf("n=%s: got %d, %s", n, response.StatusCode, text)
		}
	}
}

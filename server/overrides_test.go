package server

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/overrides"
)

// TestOverrides: an operator raises a customer. What is used stays, the audit log has who, until when
// and why, and an export can be imported again. Package e2e shows that other servers apply it.
func TestOverrides(t *testing.T) {
	r := start(t, withOperator(t, everywhere(t)))
	takes := func(statuses ...int) {
		t.Helper()
		for i, want := range statuses {
			if status, body := r.take(""); status != want {
				t.Errorf("%d: got %d, %s; want %d", i+1, status, body, want)
			}
		}
	}
	takes(200, 200, 200, 429)
	alice, who := r.operate(operator), control.Target{Subject: "ip:192.0.2.1"}
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	set := control.SetRequest{Target: who, Policy: "all", Limits: []stint.Limit{stint.PerHour(5)}, Until: until,
		Why: "TICKET-7"}
	if named, err := alice.SetOverride(t.Context(), set); err != nil || named.Subject != who.Subject {
		t.Fatalf("got %+v, %v", named, err)
	}
	takes(200, 200, 429)
	subject, err := alice.Subject(t.Context(), who)
	if err != nil || len(subject.Overrides) != 1 || subject.Overrides[0].By != "alice" ||
		!subject.Overrides[0].Until.Equal(until) || subject.Limits[0].Limit != "5/1h" ||
		subject.Limits[0].Configured != "3/1h" || subject.Limits[0].Used != 5 {
		t.Errorf("got %+v, %v", subject, err)
	}
	if want := `msg=audit who=alice what="limits set all 5/1h until ` + until.UTC().Format(time.RFC3339) +
		`: TICKET-7"`; !strings.Contains(r.log.String(), want) {
		t.Errorf("the audit log does not have %s", want)
	}

	var exported []overrides.Override
	err = alice.ExportOverrides(t.Context(), func(line []byte) error {
		return overrides.Read(strings.NewReader(string(line)), func(o overrides.Override) error {
			exported = append(exported, o)
			return nil
		})
	})
	if err != nil || len(exported) != 1 || exported[0].Subject != who.Subject {
		t.Errorf("exported %+v, %v", exported, err)
	}
	if _, err := alice.UnsetOverride(t.Context(), control.UnsetRequest{Target: who, Policy: "all"}); err != nil {
		t.Error(err)
	}
	if list, err := alice.Overrides(t.Context(), "", 10); err != nil || list.Total != 0 {
		t.Errorf("got %+v, %v", list, err)
	}
	if err := alice.ImportOverrides(t.Context(), exported); err != nil {
		t.Error(err)
	}
	for prefix, n := range map[string]int{"ip:": 1, "user:": 0} {
		if list, err := alice.Overrides(t.Context(), prefix, 10); err != nil || list.Total != n || len(list.Overrides) != n {
			t.Errorf("%s: got %+v, %v", prefix, list, err)
		}
	}
}

// TestOverridesAreRefused to those who may not operate, and if they would change nothing.
func TestOverridesAreRefused(t *testing.T) {
	const reader, app = "token-of-a-reader-only", "token-of-an-application"
	c := everywhere(t)
	c.AdminTokens, c.APITokens = filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "api")
	put(t, c.AdminTokens, "alice: "+operator+"\nbob (read): "+reader+"\n")
	put(t, c.APITokens, "shop: "+app+"\n")
	r := start(t, c)
	set := control.SetRequest{Target: control.Target{Subject: "ip:192.0.2.1"}, Policy: "all",
		Limits: []stint.Limit{stint.PerHour(50)}}
	refused := func(token string, a control.SetRequest, status int, text string) {
		t.Helper()
		_, err := r.operate(token).SetOverride(t.Context(), a)
		if e, ok := err.(*control.RefusedError); !ok || e.Status != status || !strings.Contains(e.Message, text) {
			t.Errorf("got %v, want %d, %s", err, status, text)
		}
	}
	refused(reader, set, http.StatusForbidden, "role")
	refused(app, set, http.StatusUnauthorized, "token")
	if err := r.operate(reader).ExportOverrides(t.Context(), func([]byte) error { return nil }); err == nil {
		t.Error("a reader may export names")
	}
	for prefix, ok := range map[string]bool{"ip:": true, "ip:192.0.2.1": false, "user:mallory": false} {
		_, err := r.operate(reader).Overrides(t.Context(), prefix, 10)
		if e, refused := err.(*control.RefusedError); refused == ok || refused && e.Status != http.StatusForbidden {
			t.Errorf("a reader searches for %s: got %v", prefix, err)
		}
		if _, err := r.operate(operator).Overrides(t.Context(), prefix, 10); err != nil {
			t.Errorf("an operator searches for %s: %v", prefix, err)
		}
	}
	with := func(change func(*control.SetRequest)) control.SetRequest {
		a := set
		change(&a)
		return a
	}
	for text, a := range map[string]control.SetRequest{
		`there is no policy or tier "al"; want all`: with(func(a *control.SetRequest) { a.Policy = "al" }),
		"all has no limit like 50/1m; want the name, algorithm and window of one of 3/1h": with(
			func(a *control.SetRequest) { a.Limits = []stint.Limit{stint.PerMinute(50)} }),
		"all has 3/1h, and the larger applies; want more": with(
			func(a *control.SetRequest) { a.Limits = []stint.Limit{stint.PerHour(2)} }),
		"which is past": with(func(a *control.SetRequest) { a.Until = time.Now().Add(-time.Minute) }),
		"limits no subjects like": with(func(a *control.SetRequest) {
			a.Subject = "envoy:test:user=7"
		}),
	} {
		refused(operator, a, http.StatusBadRequest, text)
	}
	unset := control.UnsetRequest{Target: set.Target, Policy: "all"}
	if _, err := r.operate(operator).UnsetOverride(t.Context(), unset); err == nil ||
		!strings.Contains(err.Error(), "has no override") {
		t.Errorf("got %v", err)
	}
	lower := with(func(a *control.SetRequest) { a.Limits, a.Lower = []stint.Limit{stint.PerHour(0)}, true })
	if _, err := r.operate(operator).SetOverride(t.Context(), lower); err != nil {
		t.Error(err)
	}
	if status, _ := r.take(app); status != http.StatusTooManyRequests {
		t.Errorf("lowered to nothing: got %d", status)
	}
}

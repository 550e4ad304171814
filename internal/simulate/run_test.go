package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

const (
	ann = "192.0.2.1"
	bob = "192.0.2.2"
)

func TestCounts(t *testing.T) {
	set := parse(t, `
tiers:
  - {name: staff, identity: user, limits: unlimited}
  - {name: anyone, identity: ip, limits: 3/1m}
policies:
  - {name: health, match: {path: /health}, skip: true}
  - {name: search, match: {path: /search}, limits: 1/1m}
`)
	log := new(records).
		add(5, ann, 0, time.Second).                               // 3 allowed
		add(2, bob, 10*time.Second, time.Second, path("/search")). // 1 allowed, the other denied by the policy
		add(1, bob, 20*time.Second, 0, method("POST")).
		add(4, bob, 30*time.Second, time.Second, path("/health")).
		add(2, bob, 40*time.Second, time.Second, user("root"), method("BREW"))
	got := replay(t, log, simulate.Options{Set: set})
	o := got.Outcome

	wantCount(t, "total", o.Total, simulate.Count{Requests: 14, Allowed: 11, Denied: 3, Exempt: 4})
	wantNamed(t, "tiers", o.Tiers, "staff 2/0, anyone 5/3")
	wantNamed(t, "routes", o.Routes, "search 1/1,  6/2")
	wantNamed(t, "exempt", o.Exempt, "health 4/0")
	if first := o.Methods[0]; len(o.Methods) != 4 || first.Method != "GET" || first.Route != "" || first.Requests != 5 {
		t.Errorf("methods: got %+v", o.Methods)
	}
	var policies []string
	for _, p := range o.Policies {
		policies = append(policies, words(p.Policy, p.Tier, p.Requests, p.Denied))
	}
	if got, want := strings.Join(policies, ", "), " anyone 8 2, search staff 0 0, search anyone 2 1"; got != want {
		t.Errorf("policies: got %q, want %q", got, want)
	}
	if s := o.Subjects; s.Seen != 2 || s.Hit != 2 || s.Others.Requests != 0 || s.Forgotten != 0 {
		t.Errorf("subjects: got %+v", s)
	}
	if l := got.Log; l.Requests != 14 || l.Lines != 14 || !l.First.Equal(start) ||
		!l.Last.Equal(after(41*time.Second)) {
		t.Errorf("log: got %+v", l)
	}
}

func TestHit(t *testing.T) {
	set := parse(t, "tiers: [{name: anyone, identity: ip, limits: [2/1m, 4/1h]}]")
	log := new(records).
		add(5, ann, 0, time.Second). // two allowed; denied from second 2 to 4
		// two more; the third is denied by both limits, by the hour's for longer
		add(3, ann, 2*time.Minute, time.Second).
		add(2, ann, 10*time.Minute, time.Minute). // denied for the hour
		add(1, bob, 20*time.Minute, 0)
	o := replay(t, log, simulate.Options{Set: set}).Outcome
	if len(o.Hit) != 1 {
		t.Fatalf("hit: got %+v, want one", o.Hit)
	}
	got := o.Hit[0]
	want := simulate.Hit{
		Subject: "ip:" + ann, Requests: 10, Denied: 6,
		First: after(2 * time.Second), Last: after(11 * time.Minute),
		Longest: simulate.Duration(9*time.Minute - 2*time.Second), LongestAt: after(2*time.Minute + 2*time.Second),
		WorstWait: simulate.Duration(time.Hour - 2*time.Minute - 2*time.Second),
		By: []simulate.HitBy{
			{Tier: "anyone", Limit: stint.PerMinute(2), Denied: 3},
			{Tier: "anyone", Limit: stint.PerHour(4), Denied: 3},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}

	minute, hour := o.Limits[0], o.Limits[1]
	if minute.Subjects != 2 || minute.Hit != 1 || hour.Hit != 1 {
		t.Errorf("got %d subjects and %d, %d hit; want 2, and 1 each", minute.Subjects, minute.Hit, hour.Hit)
	}
	if h := minute.Headroom; h.Subjects != 1 || h.P50 != 0.5 || h.Max != 0.5 || h.Histogram[4] != 1 {
		t.Errorf("headroom of everyone else: got %+v", h)
	}
	busiest := []simulate.Busy{
		{Subject: "ip:" + ann, Used: 4, Share: 1, At: after(2*time.Minute + time.Second)},
		{Subject: "ip:" + bob, Used: 1, Share: 0.25, At: after(20 * time.Minute)},
	}
	if !reflect.DeepEqual(hour.Busiest, busiest) {
		t.Errorf("busiest: got %+v, want %+v", hour.Busiest, busiest)
	}
}

func TestShadow(t *testing.T) {
	set := parse(t, `
tiers: [{name: anyone, identity: ip, limits: 3/1m, shadow: true}]
policies: [{name: new, limits: 5/1m, shadow: true}]
`)
	log := new(records).add(9, ann, 0, time.Second)
	o := replay(t, log, simulate.Options{Set: set}).Outcome
	wantCount(t, "in shadow", o.Total, simulate.Count{Requests: 9, Allowed: 9, Shadowed: 6})
	if h := o.Hit[0]; h.Denied != 0 || h.Shadowed != 6 || h.By[0].Shadowed != 6 || h.By[1].Shadowed != 4 ||
		h.By[1].Policy != "new" {
		t.Errorf("hit: got %+v", h)
	}
	if s := o.Subjects; s.Hit != 0 || s.Shadowed != 1 || s.Seen != 1 {
		t.Errorf("subjects: got %+v", s)
	}
	if p := o.Policies[1]; p.Enforced != 0 || p.Requests != 9 || p.Shadowed != 4 {
		t.Errorf("policy: got %+v", p)
	}
	if l := o.Limits[1]; l.Subjects != 1 || l.Hit != 1 || l.Busiest[0].Used != 5 {
		t.Errorf("limit: got %+v", l)
	}

	o = replay(t, log, simulate.Options{Set: set, EnforceAll: true}).Outcome
	wantCount(t, "enforced", o.Total, simulate.Count{Requests: 9, Allowed: 3, Denied: 6})
	if p := o.Policies[1]; p.Enforced != 1 || p.Shadowed != 0 {
		t.Errorf("policy: got %+v", p)
	}
}

// TestCap: subjects beyond the cap are limited, and counted together.
func TestCap(t *testing.T) {
	set := parse(t, `
tiers: [{name: anyone, identity: ip, limits: 1/1m}]
policies: [{name: site, identity: everyone, limits: 100/1m}]
`)
	log := new(records)
	for i, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"} {
		log.add(2, client, time.Duration(i)*time.Second, 0)
	}
	r := replay(t, log, simulate.Options{Set: set, MaxSubjects: 3})
	s := r.Outcome.Subjects
	wantCount(t, "total", r.Outcome.Total, simulate.Count{Requests: 8, Allowed: 4, Denied: 4})
	if s.Seen != 2 || s.Hit != 2 || s.Cap != 3 { // everyone is the third
		t.Errorf("subjects: got %+v", s)
	}
	wantCount(t, "others", s.Others, simulate.Count{Requests: 4, Allowed: 2, Denied: 2})
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "more than 3 subjects. The rest sent 4 requests") {
		t.Errorf("notes: got %q", r.Notes)
	}
}

func TestBounds(t *testing.T) {
	set := parse(t, `tiers: [{name: anyone, identity: ip, limits: 2/1m}]`)
	log := new(records).add(10, ann, 0, time.Second)
	r := replay(t, log, simulate.Options{Set: set, From: after(2 * time.Second), To: after(6 * time.Second)})
	wantCount(t, "total", r.Outcome.Total, simulate.Count{Requests: 4, Allowed: 2, Denied: 2})
	if r.Log.Outside != 6 || !r.Log.First.Equal(after(2*time.Second)) {
		t.Errorf("log: got %+v", r.Log)
	}
}

// TestJSON: no list of a result is null, even if it is empty.
func TestJSON(t *testing.T) {
	limited := parse(t, `tiers: [{name: anyone, identity: ip, limits: 10/1m burst 2x}]`)
	free := parse(t, `tiers: [{name: anyone, identity: ip, limits: unlimited}]`)
	log := new(records).add(30, ann, 0, 100*time.Millisecond)
	for _, test := range []struct {
		set *policy.Set
		log *records
	}{{limited, new(records)}, {limited, log}, {free, log}} {
		r := replay(t, test.log, simulate.Options{Set: test.set, Against: test.set, Recommend: []float64{1}})
		text := testkit.Must(json.Marshal(r))(t)
		if strings.Contains(string(text), "null") {
			t.Errorf("null in %s", text)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	_, err := simulate.Run(context.Background(), new(records), simulate.Options{
		Recommend: []float64{1.5}, Windows: []time.Duration{1}, Bursts: []int64{1000}, MaxSubjects: -1,
		From: after(time.Hour), To: start,
	})
	if !errors.As(err, new(*stint.InvalidError)) {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	for _, want := range []string{"Set is nil", "1.5", "Windows has 1ns", "Bursts has 1000", "MaxSubjects is -1",
		"From before To"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestCallbacksAndCancel(t *testing.T) {
	set := parse(t, `tiers: [{name: anyone, identity: ip, limits: 5/1m}]`)
	log := new(records).add(10_000, ann, 0, time.Second)
	calls, reports, denied := 0, 0, 0
	replay(t, log, simulate.Options{
		Set:      set,
		Progress: func(accesslog.Stats) { reports++ },
		Each: func(r *accesslog.Record, v *policy.Verdict) {
			calls++
			if r.Path == "/" && !v.Decision.Allowed {
				denied++
			}
		},
	})
	if calls != 10_000 || reports != 3 || denied == 0 {
		t.Errorf("%d calls, %d reports, %d denied; want 10000, 3 and some", calls, reports, denied)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	log.read = 0
	if _, err := simulate.Run(ctx, log, simulate.Options{Set: set}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that of the context", err)
	}
}

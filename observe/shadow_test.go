package observe_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

const inShadow = `
identities: {apikey: {header: X-API-Key}}
tiers:
  - {name: member, identity: user, limits: 5/1h}
  - {name: anyone, identity: ip, limits: unlimited}
policies:
  - {name: free, match: {path: /free}, skip: true}
  - {name: trial, match: {path: /trial}, limits: 2/1h, shadow: true}
  - {name: both, match: {path: /both}, limits: 3/1h, budget: 5/1h, cost: 2, shadow: true}
  - {name: keys, match: {path: /keys}, identity: [apikey, ip], limits: 1/1h, shadow: true}
  - {name: every, match: {path: /keys}, limits: 2/1h, shadow: true}
request_id: {header: Idempotency-Key}
`

func as(user, path string) policy.Input {
	in := get(path)
	in.Claims = claims{"user": user}
	return in
}

// reportOf returns the report on a tier and a policy in shadow.
func reportOf(t *testing.T, list []observe.ShadowReport, tier, policy string) observe.ShadowReport {
	t.Helper()
	at := slices.IndexFunc(list, func(r observe.ShadowReport) bool { return r.Tier == tier && r.Policy == policy })
	if at < 0 {
		t.Fatalf("there is no report on %s, %s in %+v", tier, policy, list)
	}
	return list[at]
}

// TestShadowReportOfOtherLimits: what the limits before would have done is not held against those
// in force.
func TestShadowReportOfOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = `
tiers: [{name: anyone, identity: ip, limits: unlimited}]
policies: [{name: trial, match: {path: /}, limits: %d/1h, shadow: true}]`
		m, g := watched(t, fmt.Sprintf(text, 1))
		ask(t, g, 4, get("/"))
		for n := 2; n < 200; n++ { // and so memory is bounded, however often they change
			_ = g.Replace(guardtest.Parse(t, fmt.Sprintf(text, n)))
			ask(t, g, 1, get("/"))
		}
		list := m.ShadowReports(nil, 0)
		if len(list) != 64 || list[0].Limits[0] != "1/1h" || list[0].Total.Denied != 3 {
			t.Errorf("%d reports, the first is %+v; want 64 and that of 1/1h", len(list), list[0])
		}
	})
}

// TestShadowReportsAreBounded: of many subjects the numbers are right within what is promised, and
// few are remembered.
func TestShadowReportsAreBounded(t *testing.T) {
	testkit.SkipUnderRace(t)
	synctest.Test(t, func(t *testing.T) {
		const subjects = 10_000
		m, g := watched(t, `
tiers:
  - {name: member, identity: user, limits: unlimited}
  - {name: anyone, identity: ip, limits: unlimited}
policies: [{name: trial, match: {path: /}, limits: 1/1h, shadow: true}]`)
		for i := range subjects {
			ask(t, g, 1+i%2, as(strconv.Itoa(i), "/"))
		}
		ask(t, g, 2000, as("mallory", "/"))
		got := reportOf(t, m.ShadowReports(g.Set(), 1<<20), "member", "trial")
		near := func(got int64, want int) bool {
			return float64(got) > 0.92*float64(want) && float64(got) < 1.08*float64(want)
		}
		if r := got.Total; r.Requests != int64(subjects*3/2+2000) || r.Denied != int64(subjects/2+1999) ||
			!r.Estimated || !near(r.Subjects, subjects) || !near(r.Hit, subjects/2) {
			t.Errorf("got %+v of %d subjects", r, subjects)
		}
		if len(got.Top) != 100 || !strings.HasPrefix(got.Top[0].Subject, "user:mallor…#") || got.Top[0].AtLeast < 1999 {
			t.Errorf("%d of those that would be hit are listed, the first is %+v", len(got.Top), got.Top[0])
		}
	})
}

// TestShadowReports: each rule in shadow has the requests and the subjects that it judged, and no
// others. Time stands still in the bubble: a rule in shadow is given up when the store is slow.
func TestShadowReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, g := watched(t, inShadow)
		var group sync.WaitGroup // many ask, and one looks, at the same time
		for i := range 10 {
			group.Go(func() { ask(t, g, 1, as("quiet"+strconv.Itoa(i), "/trial")) })
			group.Go(func() { m.ShadowReports(g.Set(), 10) })
		}
		group.Wait()
		ask(t, g, 4, as("mallory", "/trial"))
		ask(t, g, 3, as("eve", "/trial"))
		ask(t, g, 9, as("else", "/")) // not judged by it, five of them allowed
		ask(t, g, 9, as("else", "/trial"))
		ask(t, g, 9, as("quiet1", "/free"))
		again := as("again", "/trial")
		again.Header = http.Header{"Idempotency-Key": {"k"}}
		ask(t, g, 4, again) // the first is judged, its repeats are not
		ask(t, g, 4, get("/both"))
		keyed := get("/keys")
		keyed.Header = http.Header{"X-Api-Key": {"secret-1"}}
		ask(t, g, 3, keyed)

		list := m.ShadowReports(g.Set(), 2)
		for _, test := range []struct {
			tier, policy, limits string
			want                 observe.ShadowCounts
			top                  string // kind and denials
		}{
			{"member", "trial", "2/1h", observe.ShadowCounts{Requests: 10 + 4 + 3 + 1, Denied: 2 + 1, Subjects: 13, Hit: 2}, "user 2"},
			{"anyone", "trial", "2/1h", observe.ShadowCounts{}, ""},
			{"anyone", "both", "3/1h, cost: 5/1h", observe.ShadowCounts{Requests: 4, Denied: 2, Subjects: 1, Hit: 1}, "ip 2"},
			// Of two rules that deny the same request, each has its own subject.
			{"anyone", "keys", "1/1h", observe.ShadowCounts{Requests: 3, Denied: 2, Subjects: 1, Hit: 1}, "apikey 2"},
			{"anyone", "every", "2/1h", observe.ShadowCounts{Requests: 3, Denied: 1, Subjects: 1, Hit: 1}, "ip 1"},
			{"member", "both", "3/1h, cost: 5/1h", observe.ShadowCounts{}, ""},
		} {
			got, top := reportOf(t, list, test.tier, test.policy), ""
			if len(got.Top) > 0 {
				top = fmt.Sprint(got.Top[0].Kind, " ", got.Top[0].AtLeast)
			}
			if got.Total != test.want || got.Recent != test.want || strings.Join(got.Limits, ", ") != test.limits || top != test.top {
				t.Errorf("%+v: got %+v", test, got)
			}
		}
		if got := m.ShadowReports(nil, 0); len(list) != 8 || len(got) != 4 || len(got[0].Top) != 0 {
			t.Errorf("%d reports, without a set %+v; want those of 4 policies and 2 tiers, and the four that judged something", len(list), got)
		}
		top := reportOf(t, list, "member", "trial").Top
		if subject, ok := m.SubjectOf(top[0].Ref); len(top) != 2 || !strings.HasPrefix(top[0].Subject, "user:mallor…#") || !ok || subject != "user:mallory" {
			t.Errorf("the ref stands for %q in %+v", subject, top)
		}
	})
}

// TestShadowReportMinutes: the recent counts are those of ten minutes, and the total has all.
func TestShadowReportMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, g := watched(t, inShadow)
		time.Sleep(90 * time.Second)
		ask(t, g, 3, as("a", "/trial"))
		time.Sleep(3 * time.Minute)
		ask(t, g, 1, as("a", "/trial"))
		ask(t, g, 1, as("b", "/trial"))
		all := observe.ShadowCounts{Requests: 5, Denied: 2, Subjects: 2, Hit: 1}
		last := observe.ShadowCounts{Requests: 2, Denied: 1, Subjects: 2, Hit: 1}
		for i, step := range []struct {
			after           time.Duration
			recent          observe.ShadowCounts
			seconds, length int
		}{{0, all, 180, 4}, {9 * time.Minute, last, 570, 10}, {10 * time.Minute, observe.ShadowCounts{}, 600, 10}} {
			time.Sleep(step.after)
			got := reportOf(t, m.ShadowReports(g.Set(), 0), "member", "trial")
			if got.Recent != step.recent || got.Total != all || i < 2 && (int(got.RecentSeconds) != step.seconds || len(got.Minutes) != step.length) ||
				i == 0 && !reflect.DeepEqual(got.Minutes, []observe.ShadowCounts{{Requests: 3, Denied: 1, Subjects: 1, Hit: 1}, {}, {}, last}) {
				t.Errorf("%+v: got %+v", step, got)
			}
		}
		if list := m.ShadowReports(nil, 0); len(list) != 0 {
			t.Errorf("long after, of no set: got %+v", list)
		}
	})
}

package observe_test

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// deny asks until a request is denied, and returns the id of the denial.
func deny(t *testing.T, g *policy.Guard, in policy.Input) string {
	t.Helper()
	for range 100 {
		var v policy.Verdict
		if err := g.Decide(t.Context(), &in, &v); err != nil {
			t.Fatal(err)
		}
		if id := string(v.AppendDenialID(nil)); id != "" {
			return id
		}
	}
	t.Fatal("never denied")
	return ""
}

// An hour later, the id of a denial still says by which limit, and what caused a ban; after its
// time, nothing does.
func TestWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := observe.New(observe.Config{Logger: discard, Alerts: observe.AlertConfig{Instance: "web-1"},
			ShowSubjects: true, KeepDenials: 2 * time.Hour})
		defer m.Close()
		g := newGuard(t, newMemory(t), manyReasons, m)
		in := get("/search")
		id := deny(t, g, in) // the policy search, which allows 3
		time.Sleep(30 * time.Second)
		ask(t, g, 1, in)
		banned := deny(t, g, in)
		time.Sleep(10 * time.Minute)
		in.Peer = netip.MustParseAddr("198.51.100.77")
		other := deny(t, g, in)

		time.Sleep(time.Hour)
		list := m.Why(id)
		if len(list) != 1 || list[0].Policy != "search" || list[0].Tier != "anyone" || list[0].Limit != "3/1m" ||
			list[0].Used != 3 || list[0].Reason != "limit" || list[0].Instance != "web-1" || list[0].Count != 2 {
			t.Errorf("got %+v", list)
		}
		subject := list[0].Subject
		if list = m.Why(banned); len(list) != 2 || list[1].Reason != "ban" || list[0].Reason != "limit" {
			t.Errorf("of the ban: %+v", list)
		}
		if list = m.Why(other); len(list) != 1 || list[0].Subject != "ip:198.51.100.77" {
			t.Errorf("of another: %+v", list)
		}
		if list = m.Denials(subject, time.Time{}); len(list) != 2 {
			t.Errorf("of a subject: %+v", list)
		}
		if list = m.Denials(subject, time.Now()); len(list) != 0 {
			t.Errorf("an hour later: %+v", list)
		}
		if list = m.Denials(subject, time.Now().Add(-70*time.Minute)); len(list) != 2 {
			t.Errorf("around the time: %+v", list)
		}
		for _, id := range []string{"", "x", strings.Repeat("0", 16), id[:8] + "00000000"} {
			if list := m.Why(id); len(list) != 0 {
				t.Errorf("%q: %+v", id, list)
			}
		}
		time.Sleep(time.Hour)
		if list := append(m.Why(id), m.Denials(subject, time.Time{})...); len(list) != 0 {
			t.Errorf("after two hours: %+v", list)
		}
	})
}

// Nothing is remembered if the program says so.
func TestWhyIsOff(t *testing.T) {
	m := observe.New(observe.Config{Logger: discard, KeepDenials: -1})
	defer m.Close()
	g := newGuard(t, newMemory(t), manyReasons, m)
	if list := m.Why(deny(t, g, get("/search"))); len(list) != 0 {
		t.Errorf("got %+v", list)
	}
}

package observe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
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

// TestWhy: the id of a denial tells the limit or the ban, until KeepDenials has passed.
func TestWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, observe.Config{Logger: discard, Alerts: observe.AlertConfig{Instance: "web-1"},
			ShowSubjects: true, KeepDenials: 20 * time.Minute})
		g := newGuard(t, manyReasons, m)
		in := get("/search")
		id := deny(t, g, in) // the policy search, which allows 3
		time.Sleep(30 * time.Second)
		ask(t, g, 1, in)
		banned := deny(t, g, in)
		time.Sleep(16 * time.Minute)
		list := m.Why(t.Context(), id)
		if len(list) != 1 || list[0].Policy != "search" || list[0].Tier != "anyone" || list[0].Limit != "3/1m" ||
			list[0].Used != 3 || list[0].Reason != "limit" || list[0].Instance != "web-1" || list[0].Count != 2 {
			t.Errorf("got %+v", list)
		}
		subject := list[0].Subject
		if list = m.Why(t.Context(), banned); len(list) != 2 || list[1].Reason != "ban" || list[0].Reason != "limit" {
			t.Errorf("of the ban: %+v", list)
		}
		for ago, want := range map[time.Duration]int{0: 0, 16 * time.Minute: 2, time.Duration(1<<63 - 1): 2} {
			at := time.Now().Add(-ago)
			if ago == time.Duration(1<<63-1) {
				at = time.Time{} // any time
			}
			if list := m.Denials(t.Context(), subject, at); len(list) != want {
				t.Errorf("of the subject %v ago: %+v, want %d", ago, list, want)
			}
		}
		off := open(t, observe.Config{Logger: discard, KeepDenials: -1})
		forgotten := deny(t, newGuard(t, manyReasons, off), in)
		for _, id := range []string{"", "x", strings.Repeat("0", 16), id[:8] + "00000000"} {
			if list := m.Why(t.Context(), id); len(list)+len(off.Why(t.Context(), forgotten)) != 0 {
				t.Errorf("%q: %+v", id, list)
			}
		}
		time.Sleep(10 * time.Minute)
		if list := append(m.Why(t.Context(), id), m.Denials(t.Context(), subject, time.Time{})...); len(list) != 0 {
			t.Errorf("after its time: %+v", list)
		}
	})
}

// TestWhyAcrossProcesses: a process asks the others for a denial, by an id and by a subject, also
// where the store keeps no names. The questions do not stay in the store.
func TestWhyAcrossProcesses(t *testing.T) {
	for _, hashed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shared := &table{Store: guardtest.Memory(t), hashed: hashed}
			var all []*observe.Monitor
			for i := range 3 {
				m := open(t, observe.Config{Logger: discard, ShowSubjects: true,
					Alerts: observe.AlertConfig{Instance: fmt.Sprintf("web-%d", i+1)}})
				defer m.Share(shared)()
				all = append(all, m)
			}
			const once = `tiers: [{name: free, identity: ip, limits: 1/1h}]`
			id := deny(t, newGuard(t, once, all[0]), get("/"))
			time.Sleep(time.Minute)
			deny(t, newGuard(t, once, all[2]), get("/"))

			subject := "ip:" + client.String()
			for i, m := range all {
				began := time.Now()
				if list := m.Why(t.Context(), id); len(list) != 1 || list[0].Instance != "web-1" || list[0].Limit != "1/1h" ||
					!hashed && list[0].Subject != subject || time.Since(began) > 5*time.Second {
					t.Errorf("web-%d, hashed %v: %+v after %v", i+1, hashed, list, time.Since(began))
				}
				if list := m.Denials(t.Context(), subject, time.Time{}); len(list) != 2 ||
					list[0].Instance != "web-1" || list[1].Instance != "web-3" {
					t.Errorf("web-%d, hashed %v: of the subject %+v", i+1, hashed, list)
				}
				if list := m.Denials(t.Context(), "ip:192.0.2.99", time.Time{}); len(list) != 0 {
					t.Errorf("web-%d: of another subject %+v", i+1, list)
				}
			}
			if shared.named.Load() && hashed {
				t.Error("the store has a name")
			}
			for _, text := range []string{`{"number":1,"id":"` + id + `"}`, ""} { // of one that is killed then
				row := []driver.Row{{Name: "killed/ask", Text: text}}
				if _, err := shared.Keep(t.Context(), "fleet", row, 0, false); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
			}
			if _, _, err := shared.Kept(t.Context(), "fleet", 0, func(r driver.Row) {
				if r.Text != "" && (strings.Contains(r.Name, "/ask") || strings.Contains(r.Name, "/why")) {
					t.Errorf("%s is left: %s", r.Name, r.Text)
				}
			}); err != nil {
				t.Error(err)
			}
			shared.away.Store(true)
			began := time.Now()
			if list := all[1].Why(t.Context(), id); len(list) != 0 || time.Since(began) > 10*time.Second {
				t.Errorf("without the store, after %v: %+v", time.Since(began), list)
			}
		})
	}
}

// The denials of httplimit.By have ids too, of the key that denied.
func TestWhyBy(t *testing.T) {
	m := open(t, observe.Config{Logger: discard, ShowSubjects: true})
	stack := guardtest.Stack(t, batched{guardtest.Memory(t)}, resilience.Config{Observer: m.StackObserver()})
	handler := httplimit.By(httplimit.Header("X-User"), stint.PerMinute(100), httplimit.WithStore(stack),
		httplimit.AndBy("team", httplimit.Header("X-Team"), stint.PerHour(1)))(http.NotFoundHandler())
	var id string
	for range 2 {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", "7")
		r.Header.Set("X-Team", "blue")
		handler.ServeHTTP(w, r)
		id = w.Header().Get("X-RateLimit-Denial")
	}
	if list := m.Why(t.Context(), id); len(list) != 1 || list[0].Limit != "1/1h" ||
		!strings.HasPrefix(list[0].Subject, "x-team:") {
		t.Errorf("%q: %+v", id, list)
	}
}

// batched is a store in memory that takes batches, as a stack wants.
type batched struct{ *memorystore.Store }

func (b batched) TakeBatch(ctx context.Context, batch []*driver.Call) {
	for _, c := range batch {
		c.Decision, c.Err = b.Take(ctx, c.Request)
	}
}

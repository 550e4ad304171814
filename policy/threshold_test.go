package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// marking is a store that counts the calls that mark thresholds, and can refuse them.
type marking struct {
	stint.Store
	marks int
	fails bool
}

func (m *marking) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if strings.HasPrefix(r.Claims[0].Subject, "threshold:") {
		if m.marks++; m.fails {
			return stint.Decision{}, &stint.StoreError{Op: "take", Err: errors.New("no store today")}
		}
	}
	return m.Store.Take(ctx, r)
}

// newProcess returns one of several processes that share a store.
func newProcess(t *testing.T, store stint.Store, spec policy.Spec) *world {
	t.Helper()
	set := testkit.Must(policy.New(spec))(t)
	return new(world).over(t, store, set)
}

// ask asks for a user, with a cost in a header, and wants thresholds reported.
func (w *world) ask(user string, cost int, want string) *policy.Verdict {
	w.t.Helper()
	in := getWith("/", http.Header{"X-Cost": {fmt.Sprint(cost)}})
	in.Claims = claims{"user": user}
	w.seen.thresholds = nil
	v := w.judge(in)
	var texts []string
	for _, t := range w.seen.thresholds {
		texts = append(texts, fmt.Sprintf("%s %d%% of %s with %d", t.Subject, t.Percent, &t.Limit, t.Used))
	}
	if got := strings.Join(texts, "; "); got != want {
		w.t.Errorf("user %s, cost %d: reported %q, want %q", user, cost, got, want)
	}
	return v
}

// monthly is a budget of a month beside a limit that slides.
func monthly(limit stint.Limit) policy.Spec {
	return policy.Spec{
		Tiers: []policy.Tier{{Name: "pro", Identity: []string{"user", "ip"},
			Limits: policy.Limits(stint.PerMinute(1000)), Budget: policy.Limits(limit), Notify: []int{50, 80, 100}}},
		Policies: []policy.Policy{{Name: "cost", Cost: &policy.Cost{Units: 1, Header: "X-Cost", Min: 1, Max: 1000},
			Refund: []int{5}}},
	}
}

// TestThresholds: each share is reported once a period, by the process that sees it first.
func TestThresholds(t *testing.T) {
	var now atomic.Int64 // in seconds
	now.Store(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Unix())
	store := &marking{Store: guardtest.MemoryWith(t, memorystore.Config{
		Now: func() time.Time { return time.Unix(now.Load(), 0) }})}
	fixed := stint.Limit{Max: 100, Window: time.Hour, Algorithm: stint.AlgorithmFixed}
	for _, limit := range []stint.Limit{stint.Monthly(100).In("Europe/Berlin"), fixed} {
		limit.Name = "cost"
		of := " of " + limit.String() + " with "
		one, two := newProcess(t, store, monthly(limit)), newProcess(t, store, monthly(limit))
		store.marks = 0
		one.ask("42", 49, "")
		one.ask("42", 1, "user:42 50%"+of+"50")
		two.ask("42", 29, "") // the other has reported it
		for range 5 {
			one.ask("43", 1, "")
		}
		if store.marks != 2 {
			t.Errorf("%d calls for one event in two processes; want none per decision", store.marks)
		}
		// Refunded units are not reported again when they are used again.
		v := two.ask("42", 1, "user:42 80%"+of+"80")
		two.Follow(context.Background(), v)(policy.Outcome{Status: 500})
		one.ask("42", 1, "")
		// All of it is used when a request is denied, and not when nothing is left.
		one.ask("42", 20, "")
		if v := two.ask("42", 1, "user:42 100%"+of+"100"); v.Decision.Allowed {
			t.Fatal("more than the limit")
		}
		one.ask("42", 1, "")
		one.ask("44", 85, "user:44 50%"+of+"85; user:44 80%"+of+"85")
		one.ask("45", 101, "") // a cost above the limit does not say what is used
		// The next period begins anew, with other ids.
		two.ask("46", 60, "user:46 50%"+of+"60")
		first := two.seen.thresholds[0]
		now.Store(first.Until.Unix())
		two.ask("46", 60, "user:46 50%"+of+"60")
		if two.seen.thresholds[0].ID == first.ID {
			t.Errorf("in the next period: %+v", two.seen.thresholds)
		}
	}
}

// TestThresholdsWithoutMarks: a process that cannot mark reports at least once, and once by itself.
func TestThresholdsWithoutMarks(t *testing.T) {
	store := &marking{Store: guardtest.Memory(t), fails: true}
	w := newProcess(t, store, monthly(stint.Monthly(100)))
	for _, want := range []string{"", "", "user:42 50% of cost: 100/month with 60", ""} {
		w.ask("42", 20-5*(len(w.seen.thresholds)), want)
	}
	if store.marks != 1 {
		t.Errorf("%d marks", store.marks)
	}
}

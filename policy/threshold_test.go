package policy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// reports gathers thresholds as "user:42 80% of 10/day".
type reports struct{ all []policy.Threshold }

func (r *reports) Observe(_ context.Context, event stint.Event) {
	if t, ok := event.(*policy.Threshold); ok {
		r.all = append(r.all, *t)
	}
}

// next returns what was reported since the last call.
func (r *reports) next() string {
	var texts []string
	for _, t := range r.all {
		texts = append(texts, fmt.Sprintf("%s %d%% of %s with %d", t.Subject, t.Percent, &t.Limit, t.Used))
	}
	r.all = nil
	return strings.Join(texts, "; ")
}

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

// process is one of several that share a store.
type process struct {
	*testing.T
	guard *policy.Guard
	reports
}

func newProcess(t *testing.T, store stint.Store, spec policy.Spec) *process {
	t.Helper()
	set, err := policy.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{T: t}
	c := policy.GuardConfig{Observer: &p.reports, Logger: slog.New(slog.DiscardHandler)}
	if p.guard, err = policy.NewGuard(store, set, c); err != nil {
		t.Fatal(err)
	}
	return p
}

// ask asks for a user, with a cost in a header.
func (p *process) ask(user string, cost int) *policy.Verdict {
	p.Helper()
	v := &policy.Verdict{}
	in := policy.Input{Method: "GET", Path: "/", Claims: claimed{"user": user},
		Header: headers{"X-Cost": {fmt.Sprint(cost)}}}
	if err := p.guard.Decide(context.Background(), &in, v); err != nil {
		p.Fatal(err)
	}
	return v
}

func (p *process) want(want string) {
	p.Helper()
	if got := p.next(); got != want {
		p.Errorf("reported %q, want %q", got, want)
	}
}

type claimed map[string]string

func (c claimed) Claim(name string) string { return c[name] }

type headers map[string][]string

func (h headers) Values(name string) []string { return h[name] }

// monthly is a budget of a month beside a limit that slides.
func monthly(limit stint.Limit) policy.Spec {
	return policy.Spec{
		Tiers: []policy.Tier{{Name: "pro", Identity: []string{"user", "ip"},
			Limits: policy.Limits(stint.PerMinute(1000)), Budget: policy.Limits(limit), Notify: []int{50, 80, 100}}},
		Policies: []policy.Policy{{Name: "cost", Cost: &policy.Cost{Units: 1, Header: "X-Cost", Min: 1, Max: 1000},
			Refund: []int{5}}},
	}
}

// Each share is reported once a period by whichever process sees it first, whatever the steps.
func TestThresholds(t *testing.T) {
	var now atomic.Int64 // in seconds
	now.Store(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Unix())
	memory, err := memorystore.New(memorystore.Config{Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	store := &marking{Store: memory}
	fixed := stint.Limit{Max: 100, Window: time.Hour, Algorithm: stint.AlgorithmFixed}
	for _, limit := range []stint.Limit{stint.Monthly(100).In("Europe/Berlin"), fixed} {
		limit.Name = "cost"
		text := limit.String()
		one, two := newProcess(t, store, monthly(limit)), newProcess(t, store, monthly(limit))
		store.marks = 0
		one.ask("42", 49)
		one.want("")
		one.ask("42", 1)
		one.want("user:42 50% of " + text + " with 50")
		two.ask("42", 29)
		two.want("") // the other has reported it
		if store.marks != 2 {
			t.Errorf("%d calls for one event in two processes", store.marks)
		}
		for range 5 {
			one.ask("43", 1)
		}
		if store.marks != 2 {
			t.Errorf("%d calls, want none per decision", store.marks)
		}
		// What is given back is not reported again when it is used again.
		v := two.ask("42", 1)
		two.want("user:42 80% of " + text + " with 80")
		two.guard.Follow(context.Background(), v)(policy.Outcome{Status: 500})
		one.ask("42", 1)
		one.want("")
		// All of it is used when a request is denied, and not when nothing is left.
		one.ask("42", 20)
		one.want("")
		if v := two.ask("42", 1); v.Decision.Allowed {
			t.Fatal("more than the limit")
		}
		two.want("user:42 100% of " + text + " with 100")
		one.ask("42", 1)
		one.want("")
		// One request may reach several.
		one.ask("44", 85)
		one.want("user:44 50% of " + text + " with 85; user:44 80% of " + text + " with 85")
		// One that costs more than there ever is says nothing of what is used.
		one.ask("45", 101)
		one.want("")
		first := one.all
		// In the next period all of it begins again, with other ids.
		two.ask("46", 60)
		id := two.all[0].ID
		now.Store(two.all[0].Until.Unix())
		two.next()
		two.ask("46", 60)
		if len(two.all) != 1 || two.all[0].ID == id || len(first) > 0 {
			t.Errorf("in the next period: %+v", two.all)
		}
		two.want("user:46 50% of " + text + " with 60")
	}
}

// A process that cannot mark reports all the same: at least once, and once by itself.
func TestThresholdsWithoutMarks(t *testing.T) {
	memory, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	store := &marking{Store: memory, fails: true}
	p := newProcess(t, store, monthly(stint.Monthly(100)))
	for range 3 {
		p.ask("42", 20)
	}
	p.want("user:42 50% of cost: 100/month with 60")
	if store.marks != 1 {
		t.Errorf("%d marks", store.marks)
	}
}

// Shadow, decisions without the store and other limits are not reported.
func TestThresholdsNot(t *testing.T) {
	memory, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	shadow := monthly(stint.Monthly(10))
	shadow.Tiers[0].Shadow = true
	p := newProcess(t, memory, shadow)
	p.ask("42", 9)
	p.want("")

	degraded := newProcess(t, degrading{memory}, monthly(stint.Monthly(10)))
	degraded.ask("43", 9)
	degraded.want("")
	sliding := monthly(stint.Monthly(1000))
	sliding.Tiers[0].Limits = policy.Limits(stint.PerMinute(10))
	p = newProcess(t, memory, sliding)
	for range 12 {
		p.ask("44", 1)
	}
	p.want("")
}

// degrading decides as if the store could not be asked.
type degrading struct{ stint.Store }

func (s degrading) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	d, err := s.Store.Take(ctx, r)
	d.Degraded = true
	return d, err
}

func TestNotifies(t *testing.T) {
	month, second := stint.Monthly(5), stint.PerSecond(5)
	set, err := policy.New(policy.Spec{Tiers: []policy.Tier{{Name: "a", Identity: []string{"ip"},
		Limits: policy.Limits(second, month), Budget: policy.Limits(stint.PerMinute(3)), Notify: []int{80}}}})
	if err != nil {
		t.Fatal(err)
	}
	rules := set.Rules()
	got := rules[0].Notifies(&month)
	if !slices.Equal(got, []int{80}) || rules[0].Notifies(&second) != nil || rules[1].Notify != nil {
		t.Errorf("got %v and %v", got, rules[1].Notify)
	}
}

// Units that are held beyond the end of a period are reported as of that period, once.
func TestThresholdsOfHolds(t *testing.T) {
	hourly := stint.Limit{Max: 100, Window: time.Hour, Algorithm: stint.AlgorithmFixed}
	for _, limit := range []stint.Limit{stint.Daily(100), hourly} {
		t.Run(limit.String(), func(t *testing.T) {
			end := time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)
			var now atomic.Int64 // the store sweeps at any time
			now.Store(end.Add(-10 * time.Minute).UnixNano())
			store, err := memorystore.New(memorystore.Config{Now: func() time.Time { return time.Unix(0, now.Load()) }})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			spec := monthly(limit)
			spec.Policies[0].Hold = 50 * time.Minute
			for i := range 5 {
				p := newProcess(t, store, spec) // which remembers nothing
				p.ask("42", 10+40*(1-min(i, 1)))
				for _, reported := range p.all {
					if !reported.Until.Equal(end) {
						t.Errorf("until %v, want %v", reported.Until, end)
					}
				}
				p.want([]string{"user:42 50% of cost: " + limit.String() + " with 50", "", "",
					"user:42 80% of cost: " + limit.String() + " with 80", ""}[i])
				now.Add(int64(time.Minute))
			}
		})
	}
}

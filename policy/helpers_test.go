package policy_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
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

var (
	discard = slog.New(slog.DiscardHandler)
	client  = netip.MustParseAddr("203.0.113.9")
)

// world is a guard over a store, with what it logs and reports.
type world struct {
	*policy.Guard
	t     testing.TB
	store stint.Store
	clock atomic.Int64 // nanoseconds since 1970
	level slog.LevelVar
	log   bytes.Buffer
	seen  witness
}

// newWorld returns a world over a store in memory whose time stands still unless it is advanced.
func newWorld(t testing.TB, text string) *world {
	t.Helper()
	w := &world{}
	w.clock.Store(1_800_000_000 * int64(time.Second))
	return w.over(t, guardtest.Unhurried{Store: guardtest.MemoryWith(t, memorystore.Config{Now: w.now})}, parse(t, text))
}

// worldOver returns a world over any store.
func worldOver(t testing.TB, store stint.Store, text string) *world {
	t.Helper()
	return new(world).over(t, store, parse(t, text))
}

func (w *world) over(t testing.TB, store stint.Store, set *policy.Set) *world {
	t.Helper()
	w.t, w.store = t, store
	logger := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: &w.level}))
	var err error
	if w.Guard, err = policy.NewGuard(store, set, policy.GuardConfig{Logger: logger, Observer: &w.seen}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) now() time.Time          { return time.Unix(0, w.clock.Load()) }
func (w *world) advance(d time.Duration) { w.clock.Add(int64(d)) }

var parse = guardtest.Parse

// broken is a store that fails.
var broken = guardtest.Failing{
	Err: &stint.StoreError{Op: "take", Kind: stint.KindTimeout, Err: errors.New("no answer")}}

// judge decides on a request.
func (w *world) judge(in policy.Input) *policy.Verdict {
	w.t.Helper()
	v := new(policy.Verdict)
	if err := w.Decide(context.Background(), &in, v); err != nil {
		w.t.Fatal(err)
	}
	return v
}

// begin decides on a request, and returns what ends it.
func (w *world) begin(in policy.Input) (*policy.Verdict, func(policy.Outcome)) {
	w.t.Helper()
	v := w.judge(in)
	end := w.Follow(context.Background(), v)
	if end == nil {
		end = func(policy.Outcome) {}
	}
	return v, end
}

// admitted counts how many of n equal requests are allowed.
func (w *world) admitted(n int, in policy.Input) (count int) {
	w.t.Helper()
	for range n {
		if w.judge(in).Decision.Allowed {
			count++
		}
	}
	return count
}

// used returns what is used of all limits of a verdict.
func (w *world) used(v *policy.Verdict) (all []int64) {
	w.t.Helper()
	for i := range v.Results {
		c := v.Results[i].Claim
		c.Cost, c.Costs = 1, nil
		d, err := w.store.Take(context.Background(), stint.Request{Claims: []stint.Claim{c}, Mode: stint.ModePeek})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, u := range d.Usages() {
			all = append(all, u.Used)
		}
	}
	return all
}

// wantLog wants parts in the log, and no full name of a subject.
func (w *world) wantLog(name string, parts ...string) {
	w.t.Helper()
	for _, want := range parts {
		if !strings.Contains(w.log.String(), want) {
			w.t.Errorf("%s: no %s in %s", name, want, &w.log)
		}
	}
	if len(parts) == 0 && w.log.Len() > 0 || strings.Contains(w.log.String(), "somebody-with-a-name") {
		w.t.Errorf("%s: logged %s", name, &w.log)
	}
}

// witness is an observer that writes down what it receives.
type witness struct {
	verdicts    []policy.Verdict
	settlements []policy.Settlement
	thresholds  []policy.Threshold
	wanted      any // the value of the context's key
}

type wantedKey struct{}

func (w *witness) Observe(ctx context.Context, event stint.Event) {
	switch e := event.(type) {
	case *policy.Verdict:
		w.verdicts, w.wanted = append(w.verdicts, *e), ctx.Value(wantedKey{})
	case *policy.Settlement:
		w.settlements = append(w.settlements, *e)
	case *policy.Threshold:
		w.thresholds = append(w.thresholds, *e)
	}
}

// shadowed returns the names of the rules in shadow that would have denied.
func shadowed(v *policy.Verdict) (names []string) {
	for i := range v.Results {
		if r := &v.Results[i]; r.Shadow && r.Denied {
			names = append(names, r.Rule.Name())
		}
	}
	return names
}

// claims are what an application says of a caller.
type claims = guardtest.Claims

func get(path string) policy.Input {
	return policy.Input{Method: "GET", Host: "example.com", Path: path, Peer: client, Header: http.Header{}}
}

// getWith is a request with fields, such as {"X-Key", "k"}.
func getWith(path string, header http.Header) policy.Input {
	in := get(path)
	in.Header = header
	return in
}

// getAs is a request of a user, or of a caller with other claims.
func getAs(path string, c claims) policy.Input {
	in := get(path)
	in.Claims = c
	return in
}

// request is a request as net/http reads it.
func request(t *testing.T, method, target string, header http.Header) policy.Input {
	t.Helper()
	u := testkit.Must(url.ParseRequestURI(target))(t)
	in := getWith(u.Path, header)
	in.Method, in.RawPath = method, u.RawPath
	return in
}

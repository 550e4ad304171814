package simulate_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/storetest"
)

// TestEqual sends random requests under random configurations to live middleware over an empty
// store. A replay of the log must make the same decision on each request: whether the request is
// allowed, the usage of each limit, whether enforced or in shadow, and the time until there is room
// again. The flag -rapid.checks sets the number of configurations.
func TestEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := drawConfig(rt)
		clock := &storetest.Clock{}
		store := guardtest.MemoryWith(t, memorystore.Config{Now: clock.Now})
		defer store.Close()
		log := &records{list: drawLog(rt, clock.Now())}
		var replayed []string
		replay(t, log, simulate.Options{Set: parse(t, text), Each: func(_ *accesslog.Record, v *policy.Verdict) {
			replayed = append(replayed, describe(v))
		}})
		live := newLive(t, rt, text, store)
		for i := range log.list {
			r := &log.list[i]
			clock.Advance(time.Duration(r.At - clock.Now().UnixNano()))
			if got := live.serve(r); got != replayed[i] {
				rt.Fatalf("request %d (%s)\nlive:     %s\nreplayed: %s\nunder\n%s\nafter\n%s",
					i, show(r), got, replayed[i], text, history(log.list[:i]))
			}
		}
	})
}

// live is a handler behind middleware.
type live struct {
	rt      *rapid.T
	handler http.Handler
	record  *accesslog.Record // the record being served
	verdict policy.Verdict
	decided string
}

func newLive(t *testing.T, rt *rapid.T, text string, store stint.Store) *live {
	l := &live{rt: rt}
	guard := guardtest.New(t, simulate.Timeless{Store: store}, text, policy.GuardConfig{Observer: l})
	claim := func(_ *http.Request, name string) string { return l.record.Claim(name) }
	limit := httplimit.New(guard, httplimit.WithClaims(claim))
	l.handler = limit(http.HandlerFunc(l.respond))
	return l
}

// Observe implements [stint.Observer].
func (l *live) Observe(_ context.Context, event stint.Event) {
	v, ok := event.(*policy.Verdict)
	if !ok {
		return
	}
	if v.Err != nil {
		l.rt.Fatal(v.Err)
	}
	l.verdict, l.decided = *v, describe(v)
}

// respond sends the response that the log records.
func (l *live) respond(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(l.record.Status)
	_, _ = io.WriteString(w, strings.Repeat("x", int(l.record.Bytes)))
}

// serve sends a request. It checks the response and returns the verdict.
func (l *live) serve(r *accesslog.Record) string {
	l.record = r
	request := &http.Request{
		Method: r.Method, Host: r.Host, URL: &url.URL{Path: r.Path, RawPath: r.RawPath},
		RemoteAddr: netip.AddrPortFrom(r.Client, 4711).String(), Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	for _, f := range r.Headers {
		request.Header.Add(f.Name, f.Value)
	}
	response := httptest.NewRecorder()
	l.handler.ServeHTTP(response, request)

	d := &l.verdict.Decision
	want := r.Status
	if !d.Allowed {
		want = http.StatusTooManyRequests
		if d.RetryAfter != stint.Never {
			l.wantHeader(response, "Retry-After", []int64{int64(math.Ceil(d.RetryAfter.Seconds()))})
		}
	}
	if response.Code != want {
		l.rt.Fatalf("%s: status %d, want %d", l.decided, response.Code, want)
	}
	var left []int64
	for _, s := range d.States() {
		left = append(left, s.Remaining())
	}
	if len(left) > 0 {
		l.wantHeader(response, "X-RateLimit-Remaining", left)
	}
	return l.decided
}

// wantHeader fails the test if a response header does not hold one of the wanted numbers.
func (l *live) wantHeader(response *httptest.ResponseRecorder, name string, want []int64) {
	got := response.Header().Get(name)
	if n, err := strconv.ParseInt(got, 10, 64); err != nil || !slices.Contains(want, n) {
		l.rt.Fatalf("%s: %s is %q, want one of %d", l.decided, name, got, want)
	}
}

// describe returns a verdict as text.
func describe(v *policy.Verdict) string {
	d := &v.Decision
	var b strings.Builder
	fmt.Fprintf(&b, "tier %q route %q skipped %q who %q cost %d allowed %v banned %v repeat %v wait %v",
		v.Tier, v.Route, v.Skipped, v.Subject(), v.Cost, d.Allowed, d.Banned, d.Repeat, d.RetryAfter)
	for _, s := range d.States() {
		fmt.Fprintf(&b, " [%s: used %d remaining %d reset %v wait %v]",
			s.Limit, s.Used, s.Remaining(), s.ResetAfter, s.RetryAfter)
	}
	for i := range v.Results {
		if r := &v.Results[i]; r.Shadow {
			fmt.Fprintf(&b, " shadow %q: denied %v %v", r.Rule.Name(), r.Denied, r.Usages)
		}
	}
	return b.String()
}

func show(r *accesslog.Record) string {
	return fmt.Sprintf("%s %s %s %s user %q %v %v: %d, %d bytes",
		time.Unix(0, r.At).UTC().Format("15:04:05.000000"), r.Client, r.Method, r.Path, r.User, r.Claims, r.Headers,
		r.Status, r.Bytes)
}

func history(log []accesslog.Record) string {
	var b strings.Builder
	for i := range log {
		b.WriteString(show(&log[i]) + "\n")
	}
	return b.String()
}

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/grpclimit"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

// refusal is what a client learns from a call that is refused.
type refusal struct {
	code       codes.Code
	message    string
	retry      time.Duration // 0 if there is no RetryInfo
	violations []string      // "subject description"
	help       []string      // "description url"
	pushback   []string
}

func refusalOf(t *testing.T, ctx context.Context, conn *grpc.ClientConn) refusal {
	t.Helper()
	var trailer metadata.MD
	err := say(ctx, conn, grpc.Trailer(&trailer))
	return refusalFrom(t, err, trailer)
}

func refusalFrom(t *testing.T, err error, trailer metadata.MD) refusal {
	t.Helper()
	st := status.Convert(err)
	r := refusal{code: st.Code(), message: st.Message(), pushback: trailer.Get("grpc-retry-pushback-ms")}
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.RetryInfo:
			r.retry = detail.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			for _, v := range detail.GetViolations() {
				r.violations = append(r.violations, v.GetSubject()+" "+v.GetDescription())
			}
		case *errdetails.Help:
			for _, link := range detail.GetLinks() {
				r.help = append(r.help, link.GetDescription()+" "+link.GetUrl())
			}
		default:
			t.Errorf("unexpected detail: %v", detail)
		}
	}
	return r
}

func unaryServer(t testing.TB, config string, store stint.Store, options ...grpclimit.GuardOption) *grpc.ClientConn {
	guard := newGuard(t, config, store)
	return (&echo{}).serve(t, []grpc.UnaryServerInterceptor{grpclimit.UnaryServerInterceptor(guard, options...)}, nil)
}

// A contact is a link, without a URL if it is a text.
func TestContact(t *testing.T) {
	for contact, want := range map[string]string{
		"https://example.com/more": "Contact https://example.com/more", "Ask Ann": "Ask Ann ",
	} {
		for _, ban := range []string{"", "bans: {after: 1, within: 1m, durations: [1h]}\n"} {
			conn := unaryServer(t, ban+"tiers: [{name: all, identity: ip, limits: 0/1h, contact: '"+contact+"'}]", nil)
			_ = refusalOf(t, t.Context(), conn)
			if got := refusalOf(t, t.Context(), conn); len(got.help) != 1 || got.help[0] != want {
				t.Errorf("got %q, want %q", got.help, want)
			}
		}
	}
}

func TestDenied(t *testing.T) {
	const tier = "tiers: [{name: anonymous, identity: ip, limits: 2/1h}]\n"
	tests := []struct {
		name       string
		config     string
		first      int // calls that are let through
		message    string
		violations []string
		never      bool
	}{
		{"tier", tier, 2, "rate limited by tier anonymous, retry in ", []string{"tier:anonymous 2/1h"}, false},
		{"policy", tier + "policies: [{name: talk, match: {path: /test.Echo/Say}, limits: 1/30m}]", 1,
			"rate limited by policy talk, retry in ", []string{"policy:talk 1/30m"}, false},
		{"both", tier + "policies: [{name: talk, match: {path: '/test.Echo/*'}, limits: [2/30m burst 1x, 9/1m]}]", 2,
			"rate limited by tier anonymous, retry in ",
			[]string{"tier:anonymous 2/1h", "policy:talk 2/30m burst 1x"}, false},
		{"never", tier + "policies: [{name: closed, match: {path: /test.Echo/Say}, limits: 0/1h}]", 0,
			"rate limited by policy closed, retrying does not help", []string{"policy:closed 0/1h"}, true},
		{"banned", tier + "bans: {after: 1, within: 1m, durations: [5m]}", 3, // the third is denied, and leads to a ban
			"banned, retry in ", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			conn := unaryServer(t, test.config, nil)
			allowed(t, conn, test.first)
			got := refusalOf(t, t.Context(), conn)
			if got.code != codes.ResourceExhausted {
				t.Errorf("got the code %v, want %v", got.code, codes.ResourceExhausted)
			}
			if !strings.HasPrefix(got.message, test.message) {
				t.Errorf("got the message %q, want %q", got.message, test.message)
			}
			if !slices.Equal(got.violations, test.violations) {
				t.Errorf("got the violations %q, want %q", got.violations, test.violations)
			}
			want := strconv.FormatInt(got.retry.Milliseconds(), 10)
			if test.never {
				want = "-1"
			}
			if !slices.Equal(got.pushback, []string{want}) || (got.retry == 0) != test.never {
				t.Errorf("got the pushback %q and the delay %v, want the pushback %q", got.pushback, got.retry, want)
			}
			if !test.never && !strings.HasSuffix(got.message, " "+got.retry.String()) {
				t.Errorf("got the message %q, want the delay %v in it", got.message, got.retry)
			}
		})
	}
}

// Callers that are denied by a limit that they share are told to come back at different times, none
// too early. A limit of one's own says the exact time.
func TestF35DeniedTogetherComeBackApart(t *testing.T) {
	const config = "tiers: [{name: all, identity: %s, limits: 1/1h}]\nheaders: {retry_after_jitter: %s}"
	for _, c := range []struct {
		identity, jitter string
		apart            bool
	}{{"everyone", "20%", true}, {"everyone", "0%", false}, {"ip", "20%", false}} {
		conn := unaryServer(t, fmt.Sprintf(config, c.identity, c.jitter), nil)
		begin := time.Now()
		allowed(t, conn, 1)
		later := 0
		for range 50 {
			got := refusalOf(t, t.Context(), conn)
			if got.retry < time.Hour-time.Since(begin) || got.retry > time.Hour+time.Minute {
				t.Errorf("%+v: got %v", c, got.retry)
			}
			if got.retry > time.Hour {
				later++
			}
		}
		if apart := later > 0; apart != c.apart {
			t.Errorf("%+v: %d of 50 are told to come back later than necessary", c, later)
		}
	}
}

// A client that retries would spend the rest of the call waiting, and then know less.
func TestDeadlineBeforeRoom(t *testing.T) {
	conn := unaryServer(t, "tiers: [{name: anonymous, identity: ip, limits: 1/1h}]", nil)
	allowed(t, conn, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := refusalOf(t, ctx, conn)
	if !slices.Equal(got.pushback, []string{"-1"}) || got.retry < 59*time.Minute {
		t.Errorf("got the pushback %q and the delay %v, want -1 and the time until there is room", got.pushback, got.retry)
	}
}

// broken is a store that fails.
var broken = guardtest.Failing{Err: &stint.StoreError{Op: "take", Err: errors.New("the secret address of the store")}}

// slowStore takes as long as it may, and then fails.
type slowStore struct{ stint.Store }

func (slowStore) Take(ctx context.Context, _ stint.Request) (stint.Decision, error) {
	<-ctx.Done()
	return stint.Decision{}, &stint.StoreError{Op: "take", Err: ctx.Err()}
}

func TestUnavailable(t *testing.T) {
	for _, mode := range []string{"deny", "error"} {
		t.Run(mode, func(t *testing.T) {
			store := guardtest.Stack(t, broken, resilience.Config{})
			conn := unaryServer(t, "tiers: [{name: anonymous, identity: ip, limits: 2/1h}]\nfailure: {mode: "+mode+"}", store)
			got := refusalOf(t, t.Context(), conn)
			if got.code != codes.Unavailable ||
				got.message != "rate limits cannot be checked, retry in 1s" || got.violations != nil {
				t.Errorf("got %+v", got)
			}
			if got.retry != time.Second || !slices.Equal(got.pushback, []string{"1000"}) {
				t.Errorf("got the delay %v and the pushback %q, want a second", got.retry, got.pushback)
			}
		})
	}
}

func TestContextEnded(t *testing.T) {
	guard := newGuard(t, "tiers: [{name: anonymous, identity: ip, limits: 2/1h}]", slowStore{})
	intercept := grpclimit.UnaryServerInterceptor(guard)
	handler := func(context.Context, any) (any, error) {
		t.Error("the handler was called")
		return nil, nil
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, test := range []struct {
		ctx  context.Context
		want codes.Code
	}{{canceled, codes.Canceled}, {late, codes.DeadlineExceeded}} {
		_, err := intercept(test.ctx, nil, &grpc.UnaryServerInfo{FullMethod: sayMethod}, handler)
		if got := status.Code(err); got != test.want {
			t.Errorf("got %v, want %v", err, test.want)
		}
	}
}

// Nothing that a caller sends comes back in a status, or as a trailer.
func TestF34HostileMetadata(t *testing.T) {
	const evil = "evil\x7f%0d%0aX: y"
	conn := unaryServer(t, `
identities:
  key: {header: x-api-key, plain: true}
tiers:
  - {name: keyed, identity: key, limits: 0/1h}
  - {name: anonymous, identity: ip, limits: 0/1h}
`, nil, grpclimit.WithTrailer())
	ctx := metadata.AppendToOutgoingContext(t.Context(),
		"x-api-key", "evil key", "x-forwarded-for", "evil", "evil-bin", evil, "cookie", "evil=evil")
	var header, trailer metadata.MD
	err := say(ctx, conn, grpc.Header(&header), grpc.Trailer(&trailer), grpc.CallAuthority("evil.example"))
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || !strings.Contains(st.Message(), "tier keyed") {
		t.Fatalf("got %v, want a denial by the tier keyed", err)
	}
	said := []string{st.Proto().String()}
	for _, md := range []metadata.MD{header, trailer} {
		for key, values := range md {
			said = append(said, key+strings.Join(values, " "))
		}
	}
	for _, s := range said {
		if strings.Contains(s, "evil") {
			t.Errorf("the answer has what the caller sent: %q", s)
		}
	}
}

// Mistakes in the program show when it starts, all of them.
func TestWrongUse(t *testing.T) {
	guard := newGuard(t, "tiers: [{name: all, identity: ip, limits: 1/1h}]", nil)
	for _, c := range []struct {
		want string
		use  func()
	}{
		{"grpclimit: the guard is nil; want", func() { grpclimit.StreamServerInterceptor(nil) }},
		{"grpclimit: an option is nil; want", func() { grpclimit.UnaryServerInterceptor(guard, nil) }},
		{"grpclimit: the API is nil; want", func() { grpclimit.UnaryClientInterceptor(nil) }},
		{`grpclimit: ClientIP: entry 2 is "proxy"; want`, func() { grpclimit.ClientIP("10.0.0.0/8", "proxy") }},
		{"grpclimit: By: no limit; want one such as stint.PerMinute(100)", func() { grpclimit.ByIP() }},
		{"grpclimit: By: an option is nil; want a limit such as stint.PerMinute(100), or another option; " +
			"the store is nil; want a store, such as one from stores.Open; Limits[0] (-1/1m): a maximum of -1",
			func() { grpclimit.ByIP(nil, stint.PerMinute(-1), grpclimit.WithStore(nil)) }},
		{`grpclimit: By: the key is nil; want one such as ClientIP(); WithName("a b"): want letters, digits and _-.; ` +
			"WithLimits: the function is nil; WithCost: the function is nil; no limit", func() {
			grpclimit.By(nil, grpclimit.WithName("a b"), grpclimit.WithLimits(nil), grpclimit.WithCost(nil))
		}},
	} {
		testkit.Panics(t, c.want, c.use)
	}
}

// eager is a retry policy that would be back in a millisecond, were it not for the pushback.
const eager = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

// gRPC's own retries come when there is room, and not at all if there will be none.
func TestRetryPolicy(t *testing.T) {
	tests := []struct {
		name     string
		limits   string
		want     codes.Code
		attempts int64 // of a call after one that was let through
	}{
		{"room in a while", "1/1s", codes.OK, 2},
		{"never any room", "0/1h", codes.ResourceExhausted, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // one of them waits
			guard := newGuard(t, "tiers: [{name: anonymous, identity: ip, limits: "+test.limits+"}]", nil)
			var attempts atomic.Int64
			count := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				attempts.Add(1)
				return next(ctx, req)
			}
			// The trailers about usage must not prevent retries.
			limit := grpclimit.UnaryServerInterceptor(guard, grpclimit.WithTrailer())
			conn := (&echo{}).serve(t, []grpc.UnaryServerInterceptor{count, limit}, nil,
				grpc.WithDefaultServiceConfig(eager))
			_ = say(t.Context(), conn)
			attempts.Store(0)
			if err := say(t.Context(), conn); status.Code(err) != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if got := attempts.Load(); got != test.attempts {
				t.Errorf("got %d attempts, want %d", got, test.attempts)
			}
		})
	}
}

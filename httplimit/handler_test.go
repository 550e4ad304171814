package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Requests that count together: in memory those of the handlers of one middleware, in a shared store all that have
// the same name, or no name and the same limits. Limits with equal windows would otherwise be taken
// for the same limit.
func TestByCountsApart(t *testing.T) {
	twoAnHour := stint.PerHour(2)
	for _, c := range []struct {
		what          string
		first, second []httplimit.ByOption
		apart         bool
	}{
		{"names", named("login", twoAnHour), named("signup", twoAnHour), true},
		{"the same name", named("login", twoAnHour), named("login", twoAnHour), false},
		{"the same name, other limits", named("login", twoAnHour), named("login", stint.PerHour(1)), false},
		{"no names", []httplimit.ByOption{twoAnHour}, []httplimit.ByOption{twoAnHour}, false},
		{"no names, other limits", []httplimit.ByOption{twoAnHour}, []httplimit.ByOption{stint.PerHour(1)}, true},
		{"no names, another order", []httplimit.ByOption{twoAnHour, stint.PerDay(3)},
			[]httplimit.ByOption{stint.PerDay(3), twoAnHour}, false},
	} {
		for _, shared := range []bool{false, true} {
			if shared {
				store := httplimit.WithStore(memory(t))
				c.first, c.second = append(c.first, store), append(c.second, store)
			}
			by := httplimit.ByIP(c.first...)
			one, same, other := by(ok), by(ok), httplimit.ByIP(c.second...)(ok)
			got := []int{ask(one, "/").Code, ask(same, "/").Code, ask(one, "/").Code, ask(other, "/").Code}
			want := []int{200, 200, 429, 429}
			if c.apart || !shared {
				want[3] = 200
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, shared %t: got %v, want %v", c.what, shared, got, want)
			}
		}
	}
}

func named(name string, limits ...httplimit.ByOption) []httplimit.ByOption {
	return append(limits, httplimit.WithName(name))
}

// The scope in a shared store is the name, for those who inspect or reset a count there.
func TestByScope(t *testing.T) {
	store := memory(t)
	for _, options := range [][]httplimit.ByOption{
		named("login", stint.PerHour(2)), {stint.PerMinute(5).BurstTimes(2), stint.Concurrency(1, time.Minute)},
	} {
		ask(httplimit.ByIP(append(options, httplimit.WithStore(store))...)(ok), "/")
	}
	got, err := store.Scopes(t.Context(), "ip:192.0.2.1")
	if want := []string{"1/1m concurrency, 5/1m burst 2x", "login"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

var banning = stint.WithBans(stint.BanPolicy{After: 1, Within: time.Minute, Durations: []time.Duration{time.Hour}})

func userOf(r *http.Request) string { return r.Header.Get("X-User") }

// All callers together are never banned, whatever one of them does. A caller whose name is the word
// is one caller like any other: counted apart, and banned.
func TestEveryone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := httplimit.WithStore(memory(t))
		all := httplimit.By(httplimit.Everyone(), stint.PerMinute(1), banning, store)(ok)
		h := httplimit.By(userOf, stint.PerMinute(1), banning, store)(ok)
		for _, user := range []string{"bob", "everyone"} {
			for range 3 {
				ask(h, "/", "X-User: "+user)
				ask(all, "/")
			}
			time.Sleep(time.Minute)
			if got := ask(h, "/", "X-User: "+user).Code; got != http.StatusTooManyRequests {
				t.Errorf("%s: got %d after the denials, want that the caller is banned", user, got)
			}
			if got := ask(all, "/").Code; got != http.StatusOK {
				t.Errorf("all together: got %d, want 200", got)
			}
			time.Sleep(time.Minute)
		}
	})
}

// A caller who can write any key cannot write that of everyone: the subject in the store begins
// with a zero byte, and no key does.
func TestKeyWithZeroByte(t *testing.T) {
	store := httplimit.WithStore(memory(t))
	all := httplimit.By(httplimit.Everyone(), stint.PerMinute(1), store)(ok)
	h := httplimit.By(func(r *http.Request) string { return r.URL.Query().Get("user") }, stint.PerMinute(1), store)(ok)
	if got := ask(h, "/?user=%00everyone").Code; got != http.StatusInternalServerError {
		t.Errorf("got %d, want 500", got)
	}
	if got := ask(all, "/").Code; got != http.StatusOK {
		t.Errorf("all together: got %d, want 200", got)
	}
}

// Mistakes in the program show when it starts. [TestPartMistakes] has more.
func TestWrongUse(t *testing.T) {
	guard, all, limit := guardOf(t, one), httplimit.Everyone(), stint.PerMinute(1)
	for _, c := range []struct {
		want string
		use  func()
	}{
		{"httplimit: New: the guard is nil", func() { httplimit.New(nil) }},
		{"httplimit: New: the handler is nil", func() { httplimit.New(guard)(nil) }},
		{"httplimit: By: the handler is nil", func() { httplimit.By(all, limit)(nil) }},
		{"httplimit: By: no limit; want one such as stint.PerMinute(100)", func() { httplimit.ByIP() }},
		{"httplimit: By: the key is nil; want one such as ClientIP() or Header(\"X-API-Key\"), or Everyone() to count all requests together; " +
			"an option is nil; want a limit such as stint.PerMinute(100), or another option; " +
			"the store is nil; want a store, such as one from stores.Open; " +
			"Limits[0] (-1/1m): a maximum of -1; want 0 to",
			func() { httplimit.By(nil, nil, stint.PerMinute(-1), httplimit.WithStore(nil)) }},
		{`httplimit: ClientIP: entry 2 is "proxy"; want`, func() { httplimit.ClientIP("10.0.0.0/8", "proxy") }},
		{"httplimit: By: the store is nil; want a store",
			func() { httplimit.By(all, limit, httplimit.WithStore((*memorystore.Store)(nil))) }},
		{"httplimit: FirstOf: there are no keys; want at least one, such as ClientIP()", func() { httplimit.FirstOf() }},
		{"httplimit: FirstOf: key 2 is nil; want one such as ClientIP()", func() { httplimit.FirstOf(all, nil) }},
		{`httplimit: Header: "" is not the name of a header; want`, func() { httplimit.Header("") }},
		{"httplimit: FormField: the name is empty; want", func() { httplimit.FormField("") }},
		{"httplimit: JSONField: the name is empty; want", func() { httplimit.JSONField("") }},
		{"httplimit: New: an option is nil; want one from package httplimit; WithHeaders: a jitter of 50; want a share from 0 to 1",
			func() { httplimit.New(guard, nil, httplimit.WithHeaders(policy.Headers{Jitter: new(50.0)})) }},
		{"httplimit: NewTransport: the API is nil; want one from an outbound.Registry", func() { httplimit.NewTransport(nil, nil) }},
		{"httplimit: NewAnswer: an option is nil", func() { httplimit.NewAnswer(nil) }},
		{`httplimit: By: WithName("a b"): want letters`, func() { httplimit.ByIP(limit, httplimit.WithName("a b")) }},
		{"httplimit: By: WithLimits: the function is nil; WithCost: the function is nil",
			func() { httplimit.ByIP(limit, httplimit.WithLimits(nil), httplimit.WithCost(nil)) }},
	} {
		testkit.Panics(t, c.want, c.use)
	}
}

func TestKeys(t *testing.T) {
	plain, proxied := httplimit.ClientIP(), httplimit.ClientIP("192.0.2.0/24", "unix")
	const unix = "unix"
	for _, c := range []struct {
		what   string
		key    httplimit.KeyFunc
		peer   string
		fields []string
		want   string
	}{
		{"peer", plain, "198.51.100.7:1234", nil, "ip:198.51.100.7"},
		{"peer, IPv6", plain, "[2001:db8:1:2:3::4]:1234", nil, "ip:2001:db8:1:2::/64"},
		{"trusted proxy", proxied, "192.0.2.1:1234", []string{"X-Forwarded-For: 10.0.0.1, 203.0.113.9"},
			"ip:203.0.113.9"},
		{"Unix socket", plain, unix, nil, ""},
		{"Unix socket with a proxy", proxied, unix, []string{"X-Forwarded-For: 203.0.113.9"}, "ip:203.0.113.9"},
		{"no header", httplimit.Header("X-API-Key"), "192.0.2.1:1", nil, ""},
		{"empty header", httplimit.Header("X-API-Key"), "192.0.2.1:1", []string{"X-API-Key: "}, ""},
		{"header", httplimit.Header("x-api-key"), "192.0.2.1:1", []string{"X-API-Key: secret"},
			"x-api-key:2bb80d537b1da3e38bd30361aa855686"},
		{"first of", httplimit.FirstOf(httplimit.Header("X-API-Key"), plain), "192.0.2.1:1", nil, "ip:192.0.2.1"},
	} {
		r := request("GET", "/", c.fields...)
		r.RemoteAddr = c.peer
		if c.peer == unix { // whose name looks like an address
			r.RemoteAddr = "192.0.2.1:80"
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
				&net.UnixAddr{Net: "unix", Name: "s"}))
		}
		if got := c.key(r); got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
}

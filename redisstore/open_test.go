package redisstore_test

import (
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/internal/tlsfiles"
	"github.com/stint-limiter/stint/redisstore"
)

// allows makes one decision and wants it allowed.
func allows(t *testing.T, s stint.Store) {
	t.Helper()
	lim := testkit.Must(stint.New(s, stint.PerMinute(10)))(t)
	if d, err := lim.Allow(t.Context(), "user:1"); err != nil || !d.Allowed {
		t.Fatalf("decision %+v, error %v", d, err)
	}
}

// TestOpenTLSSentinel connects to servers under Sentinel that require a client certificate, with
// files that the URL names.
func TestOpenTLSSentinel(t *testing.T) {
	s := redistest.StartTLSSentinel(t)
	cert, key := s.Master.CertificateFiles()
	url := s.Sentinels[0].URL() + "?master_set=" + s.MasterName
	allows(t, open(t, tlsfiles.Files{CA: cert, Cert: cert, Key: key}.AddTo(url, true)))
}

func TestOpenACL(t *testing.T) {
	server := redistest.Start(t)
	// All that docs/redis.md says the store needs, and nothing else.
	user := []string{"ACL", "SETUSER", "limiter", "on", ">secret", "resetkeys", "resetchannels", "-@all"}
	server.CLI(t, append(user, documentedPermissions(t)...)...)
	as := func(user string) string { return strings.Replace(server.URL(), "redis://", "redis://"+user+"@", 1) }
	s := open(t, as("limiter:secret"))
	allows(t, s)
	exercise(t, s)
	if p, err := s.Present(t.Context(), driver.Presence{ID: "me"}); p.Processes != 1 || err != nil {
		t.Errorf("present: %+v, %v", p, err)
	}
	listen(t, s, func(string) {})
	version, err := s.Keep(t.Context(), "test", []driver.Row{{Name: "a", Text: "b"}}, 0, false)
	if err != nil {
		t.Error(err)
	}
	rows := []driver.Row{{Name: "a"}, {Name: "c", Text: "d"}}
	if _, err = s.Keep(t.Context(), "test", rows, version, true); err != nil {
		t.Error(err)
	}
	for _, since := range []int64{0, version} {
		if _, _, err := s.Kept(t.Context(), "test", since, func(driver.Row) {}); err != nil {
			t.Error(err)
		}
	}
	server.CLI(t, "ACL", "SETUSER", "limiter", "-hset", "-hsetnx")
	_, err = redisstore.OpenNow(t.Context(), configOf(as("limiter:secret"), []option{named(keyA)}))
	if err == nil || !strings.HasSuffix(err.Error(), "with a name key +hset and +hsetnx") {
		t.Errorf("a name key without permission to set it: %v", err)
	}
	server.CLI(t, "ACL", "SETUSER", "limiter", "+hset", "+hsetnx")
	for _, option := range []option{named(keyA), named(keyB, keyA), named(keyB)} {
		exercise(t, open(t, as("limiter:secret"), option))
	}
	if _, err := redisstore.OpenNow(t.Context(), redisstore.Config{URL: as("limiter:wrong")}); err == nil {
		t.Error("a wrong password was accepted")
	} else if strings.Contains(err.Error(), "wrong@") {
		t.Errorf("the error tells the password: %v", err)
	}
}

// documentedPermissions returns what an ACL user needs, as docs/redis.md lists it.
func documentedPermissions(t *testing.T) []string {
	t.Helper()
	page := testkit.Must(os.ReadFile("../docs/redis.md"))(t)
	_, list, _ := strings.Cut(string(page), "An ACL user needs `")
	list, _, ok := strings.Cut(list, "`. ")
	if !ok {
		t.Fatal("docs/redis.md does not say what an ACL user needs")
	}
	return strings.Fields(strings.Replace(list, "` and `", " ", 1))
}

// exercise goes through every verb once.
func exercise(t *testing.T, s stint.Store) {
	t.Helper()
	ctx := t.Context()
	bans := stint.BanPolicy{After: 1, Within: time.Minute, Durations: []time.Duration{time.Minute}, Forgive: time.Hour}
	lim := testkit.Must(stint.New(s, stint.PerSecond(1), stint.Per(1000, time.Hour), stint.TokenBucket(5, 1, time.Second),
		stint.Limit{Max: 9, Window: time.Minute, Algorithm: stint.AlgorithmFixed}, stint.Concurrency(2, time.Minute),
		stint.WithBans(bans)))(t)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	d, err := lim.Take(ctx, stint.Request{Claims: []stint.Claim{{Subject: "verbs", Cost: 1}}, ID: "r1"})
	must("take", err)
	_, err = lim.Take(ctx, stint.Request{Claims: []stint.Claim{{Subject: "verbs", Cost: 1}}, ID: "r1"})
	must("repeat", err)
	_, err = lim.Allow(ctx, "verbs")
	must("denial", err)
	_, err = s.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendExtend})
	must("heartbeat", err)
	_, err = lim.Settle(ctx, d, 3)
	must("settle", err)
	_, err = s.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendRelease})
	must("release", err)
	must("unban", lim.Unban(ctx, "verbs"))
	must("ban", lim.Ban(ctx, "verbs", time.Minute))
	must("reset", lim.Reset(ctx, "verbs"))
	must("unban", lim.Unban(ctx, "verbs")) // for the next one to exercise the same Redis
	waiter, err := stint.New(s, stint.Per(1, 50*time.Millisecond))
	must("new", err)
	for range 2 {
		_, err = waiter.Wait(ctx, "verbs:wait")
		must("wait", err)
	}
}

// TestOpenShowsNoPassword: whatever is wrong with a URL, its error has no part of the password.
func TestOpenShowsNoPassword(t *testing.T) {
	const secret = "KwxQ"
	for _, password := range []string{
		"S", "S%zzS", "S%", "%S", "S#S", "S/S", "S?S", "S/S/S", "S@S", "S:S", "1234#S", "1234/S", "1234?S", "S S",
		"S\nS", "S\x1bS", "S[S", "[S", "S]S", "S^S", "S\\S", "S|S", "S\"S", "SüS", "S&db=S",
	} {
		password = strings.ReplaceAll(password, "S", secret)
		for _, form := range []string{
			"redis://:PW@127.0.0.1:1", "redis://user:PW@127.0.0.1:1/0", "rediss://user:PW@127.0.0.1:1/0",
			"redis://:PW@127.0.0.1:port/0", "redis://:PW@127.0.0.1:99999", "redis://:PW@127.0.0.1:1/x",
			"redis://:PW@127.0.0.1:1/0/1", "redis://:PW@[::1", "redis://:PW@ho st", "redis://:PW@127.0.0.1:1?db=x",
			"redis://:PW@127.0.0.1:1?dial_timeout=x", "rediss://:PW@127.0.0.1:1?skip_verify=x",
			"unix://:PW@/nowhere/redis.sock", "redis:/:PW@127.0.0.1:1", "redis::PW@127.0.0.1:1",
			"redis//:PW@127.0.0.1:1", "http://:PW@127.0.0.1:1", ":PW@127.0.0.1:1", "user:PW@127.0.0.1:1",
			"PW@127.0.0.1:1", " redis://:PW@127.0.0.1:1", "redis://PW@127.0.0.1:1", "", "http://localhost",
		} {
			text := strings.Replace(form, "PW", password, 1)
			s, err := redisstore.OpenNow(t.Context(), redisstore.Config{URL: text})
			if err == nil {
				s.Close()
				t.Errorf("%q was accepted", text)
				continue
			}
			if !strings.Contains(err.Error(), "want redis://") && !strings.Contains(err.Error(), "connecting to ") {
				t.Errorf("%q: %v; want what a URL looks like, or which server cannot be reached", text, err)
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "1234") {
				t.Errorf("%q: the password is in %v", text, err)
			}
		}
		// Escaped, every password is a good one.
		escaped := url.URL{Scheme: "redis", User: url.UserPassword("user", password), Host: "127.0.0.1:1"}
		if _, err := redisstore.OpenNow(t.Context(), redisstore.Config{URL: escaped.String()}); err == nil ||
			!strings.Contains(err.Error(), "connecting to 127.0.0.1:1") {
			t.Errorf("%s: %v", &escaped, err)
		}
	}
}

// TestOpenTLS: a certificate of an unknown authority is refused or, with skip_verify, used and
// logged.
func TestOpenTLS(t *testing.T) {
	server := redistest.StartTLS(t)
	if _, err := redisstore.OpenNow(t.Context(), redisstore.Config{URL: server.URL()}); err == nil {
		t.Error("a certificate of an unknown authority was accepted")
	}
	certificate := adjusted(func(o *rueidis.ClientOption) { o.TLSConfig.Certificates = server.TLS().Certificates })
	withCA := adjusted(func(o *rueidis.ClientOption) { o.TLSConfig = server.TLS() })
	for url, want := range map[string]bool{server.URL() + "?skip_verify=true": true, server.URL(): false} {
		option := withCA
		if want {
			option = certificate
		}
		var log testkit.Buffer
		allows(t, open(t, url, option, func(c *redisstore.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		}))
		if got := strings.Contains(log.String(), "is not verified (skip_verify)"); got != want {
			t.Errorf("%s: warned %t, want %t: %s", url, got, want, log.String())
		}
	}
}

func TestOwnClientStaysOpen(t *testing.T) {
	server := redistest.Start(t)
	c := client(t, server.URL())
	s := testkit.Must(redisstore.OpenNow(t.Context(), redisstore.Config{Client: c, Prefix: "mine"}))(t)
	allows(t, s)
	s.Close()
	if keys := server.CLI(t, "KEYS", "*"); !strings.Contains(keys, "mine:{user:1}:limits") {
		t.Errorf("keys %q, want the prefix mine", keys)
	}
	if err := c.Do(t.Context(), c.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the caller's client was closed: %v", err)
	}
}

// What fails to open leaves no connection behind, not even that which was to replace it.
func TestAFailedOpenLeavesNothingBehind(t *testing.T) {
	server := redistest.Start(t, "--replicaof", "127.0.0.1 1")
	_, err := redisstore.OpenNow(t.Context(), redisstore.Config{URL: server.URL()})
	if errkind.Of(err) != stint.KindReadOnly {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // for a replacement
	testkit.Eventually(t, "no connection is there",
		func() bool { return !strings.Contains(server.CLI(t, "CLIENT", "LIST"), "name=stint") })
}

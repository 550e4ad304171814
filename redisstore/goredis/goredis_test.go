package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/redisstore/goredis"
	"github.com/stint-limiter/stint/storetest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func open(t *testing.T, client redis.UniversalClient, c redisstore.Config) *redisstore.Store {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	return testkit.Opened(goredis.Open(t.Context(), client, c))(t)
}

// limiter is one of ten an hour.
func limiter(t *testing.T, s stint.Store) *stint.Limiter {
	t.Helper()
	return testkit.Must(stint.New(s, stint.PerHour(10)))(t)
}

// awaitDecision waits until a store decides on user:2.
func awaitDecision(t *testing.T, what string, s stint.Store) {
	t.Helper()
	lim := limiter(t, s)
	testkit.EventuallyNil(t, what, func() error {
		_, err := lim.Allow(t.Context(), "user:2")
		return err
	})
}

// shares wants a limit of ten, all of it used by two stores at once.
func shares(t *testing.T, stores ...stint.Store) {
	t.Helper()
	var allowed atomic.Int64
	var work sync.WaitGroup
	for i := range 40 {
		lim := limiter(t, stores[i%len(stores)])
		work.Go(func() {
			switch d, err := lim.Allow(context.Background(), "user:1"); {
			case err != nil:
				t.Error(err)
			case d.Allowed:
				allowed.Add(1)
			}
		})
	}
	work.Wait()
	if got := allowed.Load(); got != 10 {
		t.Errorf("%d of 40 were allowed, want 10", got)
	}
}

// TestSingle: the store uses the database, the password, the name and the protocol of the client,
// and shares its counts with one opened by a URL.
func TestSingle(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "hunter2")
	for protocol, name := range map[int]string{2: "shop2", 3: "shop3"} {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "hunter2", DB: 3, ClientName: name,
			Protocol: protocol})
		s := open(t, client, redisstore.Config{Prefix: name})
		byURL := testkit.Opened(redisstore.Open(t.Context(), redisstore.Config{URL: server.URL() + "/3", Prefix: name}))(t)
		shares(t, s, byURL)
		key := name + ":{user:1}:limits"
		if n, err := client.Exists(t.Context(), key).Result(); n != 1 || err != nil {
			t.Errorf("%s in database 3: %d, %v", key, n, err)
		}
		ours := 0
		for line := range strings.Lines(server.CLI(t, "CLIENT", "LIST")) {
			if strings.Contains(line, " name="+name+" ") && strings.Contains(line, " cmd=evalsha ") {
				ours++
				if !strings.Contains(line, fmt.Sprintf(" resp=%d", protocol)) {
					t.Errorf("want protocol %d: %s", protocol, line)
				}
			}
		}
		if ours == 0 {
			t.Errorf("no connection of the store is named %s", name)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	server := redistest.Start(t, "--unixsocket", socket)
	byTCP := redis.NewClient(&redis.Options{Addr: server.Addr()})
	bySocket := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	shares(t, open(t, byTCP, redisstore.Config{}), open(t, bySocket, redisstore.Config{}))
}

func TestTLS(t *testing.T) {
	server := redistest.StartTLS(t, "--tls-auth-clients", "yes")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), TLSConfig: server.TLS()})
	shares(t, open(t, client, redisstore.Config{}))
	untrusting := redis.NewClient(
		&redis.Options{Addr: server.Addr(), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}})
	defer untrusting.Close()
	if open(t, untrusting, redisstore.Config{}).Ping(t.Context()) == nil {
		t.Error("a certificate of an unknown authority was accepted")
	}
}

// TestFailover: the store follows Sentinel to the new master.
func TestFailover(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: sentinel.MasterName, SentinelAddrs: sentinel.Addrs()})
	s := open(t, client, redisstore.Config{})
	shares(t, s)
	sentinel.Master.Kill()
	awaitDecision(t, "the new master decides", s)
	if got, err := sentinel.Replica.Do("EXISTS", "stint:{user:2}:limits"); got != "1" || err != nil {
		t.Errorf("the key on the new master: %s, %v", got, err)
	}
}

func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, "--requirepass", "hunter2", "--masterauth", "hunter2")
	var dialed atomic.Int64
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()[:1], Password: "hunter2",
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}})
	plain := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Password: "hunter2"})
	s := open(t, client, redisstore.Config{})
	if dialed.Load() == 0 {
		t.Error("the client's dialer was not used")
	}
	shares(t, s, open(t, plain, redisstore.Config{}))
	storetest.Linearizable(t, s) // over subjects in several slots
}

// TestCredentials: each kind of provider is asked, and the newest credentials are used.
func TestCredentials(t *testing.T) {
	server := redistest.Start(t)
	server.CLI(t, "ACL", "SETUSER", "shop", "on", ">first", "~*", "&*", "+@all")
	server.CLI(t, "ACL", "SETUSER", "next", "on", ">second", "~*", "&*", "+@all")
	server.CLI(t, "ACL", "SETUSER", "default", "off")
	provider := &provider{
		credentials: auth.NewBasicCredentials("shop", "first"), listeners: map[auth.CredentialsListener]bool{}}
	for name, o := range map[string]*redis.Options{
		"static":   {Username: "shop", Password: "first"},
		"provider": {CredentialsProvider: func() (string, string) { return "shop", "first" }},
		"provider with context": {CredentialsProviderContext: func(ctx context.Context) (string, string, error) {
			if _, ok := ctx.Deadline(); !ok {
				return "", "", errors.New("no deadline")
			}
			return "shop", "first", nil
		}},
		"stream": {StreamingCredentialsProvider: provider},
	} {
		t.Run(name, func(t *testing.T) {
			o.Addr = server.Addr()
			shares(t, open(t, redis.NewClient(o), redisstore.Config{Prefix: name}))
		})
	}
	if n := provider.count(); n != 0 {
		t.Errorf("closed stores still have %d subscriptions", n)
	}

	// Open connections change to new credentials, and later ones use them too.
	s := open(t, redis.NewClient(&redis.Options{Addr: server.Addr(), StreamingCredentialsProvider: provider}),
		redisstore.Config{Prefix: "rotated", AdjustClient: func(co *rueidis.ClientOption) {
			newest := co.AuthCredentialsFn
			co.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				got, err := newest(c)
				if got.RefreshAfter.IsZero() {
					t.Error("connections stay with their first credentials")
				}
				got.RefreshAfter = time.Now().Add(10 * time.Millisecond)
				return got, err
			}
		}})
	provider.send(auth.NewBasicCredentials("next", "second"))
	admin := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "next", Password: "second"})
	defer admin.Close()
	testkit.EventuallyNil(t, "open connections have the next user", func() error {
		list, err := admin.ClientList(t.Context()).Result()
		if err != nil || !strings.Contains(list, "user=shop") {
			return err
		}
		return errors.New(list)
	})
	if err := admin.Do(t.Context(), "ACL", "DELUSER", "shop").Err(); err != nil {
		t.Fatal(err)
	}
	_ = admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal") // ends its own connection as well
	awaitDecision(t, "decisions as the next user", s)

	// A provider that fails is the error of calls.
	failing := redis.NewClient(&redis.Options{Addr: server.Addr(),
		CredentialsProviderContext: func(context.Context) (string, string, error) {
			return "", "", errors.New("the vault is sealed")
		}})
	defer failing.Close()
	if err := open(t, failing, redisstore.Config{}).Ping(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "the vault is sealed") {
		t.Errorf("a failing provider: %v", err)
	}
}

// provider sends credentials to its listeners.
type provider struct {
	mu          sync.Mutex
	credentials auth.Credentials
	listeners   map[auth.CredentialsListener]bool
}

func (p *provider) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners[l] = true
	return p.credentials, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.listeners, l)
		return nil
	}, nil
}

func (p *provider) send(c auth.Credentials) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.credentials = c
	for l := range p.listeners {
		l.OnNext(c)
	}
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.listeners)
}

// TestAdjustClient: what the caller sets in the Config comes last.
func TestAdjustClient(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ClientName: "shop"})
	open(t, client, redisstore.Config{AdjustClient: func(co *rueidis.ClientOption) {
		if co.ClientName != "shop" {
			t.Errorf("got the name %q, want that of the client", co.ClientName)
		}
		co.ClientName = "limits"
	}})
	if list := server.CLI(t, "CLIENT", "LIST"); !strings.Contains(list, "name=limits") {
		t.Errorf("no connection is named limits:\n%s", list)
	}
}

// embedding is a client as instrumentation returns it.
type embedding struct{ *redis.Client }

func TestMistakes(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	open(t, embedding{client}, redisstore.Config{})
	for _, test := range []struct {
		client redis.UniversalClient
		config redisstore.Config
		want   string
	}{
		{nil, redisstore.Config{}, "got a <nil>; want a *redis.Client or a *redis.ClusterClient"},
		{redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr()}}), redisstore.Config{},
			"got a *redis.Ring; want"},
		{redis.NewFailoverClusterClient(&redis.FailoverOptions{
			MasterName: "a", SentinelAddrs: []string{server.Addr()}}), redisstore.Config{},
			"want a client from NewFailoverClient"},
		{client, redisstore.Config{URL: server.URL()}, "want only one of them"},
	} {
		var invalid *stint.InvalidError
		_, err := goredis.Open(t.Context(), test.client, test.config)
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%T: got %v, want %q", test.client, err, test.want)
		}
		if test.client != nil && test.client != redis.UniversalClient(client) {
			_ = test.client.Close()
		}
	}
}

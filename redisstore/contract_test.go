package redisstore_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/storetest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// option changes the settings of a store under test.
type option func(*redisstore.Config)

func prefixed(prefix string) option { return func(c *redisstore.Config) { c.Prefix = prefix } }

func adjusted(adjust func(*rueidis.ClientOption)) option {
	return func(c *redisstore.Config) { c.AdjustClient = adjust }
}

func configOf(url string, options []option) redisstore.Config {
	c := redisstore.Config{URL: url}
	for _, o := range options {
		o(&c)
	}
	return c
}

// open opens a store that can be used.
func open(t testing.TB, url string, options ...option) *redisstore.Store {
	t.Helper()
	return testkit.Opened(redisstore.OpenNow(t.Context(), configOf(url, options)))(t)
}

// stackOver returns package resilience over a store, whose budget no busy machine exceeds.
func stackOver(t testing.TB, store driver.BatchStore, c resilience.Config) *resilience.Stack {
	t.Helper()
	c.Failure.Budget = 10 * time.Second
	return testkit.Opened(resilience.New(store, c))(t)
}

// unit is a request for a unit of a subject.
func unit(subject string, limits ...stint.Limit) stint.Request {
	return stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limits, Cost: 1}}}
}

// take decides a request.
func take(t testing.TB, s stint.Store, r stint.Request) stint.Decision {
	t.Helper()
	return testkit.Must(s.Take(t.Context(), r))(t)
}

// admit decides a request that is to be allowed.
func admit(t testing.TB, s stint.Store, r stint.Request) stint.Decision {
	t.Helper()
	d := take(t, s, r)
	if !d.Allowed {
		t.Fatalf("denied: %+v", d)
	}
	return d
}

func amend(t testing.TB, s stint.Store, c stint.Charge, a stint.Amendment) stint.Amended {
	t.Helper()
	return testkit.Must(s.Amend(t.Context(), c, a))(t)
}

func settle(cost int64) stint.Amendment {
	return stint.Amendment{Kind: stint.AmendSettle, Cost: cost}
}

func command(t testing.TB, s stint.Store, c stint.Command) {
	t.Helper()
	if err := s.Command(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// usedOf is how many units of its first limit a subject has used.
func usedOf(t testing.TB, s stint.Store, subject string, l stint.Limit) int64 {
	t.Helper()
	r := unit(subject, l)
	r.Mode = stint.ModePeek
	d := take(t, s, r)
	return d.Usages()[0].Used
}

// wantUsed checks how many units of its first limit a subject has used.
func wantUsed(t testing.TB, s stint.Store, subject string, l stint.Limit, want int64) {
	t.Helper()
	if got := usedOf(t, s, subject, l); got != want {
		t.Errorf("%s of %s: %d used, want %d", l, subject, got, want)
	}
}

// client is a connection of the test's own, to look behind the store's back.
func client(t *testing.T, url string) rueidis.Client {
	t.Helper()
	o := testkit.Must(rueidis.ParseURL(url))(t)
	o.DisableCache = true
	c := testkit.Must(rueidis.NewClient(o))(t)
	t.Cleanup(c.Close)
	return c
}

// masters calls f for every node that is not a replica.
func masters(t testing.TB, c rueidis.Client, f func(node rueidis.Client)) {
	t.Helper()
	for addr, node := range c.Nodes() {
		role, err := node.Do(context.Background(), node.B().Role().Build()).ToArray()
		if err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		if name, _ := role[0].ToString(); name == "master" {
			f(node)
		}
	}
}

// ttls returns every key with what is left of its life; −1 is for ever.
func ttls(t testing.TB, node rueidis.Client) map[string]int64 {
	t.Helper()
	ctx := context.Background()
	keys := testkit.Must(node.Do(ctx, node.B().Keys().Pattern("*").Build()).AsStrSlice())(t)
	var ask rueidis.Commands
	for _, key := range keys {
		ask = append(ask, node.B().Pttl().Key(key).Build())
	}
	left := map[string]int64{}
	for i, answer := range node.DoMulti(ctx, ask...) {
		left[keys[i]] = testkit.Must(answer.AsInt64())(t)
	}
	return left
}

// wantTTLs fails the test if a key has no TTL: nothing of ours may stay for ever but sealed data
// keys.
func wantTTLs(t *testing.T, c rueidis.Client) {
	t.Helper()
	masters(t, c, func(node rueidis.Client) {
		for key, left := range ttls(t, node) {
			if left == -1 && key != "stint:names" {
				t.Errorf("key %q has no TTL", key)
			}
		}
	})
}

// clocked returns a harness over a store whose clock the test moves. The clocks of the servers of
// [redistest.StartFakeTime] move with it, and so keys expire by it, however slow the machine is.
// After the test every key must have a TTL, and is removed.
func clocked(t *testing.T, s *redisstore.Store, c rueidis.Client, servers ...*redistest.Server) storetest.Harness {
	clock := &storetest.Clock{}
	s.SetClock(clock.Now)
	clock.OnAdvance = func(time.Duration) {
		for _, server := range servers {
			server.StopClock(t, clock.Now())
		}
	}
	clock.Advance(0)
	t.Cleanup(func() {
		wantTTLs(t, c)
		flush(t, c)
	})
	return storetest.Harness{
		Store: s,
		Clock: clock,
		Disturbances: map[string]func(testing.TB){
			"script flush": func(t testing.TB) {
				masters(t, c, func(node rueidis.Client) {
					if err := node.Do(context.Background(), node.B().ScriptFlush().Build()).Error(); err != nil {
						t.Fatal(err)
					}
				})
			},
		},
	}
}

// flush removes every key.
func flush(t testing.TB, c rueidis.Client) {
	t.Helper()
	masters(t, c, func(node rueidis.Client) {
		if err := node.Do(context.Background(), node.B().Flushall().Build()).Error(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSingle(t *testing.T) {
	server := redistest.StartFakeTime(t)
	s, c := open(t, server.URL()), client(t, server.URL())
	fresh := func(t *testing.T) storetest.Harness { return clocked(t, s, c, server) }
	t.Run("examples", func(t *testing.T) { storetest.Run(t, fresh) })
	t.Run("concurrent", func(t *testing.T) { storetest.Linearizable(t, open(t, server.URL())) })
	wantTTLs(t, c)
}

func TestModel(t *testing.T) {
	testkit.SkipUnderRace(t)
	server := redistest.StartFakeTime(t)
	s, c := open(t, server.URL()), client(t, server.URL())
	storetest.Model(t, func(t *testing.T) storetest.Harness { return clocked(t, s, c, server) })
	wantTTLs(t, c)
}

// TestModelOfLayers runs the model through all that may be between a limiter and the scripts: package
// resilience, batches of other requests, and hashed names.
func TestModelOfLayers(t *testing.T) {
	testkit.SkipUnderRace(t)
	server := redistest.StartFakeTime(t)
	s, c := open(t, server.URL(), named(keyA)), client(t, server.URL())
	storetest.Model(t, func(t *testing.T) storetest.Harness {
		h := clocked(t, s, c, server)
		h.Store = stackOver(t, &crowded{Store: s}, resilience.Config{
			Failure: stint.FailurePolicy{Mode: stint.FailError}, NoDenyCache: true, NoLeases: true})
		return h
	})
	wantTTLs(t, c)
}

// TestModelOnCluster runs the model on a Cluster of one node, whose clock can stand still.
func TestModelOnCluster(t *testing.T) {
	testkit.SkipUnderRace(t)
	t.Parallel()
	server := redistest.StartFakeTime(t, "--cluster-enabled", "yes", "--cluster-port", "0")
	server.CLI(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	testkit.Eventually(t, "the Cluster is up", func() bool {
		return strings.Contains(server.CLI(t, "CLUSTER", "INFO"), "cluster_state:ok")
	})
	s, c := open(t, server.URL()), client(t, server.URL())
	storetest.Model(t, func(t *testing.T) storetest.Harness {
		h := clocked(t, s, c, server)
		h.SplitSubjects = true
		return h
	})
	wantTTLs(t, c)
}

// TestCluster tests what is different on a Cluster of several nodes. Checks that move the clock are
// above.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	c, s := client(t, cluster.URL()), open(t, cluster.URL())
	for name, test := range map[string]func(t *testing.T, cluster *redistest.Cluster){
		"a denial charges no ceiling":      aDenialChargesNoCeiling,
		"giving back is not waited for":    givingBackIsNotWaitedFor,
		"late charges are given back":      lateChargesAreGivenBack,
		"close gives back":                 closeGivesBack,
		"repeats have the charge":          repeatsHaveTheCharge,
		"a batch is its requests in order": aBatchIsItsRequestsInOrder,
		"info is added up":                 infoIsAddedUp,
		"scopes are asked of one node":     scopesAreOfOneNode,
		"concurrent":                       func(t *testing.T, _ *redistest.Cluster) { storetest.Linearizable(t, s) },
		"examples": func(t *testing.T, _ *redistest.Cluster) {
			storetest.Run(t, func(*testing.T) storetest.Harness {
				return storetest.Harness{Store: s, SplitSubjects: true}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			flush(t, c)
			test(t, cluster)
			wantTTLs(t, c)
		})
	}
}

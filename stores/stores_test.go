package stores_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

var discard = slog.New(slog.DiscardHandler)

// unhurried has a budget that no busy machine exceeds.
var unhurried = stint.FailurePolicy{Budget: time.Minute}

// quiet is a Config that logs nothing.
func quiet() stores.Config {
	return stores.Config{
		Redis:      redisstore.Config{Logger: discard},
		Resilience: resilience.Config{Logger: discard, Failure: unhurried},
	}
}

// open opens a store that is closed with the test.
func open(t *testing.T, c stores.Config, url string) stores.Store {
	t.Helper()
	return testkit.Opened(c.Open(t.Context(), url))(t)
}

// unit is one of ten per hour.
var unit = stint.Claim{Subject: "user:1", Limits: []stint.Limit{stint.PerHour(10)}, Cost: 1}

// take charges a unit.
func take(t *testing.T, store stint.Store) stint.Decision {
	t.Helper()
	return testkit.Must(store.Take(t.Context(), stint.Request{Claims: []stint.Claim{unit}}))(t)
}

func TestMemory(t *testing.T) {
	before := runtime.NumGoroutine()
	c := stores.Config{Memory: memorystore.Config{MaxBytes: 1 << 20}}
	store := open(t, c, "memory")
	if d := take(t, store); !d.Allowed || d.Degraded {
		t.Errorf("got %+v, want an admission", d)
	}
	// It is the store itself, whose limiters have a shorter way to ask it.
	if m, ok := store.(*memorystore.Store); !ok || m.Stats().MaxBytes != 1<<20 {
		t.Errorf("got %T, want a store in memory of 1 MiB", store)
	}
	if err := store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := store.Ping(t.Context()); err == nil {
		t.Error("a store that is closed is there")
	}
	redistest.CheckGoroutines(t, before)
}

// TestMistakes: what waiting does not fix is an error, without the URL's secrets.
func TestMistakes(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.pem")
	for url, want := range map[string]string{
		"":                                        `no store URL; want "memory", or a URL such as`,
		"memmory":                                 `redis://, rediss:// or unix:// (did you mean "memory"?); want "memory", `,
		"memory://":                               `(did you mean "memory"?)`,
		"localhost:6379":                          `begin with redis://, rediss:// or unix://; want "memory", `,
		"redis:/localhost":                        "begin with redis://",
		"redis://local host/":                     "it cannot be parsed; want",
		"redis://:6379":                           "it has no host; want",
		"redis://localhost:99999":                 "a port is not a number up to 65535; want",
		"redis://localhost?addr=secret:99999":     "a port is not a number up to 65535; want",
		"redis://localhost?addr=secret":           "an addr is not host:port; want",
		"redis://localhost?mastr_set=secret":      `(did you mean "master_set"?)`,
		"redis://localhost?secret=x":              "unknown parameter; want addr, ca_file, ",
		"redis://:secret@local host/":             "as %20; want redis://",
		"redis://localhost/x":                     "want redis://",
		"rediss://localhost?ca_file=" + missing:   missing + ": no such file",
		"redis://localhost?ca_file=" + missing:    "want a URL that begins with rediss://",
		"rediss://localhost?cert_file=" + missing: "key_file",
	} {
		over, cancel := context.WithTimeout(t.Context(), 0) // mistakes take no time to find
		store, err := quiet().Open(over, url)
		cancel()
		if invalid, ok := errors.AsType[*stint.InvalidError](err); !ok || store != nil ||
			!strings.Contains(invalid.Error(), want) || strings.Contains(invalid.Error(), "secret") {
			t.Errorf("%q: got %v, %v; want %s", url, store, err, want)
		}
	}
	c := quiet()
	c.Resilience.Instances = -1
	if _, err := c.Open(t.Context(), redistest.Start(t).URL()); err == nil ||
		!strings.Contains(err.Error(), "Instances is -1") {
		t.Errorf("got %v, want what is wrong with the stack", err)
	}
	_, err := (stores.Config{Memory: memorystore.Config{MaxBytes: -1}}).Open(t.Context(), "memory")
	if !errors.As(err, new(*stint.InvalidError)) {
		t.Errorf("a store in memory of -1 bytes: %v, want an InvalidError", err)
	}
	if store, err := stores.Open(t.Context(), "ftp://localhost"); err == nil || store != nil {
		t.Errorf("got %v, %v; want a mistake", store, err)
	}
}

// TestNameKey: that a Redis is used with another name key is an error where it is known, and else a
// reason not to use it.
func TestNameKey(t *testing.T) {
	redis := redistest.Start(t)
	ours, theirs := quiet(), quiet()
	ours.Redis.NameKeys = [][]byte{[]byte("a name key of more than 32 bytes, the first")}
	theirs.Redis.NameKeys = [][]byte{[]byte("a name key of more than 32 bytes, the second")}
	open(t, ours, redis.URL()).Close()
	if _, err := theirs.Open(t.Context(), redis.URL()); !errors.Is(err, redisstore.ErrNameKey) {
		t.Errorf("got %v, want that the key does not match", err)
	}
	redis.Pause(t)
	store := open(t, theirs, redis.URL())
	redis.Resume(t)
	testkit.Eventually(t, "Ping says why", func() bool {
		return errors.Is(store.Ping(t.Context()), redisstore.ErrNameKey)
	})
	if d := take(t, store); !d.Degraded {
		t.Errorf("got %+v, want a decision without this Redis", d)
	}
}

// TestRedis is connected when Open returns, in every form of URL, and counts there.
func TestRedis(t *testing.T) {
	single := redistest.Start(t)
	withTLS := redistest.StartTLS(t)
	ca, _ := withTLS.CertificateFiles()
	sentinel := redistest.StartSentinel(t)
	cluster := redistest.StartCluster(t)
	for name, url := range map[string]string{
		"single":   single.URL() + "\n", // from a file
		"TLS":      withTLS.URL() + "?ca_file=" + ca,
		"Sentinel": "redis://" + sentinel.Sentinels[0].Addr() + "?master_set=" + sentinel.MasterName,
		"Cluster":  "redis://" + cluster.Nodes[0].Addr() + "?addr=" + cluster.Nodes[1].Addr(),
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			first, second := open(t, quiet(), url), open(t, quiet(), url)
			if err := first.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			for n, store := range []stores.Store{first, second} {
				if d := take(t, store); d.Degraded || d.Remaining() != int64(9-n) {
					t.Errorf("take %d: got %+v, want %d left in Redis", n+1, d, 9-n)
				}
			}
			if shown, err := second.Inspect(t.Context(), unit); err != nil || shown.Windows[0].Used != 2 {
				t.Errorf("got %+v, %v; want 2 used", shown, err)
			}
			for _, store := range []stores.Store{first, second, first} {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := first.Ping(t.Context()); err == nil {
				t.Error("a store that is closed is there")
			}
			redistest.CheckGoroutines(t, before)
		})
	}
}

// TestRedisComesLater: Open returns while Redis is away, whatever the reason. Decisions are local
// until it comes, and counted in Redis from then on, those of before too.
func TestRedisComesLater(t *testing.T) {
	for name, test := range map[string]struct {
		away, come func(*testing.T, *redistest.Server)
		kind       stint.StoreErrorKind
	}{
		"refused": {
			func(_ *testing.T, r *redistest.Server) { r.Kill() },
			func(t *testing.T, r *redistest.Server) { r.Restart(t) }, "unreachable",
		},
		"silent": {
			func(t *testing.T, r *redistest.Server) { r.Pause(t) },
			func(t *testing.T, r *redistest.Server) { r.Resume(t) }, "timeout",
		},
		"password": {
			func(*testing.T, *redistest.Server) {},
			func(t *testing.T, r *redistest.Server) { r.CLI(t, "CONFIG", "SET", "requirepass", "") }, "auth",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var options []string
			if test.kind == "auth" {
				options = []string{"--requirepass", "secret"}
			}
			redis := redistest.Start(t, options...)
			before := runtime.NumGoroutine()
			test.away(t, redis)
			var log testkit.Buffer
			c := stores.Config{Resilience: resilience.Config{
				Logger: slog.New(slog.NewTextHandler(&log, nil)), Failure: unhurried}}
			store := open(t, c, "redis://"+redis.Addr())
			failed, ok := errors.AsType[*stint.StoreError](store.Ping(t.Context()))
			if !ok || failed.Kind != test.kind {
				t.Errorf("Ping: %v, want the kind %s", failed, test.kind)
			}
			if d := take(t, store); !d.Allowed || !d.Degraded {
				t.Errorf("got %+v, want a local admission", d)
			}
			test.come(t, redis)
			testkit.Eventually(t, "Ping succeeds", func() bool { return store.Ping(t.Context()) == nil })
			testkit.Eventually(t, "decided by Redis, with what was charged before", func() bool {
				d, err := store.Take(t.Context(), stint.Request{Claims: []stint.Claim{unit}, Mode: stint.ModePeek})
				return err == nil && !d.Degraded && d.Decisive().Used == 1
			})
			testkit.Eventually(t, "the log says so",
				func() bool { return strings.Contains(log.String(), "the store is available again") })
			if err := store.Close(); err != nil {
				t.Error(err)
			}
			text := log.String()
			// One line says that it is away. Others say what was asked meanwhile.
			if strings.Count(text, "level=ERROR")-strings.Count(text, "limit=10/1h") > 1 ||
				strings.Contains(text, "not permitted to subscribe") {
				t.Errorf("logged %s", text)
			}
			redistest.CheckGoroutines(t, before)
		})
	}
}

// TestTLSToAServerWithout: what looks like a silent server has a hint.
func TestTLSToAServerWithout(t *testing.T) {
	store := open(t, quiet(), "rediss://"+redistest.Start(t).Addr())
	testkit.Eventually(t, "Ping asks whether it uses TLS", func() bool {
		err := store.Ping(t.Context())
		return err != nil && strings.Contains(err.Error(), "does the server use TLS? If not, use redis://")
	})
}

// TestContext: the context bounds Open and nothing else.
func TestContext(t *testing.T) {
	redis := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	store := testkit.Must(quiet().Open(ctx, redis.URL()))(t)
	defer store.Close()
	cancel()
	if d := take(t, store); d.Degraded {
		t.Errorf("got %+v, want a decision of Redis", d)
	}

	redis.Pause(t)
	defer redis.Resume(t)
	before := runtime.NumGoroutine()
	if store, err := quiet().Open(ctx, redis.URL()); !errors.Is(err, context.Canceled) || store != nil {
		t.Errorf("canceled: got %v, %v; want that it is", store, err)
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	late, err := quiet().Open(ended, redis.URL())
	if err != nil {
		t.Fatalf("a deadline: got %v, want a store", err)
	}
	if err := late.Close(); err != nil {
		t.Error(err)
	}
	redistest.CheckGoroutines(t, before)
}

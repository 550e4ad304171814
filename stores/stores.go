package stores

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/redisurl"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// Store is the type that [Open] returns. It is safe for concurrent use.
type Store interface {
	driver.Inspector
	driver.Keeper
	// Ping reports whether the store can be reached now. While Redis is not connected, Ping tries
	// to connect, within ctx, and returns why that failed. It bypasses the layers on top of Redis:
	// for a moment, decisions may be made locally although Ping succeeds, or by Redis although it
	// fails.
	Ping(ctx context.Context) error
	// Close gives back leases, and charges the units that were admitted without Redis. This takes
	// at most a few seconds. It then closes the connections. Later calls have no effect.
	Close() error
}

var (
	_ Store = (*memorystore.Store)(nil)
	_ Store = (*redisStore)(nil)
)

const memory = "memory"

// Open opens the store with the given URL, using the zero [Config].
func Open(ctx context.Context, url string) (Store, error) { return Config{}.Open(ctx, url) }

// MustOpen is like [Open] but panics if Open returns an error. It is for programs that cannot run
// without a valid store URL:
//
//	func main() {
//		store := stores.MustOpen(context.Background(), "redis://localhost:6379")
//		defer store.Close()
//	}
//
// It does not panic if Redis is unavailable.
func MustOpen(ctx context.Context, url string) Store {
	store, err := Open(ctx, url)
	if err != nil {
		panic("stores: MustOpen: " + err.Error())
	}
	return store
}

// Config configures how a store is opened. The zero Config is the recommended one.
type Config struct {
	// Memory configures the store in memory.
	Memory memorystore.Config
	// Redis configures the connection to Redis. Its URL is the one passed to [Config.Open].
	Redis redisstore.Config
	// Resilience configures the layers on top of Redis. Its Logger also receives the reason why
	// Redis is not connected, unless there is no fallback: then every request fails with that
	// error.
	Resilience resilience.Config
}

// Open opens the store with the given URL: "memory", or one of the forms that package redisstore
// lists. With Redis.Client, or addresses from Redis.AdjustClient, the URL may be "".
//
// Open returns when the first attempt to connect has ended, after one second, or at the end of ctx,
// whichever comes first; ctx does not affect the store afterwards. An error reports a mistake that
// waiting does not fix (see the package comment): it is a [*stint.InvalidError], which reveals
// nothing about the URL, or [redisstore.ErrNameKey]. Open also returns an error if ctx was
// canceled.
func (c Config) Open(ctx context.Context, url string) (Store, error) {
	url = strings.TrimSpace(url) // a URL from a file may end in a line break
	switch {
	case url == memory:
		return openMemory(c.Memory)
	case redisurl.Is(url), c.Redis.Client != nil, url == "" && c.Redis.AdjustClient != nil:
	default:
		wrong := "the URL of the store " + redisurl.Begin +
			messages.Hint(strings.Trim(url, ":/"), []string{memory})
		if url == "" {
			wrong = "no store URL"
		}
		return nil, &stint.InvalidError{Err: errors.New(wrong +
			`; want "memory", or a URL such as redis://localhost:6379`)}
	}
	c.Redis.URL = url
	if c.Resilience.Logger == nil {
		c.Resilience.Logger = cmp.Or(c.Redis.Logger, slog.Default())
	}
	c.Redis.Logger = cmp.Or(c.Redis.Logger, c.Resilience.Logger)
	redis, err := redisstore.Open(ctx, c.Redis)
	if err != nil {
		return nil, err
	}
	stack, err := resilience.New(redis, c.Resilience)
	if err != nil {
		_ = redis.Close()
		return nil, err
	}
	s := &redisStore{Stack: stack, redis: redis}
	s.close = sync.OnceValue(func() error { return errors.Join(stack.Close(), redis.Close()) })
	return s, nil
}

// openMemory opens a store in memory. If this fails, it returns a nil Store, not a Store that holds
// a nil pointer.
func openMemory(c memorystore.Config) (Store, error) {
	s, err := memorystore.New(c)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// redisStore is a resilience stack over a Redis store, which it can also reach directly.
type redisStore struct {
	*resilience.Stack
	redis *redisstore.Store
	close func() error
}

// Ping implements [Store].
func (s *redisStore) Ping(ctx context.Context) error { return s.redis.Ping(ctx) }

// Close implements [Store].
func (s *redisStore) Close() error { return s.close() }

// Info reports the state of the servers. See [redisstore.Store.Info].
func (s *redisStore) Info(ctx context.Context) (redisstore.Info, error) { return s.redis.Info(ctx) }

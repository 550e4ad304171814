package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/redisstore"
)

// Any number of processes share the limits of one Redis. Package stores opens one that is ready for
// production.
func Example() {
	ctx := context.Background()
	store, err := redisstore.Open(ctx, redisstore.Config{URL: os.Getenv("REDIS_URL")})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(2))
	for range 3 {
		d, err := lim.Allow(ctx, "user:42")
		fmt.Println(d.Allowed, d.Remaining(), err)
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

// A mistake in the Config is reported without a connection, and shows nothing of the URL.
func ExampleOpen() {
	_, err := redisstore.Open(context.Background(), redisstore.Config{URL: "localhost:6379"})
	fmt.Println(err)
	// Output:
	// stint: invalid: the URL of Redis: it does not begin with redis://, rediss:// or unix://; want redis://user:password@host:6379/0, rediss:// for TLS, ?addr=host:port for more nodes and ?master_set=name for Sentinel
}

// With a key, Redis holds keyed hashes instead of names.
func ExampleConfig_nameKeys() {
	ctx := context.Background()
	store, err := redisstore.Open(ctx, redisstore.Config{
		URL:      os.Getenv("REDIS_URL"),
		Prefix:   "shop", // every key begins with it
		NameKeys: [][]byte{[]byte("use 32 random bytes from a file, please")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.WithBans(stint.BanPolicy{}))
	_ = lim.Ban(ctx, "user:alice", time.Minute)
	bans, _ := store.Bans(ctx, 10)
	kind, hash, _ := strings.Cut(bans[0].Subject, "#")
	fmt.Println(kind, len(hash))
	// Output:
	// user 22
}

// Info shows what the servers report, and warns of those that do not keep limits well.
func ExampleStore_Info() {
	ctx := context.Background()
	store, err := redisstore.Open(ctx, redisstore.Config{URL: os.Getenv("REDIS_URL")})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	info, err := store.Info(ctx)
	fmt.Println(info.Mode, info.Role, info.MaxMemoryPolicy, info.Warnings, err)
	// Output:
	// standalone master noeviction [] <nil>
}

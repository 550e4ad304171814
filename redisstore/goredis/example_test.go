package goredis_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/redisstore/goredis"
)

// A program that has a go-redis client keeps its limits on the same servers.
func ExampleOpen() {
	ctx := context.Background()
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(options) // or a cluster client, or one with Sentinels
	defer client.Close()
	store, err := goredis.Open(ctx, client, redisstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(100))
	d, err := lim.Allow(ctx, "user:42")
	fmt.Println(d.Allowed, d.Remaining(), err)
	// Output:
	// true 99 <nil>
}

package goredis_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/redisstore/goredis"
)

// A program that has a go-redis client keeps its limits on the same servers.
func ExampleOpen() {
	ctx := context.Background()
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "main",
		SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
		Username:      "shop",
		Password:      "...",
	})
	defer client.Close()

	store, err := goredis.Open(ctx, client, redisstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := stint.New(store, stint.PerMinute(100))
	if err != nil {
		log.Fatal(err)
	}
	decision, err := limiter.Allow(ctx, "user:42")
	if err != nil {
		log.Fatal(err)
	}
	log.Println(decision.Allowed)
}

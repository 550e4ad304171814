package start

import (
	"log"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	redisstore "github.com/ulule/limiter/v3/drivers/store/redis"
)

func ululeFirst() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	instance := limiter.New(memory.NewStore(), limiter.Rate{Period: time.Minute, Limit: requests})
	log.Fatal(http.ListenAndServe(addr, stdlib.NewMiddleware(instance).Handler(mux)))
}

func ululeRedis() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	store, err := redisstore.NewStore(redis.NewClient(&redis.Options{Addr: redisAddr}))
	if err != nil {
		log.Fatal(err)
	}
	instance := limiter.New(store, limiter.Rate{Period: time.Minute, Limit: requests})
	log.Fatal(http.ListenAndServe(addr, stdlib.NewMiddleware(instance).Handler(mux)))
}

func ululeUser() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	instance := limiter.New(memory.NewStore(), limiter.Rate{Period: time.Minute, Limit: requests})
	middleware := stdlib.NewMiddleware(instance, stdlib.WithKeyGetter(userOf))
	log.Fatal(http.ListenAndServe(addr, middleware.Handler(mux)))
}

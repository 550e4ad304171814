package start

import (
	"log"
	"net"
	"net/http"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// redis_rate has no middleware and counts only in Redis.
func redisRateRedis() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: redisAddr}))
	log.Fatal(http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, _ := net.SplitHostPort(r.RemoteAddr)
		result, err := limiter.Allow(r.Context(), ip, redis_rate.PerMinute(requests))
		switch {
		case err != nil:
			http.Error(w, "cannot decide", http.StatusServiceUnavailable)
		case result.Allowed == 0:
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		default:
			mux.ServeHTTP(w, r)
		}
	})))
}

func redisRateUser() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: redisAddr}))
	log.Fatal(http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, err := limiter.Allow(r.Context(), userOf(r), redis_rate.PerMinute(requests))
		switch {
		case err != nil:
			http.Error(w, "cannot decide", http.StatusServiceUnavailable)
		case result.Allowed == 0:
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		default:
			mux.ServeHTTP(w, r)
		}
	})))
}

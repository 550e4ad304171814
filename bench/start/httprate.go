package start

import (
	"log"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
)

// LimitByIP and KeyByIP are deprecated, but the replacement that their comments recommend needs chi
// and more lines. The shortest program counts.
func httprateFirst() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	log.Fatal(http.ListenAndServe(addr, httprate.LimitByIP(requests, time.Minute)(mux)))
}

func httprateRedis() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	counter := httprateredis.WithRedisLimitCounter(&httprateredis.Config{Host: redisHost, Port: redisPort})
	log.Fatal(http.ListenAndServe(addr, httprate.LimitBy(requests, time.Minute, httprate.KeyByIP, counter)(mux)))
}

func httprateUser() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	log.Fatal(http.ListenAndServe(addr, httprate.LimitBy(requests, time.Minute, userKey)(mux)))
}

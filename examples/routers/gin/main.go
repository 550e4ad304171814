// Command gin limits requests to a group of gin routes: each address may make 10 requests per
// minute to /api.
//
//	go run -C examples/routers ./gin
//	for i in $(seq 11); do curl -i http://localhost:8080/api/; done
//
// The first ten responses are 200. The last one is 429, with Retry-After.
package main

import (
	"log"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
)

func main() {
	r := gin.Default()
	api := r.Group("/api", use(httplimit.ByIP(stint.PerMinute(10))))
	api.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello\n") })
	log.Fatal(http.ListenAndServe("localhost:8080", r))
}

// use adapts the middleware of [httplimit.By] to gin. Do not use it for the middleware of
// [httplimit.New]. To refund and settle costs, that middleware passes on a ResponseWriter that
// records the response, but gin's handlers would not write to it. Put that middleware around the
// engine: http.ListenAndServe(address, limit(r)).
func use(limit func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		allowed := false
		limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			allowed = true
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !allowed {
			c.Abort()
		}
	}
}

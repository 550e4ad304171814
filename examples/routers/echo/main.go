// Command echo limits requests to an echo router: each address may make 10 requests per minute.
//
//	go run -C examples/routers ./echo
//	for i in $(seq 11); do curl -i http://localhost:8080/; done
//
// The first ten responses are 200. The last one is 429, with Retry-After.
package main

import (
	"log"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
)

func main() {
	e := echo.New()
	e.Use(echo.WrapMiddleware(httplimit.ByIP(stint.PerMinute(10))), answerErrors)
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "hello\n") })
	log.Fatal(http.ListenAndServe("localhost:8080", e))
}

// answerErrors answers the errors of handlers before the middleware of package httplimit has
// finished. Otherwise, echo answers them later. The middleware of [httplimit.New] would then not
// see their status, and could not refund failed requests.
func answerErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := next(c); err != nil {
			c.Error(err)
		}
		return nil
	}
}

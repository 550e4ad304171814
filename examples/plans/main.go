// Command plans applies each customer's own plan, from a table in memory that stands for your
// database, and charges each request its cost.
//
//	go run ./examples/plans
//	for i in 1 2 3; do curl -si -u ann: localhost:8080/ | grep -iE 'HTTP|X-RateLimit-(Limit|Remaining)'; done
//
// Ann has 500 requests a minute and 10,000 a month in her time zone, and Bob has 2 a minute. A
// report costs 2. Everyone else has 1 a minute.
package main

import (
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
)

// plans holds the limits of customers. A real program refreshes them from its database; see
// docs/plans.md.
var plans = map[string][]stint.Limit{
	"user:ann": {stint.PerMinute(500), stint.Monthly(10_000).On(17).In("America/New_York")},
	"user:bob": {stint.PerMinute(2)},
}

func main() {
	limit := httplimit.By(customer, stint.PerMinute(1),
		httplimit.WithLimits(func(r *http.Request) []stint.Limit { return plans[customer(r)] }),
		httplimit.WithCost(cost))
	log.Fatal(http.ListenAndServe("localhost:8080", limit(http.HandlerFunc(hello))))
}

// customer returns the caller. It stands for your authentication.
func customer(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return "user:" + name
}

func cost(r *http.Request) int64 {
	if strings.HasPrefix(r.URL.Path, "/report") {
		return 2
	}
	return 1
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello", customer(r)) }

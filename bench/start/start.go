// Package start has small complete programs with stint and with other limiters, side by side: the
// first 429, the same in Redis, and the same per user. Each function is the main function of a
// program. A test runs them all and counts their lines for docs/benchmarks.md.
//
// The rules: as short as gofmt and 120 columns allow, with the error handling of the project's own
// README, and no function or variable of this file that hides a step. This file has what an
// application has anyway: a handler, a function that returns the signed-in user in the form that
// the library wants, and addresses, which a real program has as text.
package start

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// requests is the limit per minute. The next request gets the 429.
const requests = 3

// The addresses: the one on which a program listens, and a Redis in the three forms that libraries
// want.
var (
	addr                 = os.Getenv("START_ADDR")
	redisURL             = os.Getenv("START_REDIS")
	redisAddr            = strings.TrimPrefix(redisURL, "redis://")
	redisHost, redisPort = split(redisAddr)
)

func split(addr string) (host string, port uint16) {
	host, text, _ := net.SplitHostPort(addr)
	n, _ := strconv.ParseUint(text, 10, 16)
	return host, uint16(n)
}

// hello is the application.
func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

// userOf returns the sender of a request according to the application's authentication.
func userOf(r *http.Request) string { return "user:" + r.Header.Get("X-User") }

// userKey is userOf as an application with httprate would write it.
func userKey(r *http.Request) (string, error) { return userOf(r), nil }

// Package faults contains only tests. They test stint as a whole. They break real Redis servers in
// every way that stint promises to survive. They also send every known spelling of a request
// through real proxies, and pass on to real frameworks what the proxies let through. Each row of
// docs/faults.md gives the number of its test.
//
// `make test` checks only outcomes. `make faults` also measures durations, compares them
// with the promises and prints the table in docs/faults.md. `make soak` causes faults at random for
// ten minutes.
package faults

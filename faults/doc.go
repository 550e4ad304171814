// Package faults has no code, only tests of the whole of stint: they break real Redis servers in
// every way that stint promises to survive, and send every known spelling of a request through real
// proxies, and what passes to real frameworks. A row of docs/faults.md is the test with its number.
//
// `make test` runs them for their outcomes. `make faults` also measures how long things take, holds
// the times to the promises and prints the table in docs/faults.md. `make soak` lets faults happen
// at random for ten minutes.
package faults

// Package faults has no code: its tests break real Redis servers in every way that we
// promise to survive, spell requests through real proxies in every way that we promise to
// judge, and hold the whole of stint to what is promised.
//
// `make test` runs them for their outcomes. `make faults` also measures how long things take,
// holds the times to the promises and prints the table in docs/faults.md. `make soak` lets
// faults happen at random for ten minutes.
package faults

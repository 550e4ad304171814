// Package histories runs whole stacks of package resilience in its tests, each as one process, over
// one simulated server in virtual time, and checks the answers that callers got. [Windows] counts
// what was admitted; [Designs] are models of other limiters, for comparison.
//
// A history follows from its seed: the limits, who asks what and when, how long every message
// takes, which of them are lost, when the server stops, ends or forgets, when a process is starved
// or dies. What the seed does not fix is the order of goroutines within one instant of virtual time
// and the jitter of the stack itself, so a seed that failed may have to be run a few times to fail
// again:
//
//	go test ./internal/histories -run TestHistories -args -seed 4711 -again 10
//
// TestStreamHistories is about requests with holds, and draws histories of its own from the same
// seeds.
//
// TestScale runs one long history of a fleet: processes in several regions, a million subjects, day
// and night, crowds, deploys and partitions. It keeps no record of the answers but checks each when
// it comes. Its input is hashed, and a fleet that fails is made smaller. docs/scale.md has the
// results.
//
// With -trace every message is printed too. TestHistories takes the first seeds for as long as -for
// says; make soak takes others, for hours.
package histories

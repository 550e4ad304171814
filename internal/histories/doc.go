// Package histories has no code: its tests run whole stacks of package resilience, each as one
// process, over one simulated server in virtual time, and check the answers that callers got.
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
// With -trace every message is printed too. TestHistories takes the first seeds for as long as -for
// says; make soak takes others, for hours.
package histories

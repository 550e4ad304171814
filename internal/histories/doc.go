// Package histories tests whole stacks of package resilience. In its tests, each stack stands for
// one process. All stacks share one simulated server, in virtual time, and the tests check the
// answers that callers got. [Windows] counts admissions; [Designs] are models of other limiters,
// for comparison.
//
// A seed determines a history: the limits, the requests and their times, how long every message
// takes, which messages are lost, when the server pauses, restarts or loses its memory, and when a
// process dies or gets no CPU. The seed does not determine the order of goroutines within one
// instant of virtual time, nor the jitter of the stack itself, so a seed that has failed may need
// several runs to fail again:
//
//	go test ./internal/histories -run TestHistories -args -seed 4711 -again 10
//
// TestStreamHistories tests requests with holds. It derives its own histories from the same seeds.
//
// TestScale runs one long history of a fleet: processes in several regions, a million subjects, day
// and night, crowds, deploys and partitions. It keeps no record of the answers but checks each one
// as it arrives. It logs a hash of its input. If a fleet fails, TestScale looks for a smaller fleet
// that also fails. docs/scale.md has the results.
//
// With -trace, every message is printed too. TestHistories runs the first seeds for the time given
// by -for; make soak runs other seeds, for the time given by SOAK.
package histories

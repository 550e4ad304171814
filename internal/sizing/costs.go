// Package sizing computes how much of Redis a load needs: CPU, network, replication and memory. It
// uses costs that were measured on one machine, so its results are estimates. docs/sizing.md
// explains the model.
package sizing

import "github.com/stint-limiter/stint"

// Target is the share of a Redis core that a load may use. The rest is for peaks within a second,
// expiry and snapshots.
const Target = 0.6

// Cost is the cost of one decision.
type Cost struct {
	CPU        float64 // CPU of Redis, µs
	In         float64 // bytes that Redis receives
	Out        float64 // bytes that Redis sends in replies
	Replicated float64 // bytes that Redis sends to each replica
	Client     float64 // CPU of the calling process, µs
}

// Way is a way to call Redis, with the costs of three kinds of decisions on a Redis that is
// constantly busy. The costs of all other decisions follow from them.
type Way struct {
	Name    string
	Callers int  // number of concurrent callers
	Batched bool // calls go through the batching stack of package resilience; otherwise to the store alone
	One     Cost // one subject with one window
	Three   Cost // one subject with three windows
	Two     Cost // two subjects with one window each; the second is the same for all decisions
	// Wake is the additional cost of a decision on an idle Redis, which wakes up for the call,
	// while few calls share a batch or a read. A Redis that uses the share u of a core pays 1 - u
	// of it.
	Wake Cost
}

// The numbers in this file were measured by the suite sizing (cd bench && go run . -only sizing).
// They are medians of a few short runs: Redis 7.0.15 with one replica, 100,000 subjects in turn, Go
// 1.26, on a virtual machine with 2 cores of a Xeon, which Redis, its replica and the callers
// share. To replace them, run the suite, copy its numbers here, and run
//
//	go test ./internal/sizing ./cmd/stint -run 'Page|Simulate' -update
//
// which regenerates docs/sizing.md and the other texts.
var (
	Plain = Way{
		Name: "plain", Callers: 64,
		One:   Cost{CPU: 25.5, In: 253, Out: 81, Replicated: 150, Client: 19.4},
		Three: Cost{CPU: 31.9, In: 397, Out: 154, Replicated: 239, Client: 22.4},
		Two:   Cost{CPU: 39.9, In: 398, Out: 140, Replicated: 298, Client: 24.0},
		Wake:  Cost{CPU: 25, Client: 40},
	}
	Batched64 = Way{
		Name: "batched, 64 callers", Callers: 64, Batched: true,
		One:   Cost{CPU: 15.6, In: 61, Out: 59, Replicated: 151, Client: 12.1},
		Three: Cost{CPU: 17.9, In: 68, Out: 131, Replicated: 240, Client: 15.5},
		Two:   Cost{CPU: 24.4, In: 113, Out: 117, Replicated: 270, Client: 17.4},
		Wake:  Cost{CPU: 35, In: 258, Out: 30, Client: 72},
	}
	Batched256 = Way{
		Name: "batched, 256 callers", Callers: 256, Batched: true,
		One:   Cost{CPU: 14.4, In: 55, Out: 59, Replicated: 150, Client: 10.5},
		Three: Cost{CPU: 19.2, In: 58, Out: 131, Replicated: 239, Client: 15.8},
		Two:   Cost{CPU: 22.4, In: 107, Out: 116, Replicated: 270, Client: 16.9},
		Wake:  Cost{CPU: 35, In: 258, Out: 30, Client: 72},
	}

	// Hot is the cost of a decision on one of 100 subjects with one window, batched, with 256
	// callers: requests of one subject share a decision.
	Hot = Cost{CPU: 6.3, In: 37, Out: 37, Replicated: 77, Client: 6.4}
	// Settled is the cost of a refund or a settlement of a charge to one window, by the store
	// alone: the cost of a decision that is refunded minus that of the decision.
	Settled = Cost{CPU: 99, In: 334, Out: 27, Replicated: 236, Client: 25.3}
	// Block is the cost of taking and giving back a block of units of a leased limit. Its Client is
	// the cost of a decision from the block.
	Block = Cost{CPU: 104, In: 160, Out: 66, Replicated: 535, Client: 0.6}
)

// Ways lists all ways.
var Ways = []*Way{&Plain, &Batched64, &Batched256}

// Memory lists how many bytes of memory Redis needed per subject after some requests, measured with
// 10,000 subjects with names of 12 bytes.
var Memory = []struct {
	Limits []stint.Limit
	// After 1, 10 and 50 requests.
	One, Ten, Fifty float64
}{
	{[]stint.Limit{stint.PerMinute(100)}, 213, 518, 908},
	{[]stint.Limit{stint.PerMinute(100), stint.PerHour(2000), stint.PerDay(50_000)}, 301, 1031, 1415},
}

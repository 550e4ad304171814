// Package sizing computes what a load needs of Redis: CPU, network, replication and memory. It
// computes from costs that were measured on one machine, so its results are estimates.
// docs/sizing.md explains the model.
package sizing

// Target is the share of a Redis core that a load may use. The rest is for peaks within a second,
// expiry and snapshots.
const Target = 0.6

// Cost is what one decision costs.
type Cost struct {
	CPU        float64 // of Redis, µs
	In         float64 // bytes that Redis receives
	Out        float64 // bytes that it replies
	Replicated float64 // bytes that it sends to each replica
	Client     float64 // CPU of the process that asks, µs
}

// Way is a way to ask Redis, with the cost of three kinds of decisions. The cost of all others
// follows from them.
type Way struct {
	Name    string
	Callers int  // that ask at the same time
	Batched bool // by the stack of package resilience; otherwise the store alone
	One     Cost // one subject with one window
	Three   Cost // one subject with three windows
	Two     Cost // two subjects with one window each; the second is the same for all decisions
}

// The figures of this file are those of the suite sizing (cd bench && go run . -only sizing):
// Redis 7.0.15 with one replica, 100,000 subjects in turn, on a virtual machine with 2 cores of a
// Xeon, which Redis, its replica and the callers share. To replace them, run the suite, copy its
// tables to here, and run go test ./internal/sizing -update, which computes docs/sizing.md again.
var (
	Plain = Way{
		Name: "plain", Callers: 64,
		One:   Cost{CPU: 29.9, In: 253, Out: 82, Replicated: 150, Client: 20},
		Three: Cost{CPU: 33.8, In: 397, Out: 155, Replicated: 239, Client: 20},
		Two:   Cost{CPU: 40, In: 350, Out: 130, Replicated: 290, Client: 20},
	}
	Batched64 = Way{
		Name: "batched, 64 callers", Callers: 64, Batched: true,
		One:   Cost{CPU: 19.7, In: 60, Out: 60, Replicated: 151, Client: 20},
		Three: Cost{CPU: 24.3, In: 65, Out: 132, Replicated: 240, Client: 20},
		Two:   Cost{CPU: 30, In: 130, Out: 110, Replicated: 290, Client: 20},
	}
	Batched256 = Way{
		Name: "batched, 256 callers", Callers: 256, Batched: true,
		One:   Cost{CPU: 16.0, In: 60, Out: 60, Replicated: 151, Client: 20},
		Three: Cost{CPU: 20.4, In: 65, Out: 132, Replicated: 240, Client: 20},
		Two:   Cost{CPU: 28, In: 130, Out: 110, Replicated: 290, Client: 20},
	}

	// Hot is a decision on one of 100 subjects with one window, batched, 256 callers: requests of
	// one subject share a decision.
	Hot = Cost{CPU: 5.8, In: 35, Out: 35, Replicated: 74, Client: 5}
	// Leased is a decision on one of 100 subjects whose limit is leased.
	Leased = Cost{CPU: 0.006, Client: 1}
	// Settled is a refund or a settlement of a charge to one window, by the store alone.
	Settled = Cost{CPU: 40, In: 250, Out: 80, Replicated: 250, Client: 20}
)

// Ways are all of them.
var Ways = []*Way{&Plain, &Batched64, &Batched256}

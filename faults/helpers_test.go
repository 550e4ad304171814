package faults

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
)

// flood puts a load on each of the stacks at the same time.
func flood(r *report, stacks []*stack, l load) outcome {
	return floodUnder(r, stacks, stint.FailLocal, l)
}

func floodUnder(r *report, stacks []*stack, mode stint.FailureMode, l load) outcome {
	all := outcome{Failed: map[stint.StoreErrorKind]int{}}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, s := range stacks {
		group.Go(func() {
			o := drive(r.Context(), under{s, stint.FailurePolicy{Mode: mode}}, l)
			mu.Lock()
			defer mu.Unlock()
			all.add(o)
		})
	}
	group.Wait()
	slices.Sort(all.Admitted)
	slices.Sort(all.Took)
	return all
}

// attempts is how often scripts were sent to servers, run or refused.
func attempts(r *report, servers []*redistest.Server) int {
	r.Helper()
	n := 0
	for _, server := range servers {
		for line := range strings.Lines(server.CLI(r, "INFO", "commandstats")) {
			name, stats, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
				continue
			}
			for stat := range strings.SplitSeq(stats, ",") {
				if key, value, _ := strings.Cut(stat, "="); key == "calls" || key == "rejected_calls" {
					count, err := strconv.Atoi(value)
					if err != nil {
						r.Fatalf("unreadable statistics: %s", line)
					}
					n += count
				}
			}
		}
	}
	return n
}

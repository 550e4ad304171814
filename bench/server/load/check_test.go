package main

import (
	"testing"
	"time"
)

// logOf makes requests of one user, each of which takes a tenth of a second.
func logOf(user, route string, answers ...answered) []request {
	var list []request
	for _, a := range answers {
		for range a.times {
			from := time.Unix(1_000_000, 0).Add(time.Duration(a.at * float64(time.Second)))
			list = append(list, request{user: user, route: route, status: max(a.status, -a.status),
				degraded: a.status < 0,
				from:     from, to: from.Add(100 * time.Millisecond)})
		}
	}
	return list
}

type answered struct {
	at     float64 // seconds
	times  int
	status int // negative if without Redis
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name                  string
		log                   []request
		unjustified, exceeded int
	}{
		{"nothing", nil, 0, 0},
		{"within the limit", logOf("free:1", "search", answered{0, 60, 200}), 0, 0},
		{"one over is denied", logOf("free:1", "search", answered{0, 60, 200}, answered{1, 1, 429}), 0, 0},
		{"denied with room", logOf("free:1", "search", answered{0, 59, 200}, answered{1, 1, 429}), 1, 0},
		{"denied without a request before", logOf("pro:1", "search", answered{0, 1, 429}), 1, 0},
		{"denied before the limit was used up",
			logOf("free:1", "search", answered{0, 1, 429}, answered{1, 60, 200}), 1, 0},
		{"denied while it was", logOf("free:1", "search", answered{0.05, 1, 429}, answered{0.1, 60, 200}), 0, 0},
		{"one too many", logOf("free:1", "search", answered{0, 61, 200}), 0, 1},
		{"a window later", logOf("free:1", "search", answered{0, 60, 200}, answered{60.2, 60, 200}), 0, 0},
		{"maybe a window later", logOf("free:1", "search", answered{0, 60, 200}, answered{59.95, 60, 200}), 0, 0},
		{"not yet a window later", logOf("free:1", "search", answered{0, 60, 200}, answered{59.8, 1, 200}), 0, 1},
		{"denied when a window has passed",
			logOf("free:1", "search", answered{0, 60, 200}, answered{60.2, 1, 429}), 1, 0},
		{"denied in the last slice of a window",
			logOf("pro:1", "search", answered{0, 300, 200}, answered{60.3, 1, 429}), 0, 0},
		{"denied after the last slice", logOf("pro:1", "search", answered{0, 300, 200}, answered{60.7, 1, 429}), 1, 0},
		{"an endpoint's own limit", logOf("pro:1", "simulation", answered{0, 10, 200}, answered{1, 1, 429}), 0, 0},
		{"an endpoint's own limit, exceeded", logOf("pro:1", "simulation", answered{0, 11, 200}), 0, 1},
		{"a budget counts costs", logOf("anonymous:1", "simulation", answered{0, 10, 200}, answered{1, 1, 429}), 0, 0},
		{"a budget with room", logOf("anonymous:1", "simulation", answered{0, 9, 200}, answered{1, 1, 429}), 1, 0},
		{"a lost answer may have been charged",
			logOf("free:1", "search", answered{0, 59, 200}, answered{1, 1, 0}, answered{2, 1, 429}), 0, 0},
		{"a lost answer may have been denied",
			logOf("free:1", "search", answered{0, 60, 200}, answered{1, 1, 0}), 0, 0},
		{"without Redis, one too many", logOf("free:1", "search", answered{0, 60, 200}, answered{1, 1, -200}), 0, 1},
		{"without Redis, it may be charged twice",
			logOf("free:1", "search", answered{0, 58, 200}, answered{1, 1, -200}, answered{2, 1, 429}), 0, 0},
		{"without Redis, but not three times",
			logOf("free:1", "search", answered{0, 57, 200}, answered{1, 1, -200}, answered{2, 1, 429}), 1, 0},
		{"denied without Redis with room, but it may be charged", logOf("free:1", "search", answered{0, 59, 200}, answered{1, 1, -429}, answered{2, 1, 429}), 1, 0},
		{"denied without Redis, with room",
			logOf("free:1", "search", answered{0, 59, 200}, answered{1, 1, -429}), 1, 0},
		{"routes are counted together", append(logOf("free:1", "search", answered{0, 60, 200}),
			logOf("free:1", "simulation", answered{1, 1, 429})...), 0, 0},
		{"users are counted apart", append(logOf("free:1", "search", answered{0, 60, 200}),
			logOf("free:2", "search", answered{0, 1, 429})...), 1, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := check(test.log)
			if len(found.unjustified) != test.unjustified || len(found.exceeded) != test.exceeded {
				t.Errorf("got unjustified %q and exceeded %q; want %d and %d", found.unjustified, found.exceeded, test.unjustified, test.exceeded)
			}
		})
	}
}

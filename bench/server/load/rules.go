package main

import (
	"strings"
	"time"
)

// rule is a count that limits a request. It allows at most max units in any window, and the request
// takes cost units.
type rule struct {
	name   string
	key    string // requests with the same key are counted together
	max    int64
	window time.Duration
	cost   int64
}

// The limits of examples/tiers, written down a second time: a checker that read them in the same
// way as stint would share its mistakes. A test compares both.
var tierRules = map[string]struct {
	limits []limit
	budget int64 // units per hour; 0 means unlimited
}{
	"internal":   {[]limit{{1000, time.Minute}}, 0},
	"enterprise": {[]limit{{5 * 500, time.Minute}, {10_000, time.Hour}}, 0},
	"pro":        {[]limit{{3 * 100, time.Minute}, {2000, time.Hour}, {50_000, 24 * time.Hour}}, 10_000},
	"free":       {[]limit{{2 * 30, time.Minute}, {500, time.Hour}, {5000, 24 * time.Hour}}, 1000},
	"anonymous":  {[]limit{{2 * 10, time.Minute}, {100, time.Hour}, {1000, 24 * time.Hour}}, 100},
}

var routeRules = map[string]struct {
	cost     int64
	endpoint limit // added to the tier's limits, except for internal services; zero if none
}{
	"search":     {1, limit{}},
	"simulation": {10, limit{10, time.Minute}},
}

type limit struct {
	max    int64
	window time.Duration
}

// tierOf returns the part of a user's name before the colon.
func tierOf(user string) string {
	tier, _, _ := strings.Cut(user, ":")
	return tier
}

// rulesFor returns all rules that apply to a request of a user for a route.
func rulesFor(user, route string) []rule {
	var list []rule
	tier, to := tierRules[tierOf(user)], routeRules[route]
	for _, l := range tier.limits {
		list = append(list, rule{"tier", user + " " + l.window.String(), l.max, l.window, 1})
	}
	if to.endpoint != (limit{}) && tierOf(user) != "internal" {
		list = append(list, rule{"endpoint", user + " endpoint " + route, to.endpoint.max, to.endpoint.window, 1})
	}
	if tier.budget > 0 {
		list = append(list, rule{"work", user + " work", tier.budget, time.Hour, to.cost})
	}
	return list
}

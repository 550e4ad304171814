package driver

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// A Fit or a Lease is for a take of a single claim that costs something, under limits that allow it.
func TestFitAndLease(t *testing.T) {
	with := func(l stint.Limit) func(*stint.Request) {
		return func(r *stint.Request) { r.Claims[0].Limits = append(r.Claims[0].Limits, l) }
	}
	for name, x := range map[string]struct {
		change      func(r *stint.Request)
		fits, lease bool // whether the request is valid with Fit alone, and with a Lease
	}{
		"one log":       {func(*stint.Request) {}, true, true},
		"a bucket":      {with(stint.TokenBucket(1, 1, time.Second)), true, false},
		"holders":       {with(stint.Concurrency(1, time.Second)), false, false},
		"an id":         {func(r *stint.Request) { r.ID = "x" }, true, false},
		"another claim": {func(r *stint.Request) { r.Claims = append(r.Claims, claim("b")) }, false, false},
		"a peek":        {func(r *stint.Request) { r.Mode = stint.ModePeek }, false, false},
		"a reservation": {func(r *stint.Request) { r.Mode = stint.ModeReserve }, false, false},
		"no cost":       {func(r *stint.Request) { r.Claims[0].Cost = 0 }, false, false},
	} {
		for during, valid := range map[time.Duration]bool{0: x.fits, time.Second: x.lease, -time.Second: false, 1: false,
			time.Microsecond + 1: false, stint.MaxWindow + time.Microsecond: false} {
			r := WithTerms(stint.Request{Claims: []stint.Claim{claim("a")}}, Terms{Fit: true, Lease: during})
			x.change(&r)
			if err := r.Validate(); (err == nil) != valid {
				t.Errorf("%s, lease %v: error %v", name, during, err)
			}
		}
	}
}

func claim(subject string) stint.Claim {
	return stint.Claim{Subject: subject, Limits: []stint.Limit{stint.PerHour(10)}, Cost: 1}
}

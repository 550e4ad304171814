package policy

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// Limit is a limit of a tier or a policy. Its maximum is fixed or comes from a claim of the
// request.
type Limit struct {
	// Limit is the limit or, with a Claim, the limit of requests without that claim.
	Limit stint.Limit
	// Claim is the name of the claim, such as "rpm", that gives the maximum number of units; "" if
	// there is none. The burst is scaled in proportion. A claim of 0 denies all requests. If the
	// claim gives more than Max, Max applies. If the claim is not a whole number, it is treated as
	// missing. The last two cases are logged.
	Claim string
	// Max is the largest maximum that the Claim may give.
	Max int64
}

// Limits returns limits with fixed maximums for a [Tier] or a [Policy]. Without arguments, it
// returns an empty list, which means explicitly unlimited.
func Limits(limits ...stint.Limit) []Limit {
	all := make([]Limit, len(limits))
	for i, l := range limits {
		all[i].Limit = l
	}
	return all
}

// String returns the limit in readable form: "60/1m or claim rpm up to 10000".
func (l Limit) String() string {
	if l.Claim == "" {
		return l.Limit.String()
	}
	return fmt.Sprintf("%s or claim %s up to %d", l.Limit, l.Claim, l.Max)
}

// Largest returns the limit with its largest possible maximum.
func (l *Limit) Largest() stint.Limit {
	if l.Claim == "" {
		return l.Limit
	}
	return l.with(l.Max)
}

// with returns the limit with n as its maximum. It scales a burst in proportion.
func (l *Limit) with(n int64) stint.Limit {
	limit := l.Limit
	if limit.Burst > 0 && limit.Max > 0 {
		hi, lo := bits.Mul64(uint64(limit.Burst), uint64(n))
		burst, _ := bits.Div64(hi, lo, uint64(limit.Max)) // [Limit.fits] has ruled out an overflow
		limit.Burst = max(int64(burst), min(n, 1))        // not 0, because a Burst of 0 means Max
	}
	limit.Max = n
	return limit
}

// number returns the maximum of the limit for a value of its claim, and what is wrong with the
// value. wrong is "" if the value is missing or a whole number from 0 to Max.
func (l *Limit) number(value string) (n int64, wrong string) {
	if value == "" {
		return l.Limit.Max, ""
	}
	given, err := strconv.ParseUint(value, 10, 64)
	switch {
	case err == nil && given <= uint64(l.Max):
		return int64(given), ""
	case err == nil || errors.Is(err, strconv.ErrRange):
		return l.Max, "above its max"
	}
	return l.Limit.Max, "not a whole number"
}

// LimitTexts returns the limits in readable form, with the names of the claims that give their
// maximums.
func (r *Rule) LimitTexts() []string {
	texts := make([]string, len(r.Limits))
	for i := range r.Limits {
		if texts[i] = r.Limits[i].String(); r.Claimed != nil {
			texts[i] = r.Claimed[i].String()
		}
	}
	return texts
}

// limitsOf returns the rule's limits for a subject's request. The overrides may be nil. If the
// value of a claim is not a valid maximum, limitsOf stores it in f.odd.
func (r *Rule) limitsOf(f *facts, subject string, o Overrides) []stint.Limit {
	limits, own := r.Limits, true
	for i := range r.Claimed {
		l := &r.Claimed[i]
		if l.Claim == "" {
			continue
		}
		value := f.claim(l.Claim)
		n, wrong := l.number(value)
		if wrong != "" {
			f.odd = oddClaim{l, value}
		}
		if n == l.Limit.Max {
			continue
		}
		if own {
			limits, own = slices.Clone(limits), false // a new slice, because a store may retain it
		}
		limits[i] = l.with(n)
	}
	if o != nil {
		limits = o.Limits(subject, r.Name(), limits)
	}
	return limits
}

// oddClaim is a claim whose value is not a valid maximum for its limit. If limit is nil, there is
// no such claim.
type oddClaim struct {
	limit *Limit
	value string
}

// claimed checks the limits whose maximum comes from a claim.
func (c *compiler) claimed(key string, limits []Limit) {
	for i := range limits {
		l, key := &limits[i], at(key, i, limits)
		switch {
		case l.Claim == "" && l.Max == 0:
		case l.Claim == "":
			c.mistake(key+".claim", "is missing; want the claim that has the number of the limit")
		case l.Max < 1 || l.Max > stint.MaxUnits:
			c.mistake(key+".max", "%d; want the largest number that the claim may give, 1 to %d", l.Max, stint.MaxUnits)
		case l.Limit.Max > l.Max:
			c.mistake(key+".max", "%d is below the %d of requests without the claim", l.Max, l.Limit.Max)
		case l.Limit.Burst > 0 && l.Limit.Max == 0:
			c.mistake(key+".limit", "%s: a burst is a multiple of the number, so 0 has none; want another number, or no burst", l.Limit)
		case l.Limit.Validate() == nil:
			c.mistakes(key+".max", l.fits())
		}
	}
}

// fits returns an error if the claim may give a maximum with which the limit is not valid. If the
// limit has a meter (see [stint.Limit.Meter]), fits checks two maximums: the largest one, and the
// largest one that is coprime to the window in microseconds. The second one is the most likely to
// overflow the meter, because it gives a unit the greatest weight.
func (l *Limit) fits() error {
	if hi, _ := bits.Mul64(uint64(l.Limit.Burst), uint64(l.Max)); hi > 0 && hi >= uint64(l.Limit.Max) {
		return fmt.Errorf("with %d units the burst has more than %d; want a lower max", l.Max, stint.MaxUnits)
	}
	hardest := l.Max
	for contract.HasMeter(&l.Limit) && gcd(hardest, l.Limit.Window.Microseconds()) > 1 {
		hardest--
	}
	for _, n := range []int64{l.Max, hardest} {
		limit := l.with(n)
		if err := limit.Validate(); err != nil {
			return fmt.Errorf("%s: %w", limit, contract.Mistakes(err))
		}
	}
	return nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

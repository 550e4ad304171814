package policy

import (
	"net/http"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/tokens"
	"github.com/stint-limiter/stint/internal/words"
)

// Usage has budgets count the tokens of requests to a language model. They are estimated from the
// request, held while it is served, and settled to what the response says. A budget with the name
// "input_tokens", "output_tokens" or "cached_tokens" counts these, and one with the name "price"
// what they cost; all others count tokens by their Weights. No estimate is more than half of the
// smallest of the budgets that count the same, so that no single request locks them.
//
// Places in a request are JSON pointers. Places in a response are JSON pointers, in a JSON body and
// in server-sent events, or the names of header fields and trailers. What is nil is the preset's.
type Usage struct {
	// Preset has the places of an API: "openai", "anthropic" or "gemini"; "" has none.
	Preset string
	// MaxOutput are where a request bounds its output, of which the largest number counts, and
	// Choices where it says how many answers it wants. Model is where it names the model.
	MaxOutput, Choices, Model []string
	// Input, Output and Cached are where a response counts tokens: the last value of each. Places
	// with the same last name are one number, and those with different names are added up. Cached
	// tokens are a part of the input.
	Input, Output, Cached []string
	// DefaultOutput is the estimate of the output of requests that do not bound it; 0 is 1,000.
	// BytesPerToken is how many bytes of a request's body are a token; 0 is 4.
	DefaultOutput, BytesPerToken int64
	// Body is how many bytes of a request's body are read before the decision; 0 is 64 KiB. In a
	// longer one, only the beginning is looked at.
	Body int64
	// CountEvents has the events of a stream count as a token of output each, if it does not say
	// what was used. Otherwise the estimate counts.
	CountEvents bool
	// Inject adds the option that has OpenAI say what was used to requests for a stream. It needs
	// the preset "openai".
	Inject bool
	// Weights are what tokens count in budgets without a quantity of their own; nil is 1 for each.
	Weights *Rates
	// Prices are those of a million tokens by model, for budgets with the name "price": in units of
	// that budget, such as millionths of a dollar. They are summed up and rounded up once for each
	// request. "default" is the price of all other models. Without it, a request for another model
	// is denied by budgets that count prices.
	Prices map[string]Rates
}

// Rates are numbers for tokens of each kind. Input is that of tokens that are not Cached.
type Rates struct{ Input, Output, Cached int64 }

// estimate finds out what a request is likely to use, and charges that to the results that count
// costs. What has a cost of its own keeps it.
func (v *Verdict) estimate(f *facts, only *terms) {
	v.fixed = only.costs
	var head []byte
	var length int64
	if replayed, ok := f.in.Content.(interface{ Known() *tokens.Known }); ok {
		v.known = replayed.Known()
		v.known.Counted = true
		v.estimated = v.known.Estimate(v.usage, f.first.path)
	} else {
		if f.in.Content != nil {
			v.waited = true
			head, length = f.in.Content.Body(v.usage.Body())
		}
		v.estimated = v.usage.Estimate(f.first.path, head, length)
	}
	v.Cost = v.bounded(costName, v.Results[:v.enforced])
	for i := range v.Results {
		r, among := &v.Results[i], v.Results[:v.enforced]
		if !r.Rule.Costs {
			continue
		}
		if r.Shadow {
			among = v.Results[i : i+1]
		}
		r.Cost, r.Costs = v.bounded(costName, among), only.costsOf(r.Limits)
		for k := range r.Limits {
			name := r.Limits[k].Name
			if _, own := r.Costs[name]; own || !tokens.IsQuantity(name) {
				continue
			}
			if r.Costs == nil {
				r.Costs = stint.Costs{}
			}
			r.Costs[name] = v.bounded(name, among)
		}
	}
}

// bounded returns the estimate in units of the limits with a name: at most half of the smallest of
// those that count the same, and at least 1, because what is not charged cannot be settled. What
// can never be paid stays as it is.
func (v *Verdict) bounded(name string, among []Result) int64 {
	units := v.usage.Units(v.estimated, name)
	if name == tokens.PriceName && units == stint.MaxUnits {
		if v.known != nil {
			v.known.Unpriced = true
		}
		return units
	}
	if v.known != nil && v.known.Whole {
		return units
	}
	for i := range among {
		if !among[i].Rule.Costs {
			continue
		}
		for k := range among[i].Limits {
			l := &among[i].Limits[k]
			if _, own := v.fixed[l.Name]; !own && tokens.SameQuantity(l.Name, name) {
				units = min(units, min(l.Max, l.Capacity())/2)
			}
		}
	}
	return max(units, 1)
}

// Meter reads from a response what its request has used, for adapters that see the bodies of
// requests and responses. [Guard.Follow] and what it returns use what the meter has read.
type Meter interface {
	// Inject returns the body of a request with the option that has the response say what was used,
	// and whether that changed anything. Only a policy with [Usage.Inject] changes it. The body has
	// to be whole.
	Inject(body []byte) ([]byte, bool)
	// Begin takes the header of the response, once, before its body.
	Begin(http.Header)
	// Write takes the next piece of the body. It keeps nothing of it, and never fails.
	Write(p []byte) (int, error)
	// Trailer takes the header after the body, with the trailers in it.
	Trailer(http.Header)
}

// Meter returns what reads the usage of the response to an allowed request; nil if the response is
// not to be read.
func (v *Verdict) Meter() Meter {
	if v.usage == nil || !v.Decision.Allowed {
		return nil
	}
	if v.meter == nil {
		v.meter = v.usage.Meter()
	}
	return v.meter
}

// measure finds out what a request has used, and whether its response says so. An error that does
// not say anything has used nothing. That of a client that went away is none.
func (v *Verdict) measure(o *Outcome) {
	found := tokens.Counts{Input: -1, Output: -1, Cached: -1, Events: -1}
	switch {
	case v.known != nil && v.known.Found:
		found = v.known.Used
	case v.meter != nil:
		found = v.meter.End()
	}
	failed := words.IsError(o.Status)
	v.unsaid = !failed && !found.Found()
	v.used = v.usage.Settled(found, v.estimated, failed)
}

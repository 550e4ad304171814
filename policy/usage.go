package policy

import (
	"net/http"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tokens"
)

// TokenUsage makes budgets count the tokens of requests to a language model. A guard estimates the
// tokens from the request, holds the estimate while the request is served, and settles it to the
// usage that the response reports. A budget named "input_tokens", "output_tokens" or
// "cached_tokens" counts tokens of that kind. A budget named "price" counts the price of the
// tokens. All other budgets count tokens by Weights. An estimate is at most half of the smallest
// budget that counts the same quantity, so that the hold of a single request never fills these
// budgets.
//
// A place in a request is a JSON pointer. A place in a response is a JSON pointer into a JSON body
// or into server-sent events, or the name of a header field or trailer. If a list of places is nil,
// the preset's list applies.
type TokenUsage struct {
	// Preset selects the places of an API: "openai", "anthropic" or "gemini"; "" selects none.
	Preset string
	// MaxOutput lists the places where a request limits its output. If there are several limits,
	// the largest is used. Choices lists the places where a request sets the number of answers.
	// Model lists the places where it names the model.
	MaxOutput, Choices, Model []string
	// Input, Output and Cached list the places where a response reports token counts. If a place
	// has several values, the last one is used. Places that end in the same name are assumed to
	// report the same count, which is used once. Counts with different names are added up. Cached
	// tokens are part of the input.
	Input, Output, Cached []string
	// DefaultOutput is the estimated output of a request that does not limit its output; 0 means
	// 1,000. BytesPerToken is the estimated number of bytes per token of a request body; 0 means 4.
	DefaultOutput, BytesPerToken int64
	// Body is the maximum number of bytes of a request body that are read before the decision; 0
	// means 64 KiB. Only the length of the rest is used.
	Body int64
	// CountEvents applies to a stream that does not report its output. Each of its events whose
	// data is a JSON object then counts as one token of output. Without CountEvents, such a stream
	// is charged the estimate.
	CountEvents bool
	// Inject adds an option to requests for a stream, so that OpenAI's API reports the usage of the
	// stream. It requires the preset "openai".
	Inject bool
	// Weights are the units per token in budgets that count tokens of all kinds; nil means 1 for
	// each token.
	Weights *Rates
	// Prices maps models to their prices per million tokens. A price is a number of units of the
	// budgets named "price". Such a unit may be, for example, a millionth of a dollar. The price of
	// a request is the sum of the prices of its tokens, rounded up once. "default" stands for all
	// other models. If there is no "default", budgets named "price" deny requests for other models.
	Prices map[string]Rates
}

// Rates are weights or prices for each kind of token. Input applies to input tokens that are not
// cached.
type Rates struct{ Input, Output, Cached int64 }

// estimate estimates the usage of a request and sets the costs of the results whose rules count
// costs. Limits with a cost of their own keep it.
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

// bounded returns an estimate of the number of units that the request takes from the limits with
// the given name. Normally, it is at most half of the smallest limit that counts the same quantity,
// and at least 1, because a request that is not charged cannot be settled. The estimate is not
// bounded if the model has no price, because the request must then be denied, or in a replay that
// charges the actual usage.
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

// Meter reads the usage of a request from its response. It is for adapters that see the bodies of
// requests and responses. [Guard.Follow] settles the request to this usage.
type Meter interface {
	// Inject adds an option to a request body, which must be complete, so that the response reports
	// its usage. It returns the body and whether it was changed. Only a policy with
	// [TokenUsage.Inject] changes it.
	Inject(body []byte) ([]byte, bool)
	// Begin processes the header of the response. It is called once, before the body.
	Begin(http.Header)
	// Write processes the next piece of the body. It does not retain p and never fails.
	Write(p []byte) (int, error)
	// Trailer processes the header again after the body, when the header contains the trailers.
	Trailer(http.Header)
}

// Meter returns a meter for the response to an allowed request. It returns nil if there is no need
// to read the response.
func (v *Verdict) Meter() Meter {
	if v.usage == nil || !v.Decision.Allowed {
		return nil
	}
	if v.meter == nil {
		v.meter = v.usage.Meter()
	}
	return v.meter
}

// measure sets v.used to the usage of a request, and sets v.unsaid if the response does not report
// it. An error response that does not report its usage has a usage of 0 and does not set v.unsaid.
// A response that is cut short because the client disconnected is not an error response.
func (v *Verdict) measure(o *Outcome) {
	found := tokens.Counts{Input: -1, Output: -1, Cached: -1, Events: -1}
	switch {
	case v.known != nil && v.known.Found:
		found = v.known.Used
	case v.meter != nil:
		found = v.meter.End()
	}
	failed := syntax.IsError(o.Status)
	v.unsaid = !failed && !found.Found()
	v.used = v.usage.Settled(found, v.estimated, failed)
}

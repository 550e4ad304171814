package tokens

// Known holds the token usage of a request that is known before the decision, as in the replay of a
// log.
type Known struct {
	// Used is the usage of the request, and Found reports whether it is known.
	Used  Counts
	Found bool
	// MaxOutput is the request's limit on its output: 0 if it has none, below 0 if it is unknown.
	// If it is unknown, Used is the estimate.
	MaxOutput int64
	// Whole charges the actual usage: no estimate replaces it, and it is not capped at half of a
	// budget. Failed is set if the response is an error, which uses nothing unless Found.
	Whole, Failed bool

	// Counted is set when a policy counts the tokens of the request, and Unpriced when that policy
	// has no price for its model.
	Counted, Unpriced bool
}

// Estimate returns the counts to charge before the response: see [Rules.Estimate].
func (k *Known) Estimate(r *Rules, path string) Counts {
	c := k.Used
	if c.Model == "" {
		c.Model = modelIn(path, r.config.ModelAfter)
	}
	switch {
	case !k.Found && k.Whole && k.Failed:
		c.Input, c.Output, c.Cached = 0, 0, 0
	case !k.Found, !k.Whole && k.MaxOutput == 0:
		c.Output, c.Cached = r.config.Default, 0
	case !k.Whole && k.MaxOutput > 0:
		c.Output, c.Cached = k.MaxOutput, 0
	}
	return c
}

package tokens

// Known describes what is known about the token usage of a request before the decision, as in the
// replay of a log.
type Known struct {
	// Used is the usage of the request. Found reports whether it is known.
	Used  Counts
	Found bool
	// MaxOutput is the maximum output that the request sets. It is 0 if the request sets none. If
	// it is unknown, MaxOutput is negative, and Used serves as the estimate.
	MaxOutput int64
	// If Whole is true and Used is known, Used is charged unchanged: no estimate replaces it, and
	// it is not capped at half of a budget's limit. Failed is true if the response is an error.
	// If Whole and Failed are true and Used is unknown, nothing is charged.
	Whole, Failed bool

	// Package policy sets Counted if a policy counts the tokens of the request, and Unpriced if
	// that policy has no price for the model.
	Counted, Unpriced bool
}

// Estimate returns the counts to charge before the response; see [Rules.Estimate].
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

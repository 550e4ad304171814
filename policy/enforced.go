package policy

// Enforced returns the share of subjects for whom the rule has consequences: 1 is all of them, and 0 none, for a rule in
// shadow.
func (r *Rule) Enforced() float64 { return float64(r.unit.enforce) / enforceAll }

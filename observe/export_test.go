package observe

// Counted returns how often there was an outcome with a reason in a series.
func (m *Monitor) Counted(tier, policy, outcome, reason string) (n int64) {
	for _, s := range m.ledger.all() {
		for r := range reasonCount {
			if s.name.tier == tier && s.name.policy == policy && r.outcome() == outcome && r.String() == reason {
				n += s.tally.sum(int(r))
			}
		}
	}
	return n
}

// CountedAll returns how many decisions there were in all, in how many series, and how many of them
// were timed.
func (m *Monitor) CountedAll() (c Counts, series int, timed int64) {
	t := m.totals()
	return t.Counts, len(t.series), t.decisions.total()
}

// AlertNames returns the names of all alerts.
func AlertNames() []string { return alertNames() }

package observe

import (
	"fmt"
	"time"
)

const (
	// jumpBase is the smallest share of denials that a jump is compared with: compared with a
	// smaller share, a few denials would be a large multiple. jumpFloor is the smallest number of
	// denials of a tier that can be a jump.
	jumpBase  = 0.01
	jumpFloor = 20
)

// jump compares the share of denials in the last minute with the share before it: among all
// decisions, or among those of a tier, and only denials by one policy if policy is set.
type jump struct {
	tier, policy string
	now, before  Counts
	seconds      int64 // that before covers

	times float64
}

// text describes what has jumped; it returns "" for all decisions together.
func (j *jump) text() string {
	if j.tier == "" {
		return ""
	}
	name := "the tier " + j.tier
	if j.policy != "" {
		name = j.policy + " for " + j.tier
	}
	return fmt.Sprintf(" Most of all %s: %s of the decisions of the tier, %s before.", name,
		amount(shareOf(j.now.Denied, j.now.decisions()), "share"),
		amount(shareOf(j.before.Denied, j.before.decisions()), "share"))
}

// measure sets times, the share of denials divided by the share before. It leaves times 0 if there
// are too few decisions or too little history.
func (j *jump) measure(known time.Duration) {
	if time.Duration(j.seconds)*time.Second < known-min(known, spikeWindow) || j.before.decisions() < alertFloor ||
		j.tier != "" && j.now.Denied < jumpFloor {
		return
	}
	j.times = shareOf(j.now.Denied, j.now.decisions()) / max(shareOf(j.before.Denied, j.before.decisions()), jumpBase)
}

// largestJump returns the largest of the jumps; of equal ones, the most specific.
func largestJump(some []jump, largest jump, known time.Duration) jump {
	largest.measure(known)
	for _, j := range some {
		if j.measure(known); j.times > 0 && j.times >= largest.times {
			largest = j
		}
	}
	return largest
}

// tiers returns the decisions of each tier in the last minutes and in the quarter of an hour
// before, and for each policy of the tier those that it denied.
func (h *history) tiers(lately time.Duration) []jump {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []jump
	at := map[string]int{}
	for i := range h.rows {
		r := &h.rows[i]
		if r.Tier == outboundTier {
			continue
		}
		j := jump{tier: r.Tier, policy: r.Policy, now: r.open}
		steps := len(r.recent.items)
		for k := range steps {
			if k >= steps-int(lately/coarse) {
				j.now = j.now.combine(*r.recent.at(k), plus)
			} else {
				j.before = j.before.combine(*r.recent.at(k), plus)
				j.seconds += finePerCoarse
			}
		}
		k, ok := at[r.Tier]
		if !ok {
			k = len(list)
			at[r.Tier] = k
			list = append(list, jump{tier: r.Tier})
		}
		list[k].now, list[k].before = list[k].now.combine(j.now, plus), list[k].before.combine(j.before, plus)
		list[k].seconds = max(list[k].seconds, j.seconds)
		if r.Policy != "" {
			list = append(list, j)
		}
	}
	for i := range list { // the denials of a policy are a share of the decisions of its tier
		if j, tier := &list[i], &list[at[list[i].tier]]; j.policy != "" {
			j.now = Counts{Denied: j.now.Denied, Allowed: tier.now.decisions() - j.now.Denied}
			j.before = Counts{Denied: j.before.Denied, Allowed: tier.before.decisions() - j.before.Denied}
			j.seconds = tier.seconds
		}
	}
	return list
}

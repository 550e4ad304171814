package observe

import (
	"fmt"
	"time"
)

const (
	// jumpBase replaces the share of denials before the last minute if that share is lower.
	// Otherwise, even a few denials in the last minute would count as a large jump.
	jumpBase = 0.01
	// jumpFloor is the minimum number of denials in the last minute for a jump of a tier or policy.
	jumpFloor = 20
)

// jump compares the share of denials in the last minute with the share before that minute. It
// covers all decisions if tier is "", and otherwise the decisions of a tier. If policy is set, it
// counts only the denials by that policy.
type jump struct {
	tier, policy string
	now, before  Counts
	seconds      int64 // length of the earlier period

	times float64 // the share of denials now divided by the share before; see measure
}

// text describes a jump of a tier or policy in a sentence. It returns "" for a jump of all
// decisions.
func (j *jump) text() string {
	if j.tier == "" {
		return ""
	}
	name := "tier " + j.tier
	if j.policy != "" {
		name = "policy " + j.policy + " for tier " + j.tier
	}
	return fmt.Sprintf(" Largest increase: %s, with %s of the decisions of the tier denied, up from %s.", name,
		amount(shareOf(j.now.Denied, j.now.decisions()), "share"),
		amount(shareOf(j.before.Denied, j.before.decisions()), "share"))
}

// measure sets times to the share of denials in the last minute divided by the share before. If
// there is too little history, or there are too few decisions or denials, times stays 0.
func (j *jump) measure(known time.Duration) {
	if time.Duration(j.seconds)*time.Second < known-min(known, spikeWindow) || j.before.decisions() < alertFloor ||
		j.tier != "" && j.now.Denied < jumpFloor {
		return
	}
	j.times = shareOf(j.now.Denied, j.now.decisions()) / max(shareOf(j.before.Denied, j.before.decisions()), jumpBase)
}

// largestJump measures all the jumps passed to it, and returns the one with the greatest value of
// times. If that value is the same for a policy and its tier, it returns the jump of the policy.
func largestJump(some []jump, largest jump, known time.Duration) jump {
	largest.measure(known)
	for _, j := range some {
		if j.measure(known); j.times > 0 && j.times >= largest.times {
			largest = j
		}
	}
	return largest
}

// tiers returns a jump for each tier and for each of its policies. The caller must measure the
// jumps. They compare the most recent period with the rest of the last 15 minutes. The argument
// lately is the length of that period.
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
	for i := range list { // compare the denials by a policy with the decisions of its tier
		if j, tier := &list[i], &list[at[list[i].tier]]; j.policy != "" {
			j.now = Counts{Denied: j.now.Denied, Allowed: tier.now.decisions() - j.now.Denied}
			j.before = Counts{Denied: j.before.Denied, Allowed: tier.before.decisions() - j.before.Denied}
			j.seconds = tier.seconds
		}
	}
	return list
}

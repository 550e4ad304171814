package envoyrls

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// Config is a configuration of the service. It maps descriptors to limits. It is immutable and safe
// for concurrent use. See [Load].
type Config struct {
	domains map[string]*domain
	rules   []*rule // in the order of the files
}

type domain struct {
	node
	// subject is the prefix of the subjects of all counters in the domain.
	subject string
	// override is the name of the rule that observers see for a limit that a request contains.
	override string
}

// node is a node of the descriptor tree. Each level of the tree matches one entry of a descriptor.
type node struct {
	rule *rule
	// children maps composite keys to nodes. A composite key is the entry's key, or key_value if
	// the entry has a value.
	children map[string]*node
	// wildcards holds the children whose composite key has an asterisk, in the order of the file.
	wildcards []wildcard
	// pattern is the composite key if all values that match it share one counter, and otherwise "".
	pattern string
}

// wildcard is a child whose composite key contains asterisks. parts are the parts of the key
// between the asterisks.
type wildcard struct {
	parts [][]byte
	next  *node
}

// rule is a limit in the configuration, or a limit that a request contains.
type rule struct {
	// key is the path of the limit in the configuration: domain.key_value.key.
	key string
	// current is the limit in the type that answers use. It is shared and must not be modified.
	current *rlsv3.RateLimitResponse_RateLimit
	// limits is the limit in the type that stores use, for each [Window].
	limits [3][]stint.Limit
	// exceeded replaces a limit of zero in fixed windows. It has room for one hit, because a store
	// counts only hits that have room. The counted hit shows that the limit is exceeded, even to
	// requests with zero hits.
	exceeded [3][]stint.Limit
	// observed is the rule that observers see, for each [Window].
	observed [3]policy.Rule
	// text is RequestsPerUnit in decimal, for header fields.
	text string

	// looked reports whether there was a request with zero hits. begun reports whether there was a
	// descriptor that counted one hit without having a number of hits of its own. See chargeUsed.
	looked, begun atomic.Bool

	// counts holds the rule's counters in [Stats]. It is nil without Stats.
	counts *counts

	unlimited, shadow, quota bool
	name                     string
	replaces                 []string
	metadata                 *structpb.Struct
}

func (r *rule) max() int64 { return int64(r.current.GetRequestsPerUnit()) }

// setLimit sets the limit in all its forms. Its window must be valid unless the rule is unlimited.
func (r *rule) setLimit(current *rlsv3.RateLimitResponse_RateLimit) {
	l := stint.Per(int64(current.GetRequestsPerUnit()), windowOf(current.GetUnit(), multiplierOf(current)))
	r.current = current
	r.text = strconv.FormatUint(uint64(current.GetRequestsPerUnit()), 10)
	r.limits[Sliding] = []stint.Limit{l}
	l.Algorithm = stint.AlgorithmFixed
	r.limits[Fixed] = []stint.Limit{l}
	if current.GetUnit() == rlsv3.RateLimitResponse_RateLimit_MONTH && multiplierOf(current) == 1 {
		l = stint.Monthly(l.Max)
	}
	r.limits[Calendar] = []stint.Limit{l}
	for w := range r.observed {
		r.observed[w] = policy.Rule{Tier: tier, Policy: r.key, Limits: r.limits[w], Index: -1}
		if l.Max == 0 {
			r.exceeded[w] = slices.Clone(r.limits[w])
			r.exceeded[w][0].Max = 1
		}
	}
}

// Size returns the number of domains and the number of limits.
func (c *Config) Size() (domains, limits int) { return len(c.domains), len(c.rules) }

// observed returns the rules that observers see: all except unlimited ones.
func (c *Config) observed(w Window) []*policy.Rule {
	rules := make([]*policy.Rule, 0, len(c.rules))
	for _, r := range c.rules {
		rule := r.observed[w]
		if !r.shadow {
			rule.Enforced = 1
		}
		if !r.unlimited {
			rules = append(rules, &rule)
		}
	}
	return rules
}

// Dump returns the configured limits as text, one limit per line, in the order of the files. Each
// line begins with the path of the limit in the configuration:
//
//	messaging.to_number: unit=DAY requests_per_unit=100, shadow_mode: false, quota_mode: false
func (c *Config) Dump() string {
	var b strings.Builder
	if c == nil {
		return ""
	}
	for _, r := range c.rules {
		b.WriteString(oneLine(r.key))
		b.WriteString(": unit=" + r.current.GetUnit().String() + " requests_per_unit=" + r.text)
		if n := multiplierOf(r.current); n != 1 {
			b.WriteString(", unit_multiplier: " + strconv.FormatUint(uint64(n), 10))
		}
		b.WriteString(", shadow_mode: " + strconv.FormatBool(r.shadow))
		b.WriteString(", quota_mode: " + strconv.FormatBool(r.quota) + "\n")
	}
	return b.String()
}

// oneLine escapes characters that would end or hide a line of a dump or a message.
func oneLine(text string) string {
	if q := strconv.Quote(text); len(q) != len(text)+2 {
		return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	}
	return text
}

const day = 24 * time.Hour

const unitNames = "second, minute, hour, day, week, month or year"

// unitByName parses a unit in upper or lower case. It does not accept UNKNOWN.
func unitByName(name string) (rlsv3.RateLimitResponse_RateLimit_Unit, bool) {
	n, ok := rlsv3.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)]
	return rlsv3.RateLimitResponse_RateLimit_Unit(n), ok && n != 0
}

// lengths maps units to durations: a month has 30 days, and a year has 365.
var lengths = [...]time.Duration{
	rlsv3.RateLimitResponse_RateLimit_SECOND: time.Second,
	rlsv3.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	rlsv3.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	rlsv3.RateLimitResponse_RateLimit_DAY:    day,
	rlsv3.RateLimitResponse_RateLimit_WEEK:   7 * day,
	rlsv3.RateLimitResponse_RateLimit_MONTH:  30 * day,
	rlsv3.RateLimitResponse_RateLimit_YEAR:   365 * day,
}

// windowOf returns the window of a limit, or zero if the window is not supported.
func windowOf(unit rlsv3.RateLimitResponse_RateLimit_Unit, multiplier uint32) time.Duration {
	if unit <= 0 || int(unit) >= len(lengths) || time.Duration(multiplier) > stint.MaxWindow/lengths[unit] {
		return 0
	}
	return lengths[unit] * time.Duration(multiplier)
}

// multiplierOf returns the number of units in a window. An unset or zero multiplier means one.
func multiplierOf(l *rlsv3.RateLimitResponse_RateLimit) uint32 {
	return max(l.GetUnitMultiplier().GetValue(), 1)
}

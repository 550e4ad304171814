package envoyrls

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// Config is what a configuration directory says: which limit holds for which descriptor. It is
// immutable and safe for concurrent use. See [Load].
type Config struct {
	domains map[string]*domain
	rules   []*rule // in the order of the files
}

type domain struct {
	node
	// subject is what the subjects of all its counters begin with.
	subject string
	// override is the Rule of limits that requests bring along, for observers.
	override string
}

// node is a node of the tree: what a descriptor's first entries lead to.
type node struct {
	rule *rule
	// children are by composite key: the key, or key_value if the entry has a value.
	children map[string]*node
	// wildcards are the children whose composite key has an asterisk, in the order of the file.
	wildcards []wildcard
	// pattern is the composite key of a child whose values share one counter, else "".
	pattern string
}

// wildcard is a composite key, divided at its asterisks.
type wildcard struct {
	parts [][]byte
	next  *node
}

// rule is a limit: that of a descriptor in the configuration, or one that a request brings along.
type rule struct {
	// key is where it stands in the configuration: domain.key_value.key.
	key string
	// current is the limit as answers show it. Answers share it; nobody writes to it.
	current *rlsv3.RateLimitResponse_RateLimit
	// limits are the limit as stores count it, one for each [Window].
	limits [3][]stint.Limit
	// exceeded count for a limit of zero in windows that do not slide, where a request that only
	// looks learns whether it was exceeded: what has no room is not counted.
	exceeded [3][]stint.Limit
	// observed are what an observer knows it as, one for each [Window].
	observed [3]policy.Rule
	// text is RequestsPerUnit as header fields show it.
	text string

	// looked says that it was asked about with zero hits, begun that it was asked about with one
	// that is not the descriptor's own; see chargeUsed.
	looked, begun atomic.Bool

	// counts are those of [Stats]; nil without them.
	counts *counts

	unlimited, shadow, quota bool
	name                     string
	replaces                 []string
	metadata                 *structpb.Struct
}

func (r *rule) max() int64 { return int64(r.current.GetRequestsPerUnit()) }

// setLimit fills in the limit, given that its window is valid.
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

// Size returns how many domains and limits are configured.
func (c *Config) Size() (domains, limits int) { return len(c.domains), len(c.rules) }

// observed returns the rules as observers know them.
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

// Dump returns the configured limits as text, one to a line in the order of the files, each with
// its path in the configuration:
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

// oneLine returns the text without anything that ends or hides a line of a dump.
func oneLine(text string) string {
	if q := strconv.Quote(text); len(q) != len(text)+2 {
		return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	}
	return text
}

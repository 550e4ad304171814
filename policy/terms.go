package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tokens"
)

// terms are the settings of which a request has only one each. Each comes from the first matching
// policy that sets it.
type terms struct {
	cost    int64
	costs   stint.Costs
	hold    time.Duration
	usage   *tokens.Rules
	after   *after
	id      *requestID
	failure *stint.FailurePolicy
	bans    *stint.BanPolicy

	hasCost, hasID, hasFailure bool
	atLeast                    bool // a usage below the estimate gives nothing back
}

func (o *terms) add(p *policy, f *facts) {
	if p.cost != nil && !o.hasCost {
		o.cost, o.hasCost = p.cost.of(f), true
	}
	if o.costs == nil {
		o.costs = p.costs
	}
	if o.hold == 0 {
		o.hold = p.hold
	}
	if o.usage == nil {
		o.usage = p.usage
	}
	if o.after == nil {
		o.after = p.after
	}
	if p.id != nil && !o.hasID {
		o.id, o.hasID = p.id, true
	}
	if p.failure != nil && !o.hasFailure {
		o.failure, o.hasFailure = p.failure, true
	}
}

// costsOf returns the costs of the limits that have one by name; nil if none has.
func (o *terms) costsOf(limits []stint.Limit) (costs stint.Costs) {
	for i := range limits {
		if cost, ok := o.costs[limits[i].Name]; ok {
			if costs == nil {
				costs = stint.Costs{}
			}
			costs[limits[i].Name] = cost
		}
	}
	return costs
}

// join merges in the terms of another reading. The result has the highest costs, the longest hold,
// the strictest failure mode, and bans and a true cost if either reading has them. Charges are
// given back only if both readings agree.
func (o *terms) join(other *terms) {
	o.cost, o.hold = max(o.cost, other.cost), max(o.hold, other.hold)
	if len(other.costs) > 0 {
		all := maps.Clone(other.costs)
		for name, cost := range o.costs {
			all[name] = max(all[name], cost)
		}
		o.costs = all
	}
	if o.usage != other.usage { // charges are given back only if both readings agree
		o.usage, o.atLeast = cmp.Or(o.usage, other.usage), true
	}
	o.after = o.after.join(other.after)
	if o.id != other.id {
		o.id = nil
	}
	if strictness[other.failure.Mode] > strictness[o.failure.Mode] {
		o.failure = other.failure
	}
	if o.bans == nil {
		o.bans = other.bans
	}
}

// strictness ranks the failure modes.
var strictness = [...]int{stint.FailAllow: 0, stint.FailLocal: 1, stint.FailError: 2, stint.FailDeny: 3}

// requestID configures how repeats are recognized: by the header with the id of a request, if there
// is one, else by a derived id, if derive is set. It also has how long either id is remembered.
type requestID struct {
	header       string
	life, derive time.Duration
}

// of returns the ID of a request and its life, or "". The ID depends on the caller and the request:
// the same header value in another request gives another ID. The port of the host is ignored,
// because only some clients send it.
func (r *requestID) of(f *facts, v *Verdict, subject string) (id string, life time.Duration) {
	if r == nil {
		return "", 0
	}
	value, life := "", r.life
	if r.header != "" {
		value = f.header(r.header)
	}
	derived := value == ""
	if derived {
		if r.derive == 0 || v.enforced == 0 || f.in.Content == nil {
			return "", 0
		}
		v.waited = true
		if value = f.in.Content.Digest(); value == "" {
			return "", 0
		}
		life = r.derive
	}
	h := sha256.New()
	write := func(part string) { _, _ = io.WriteString(h, strconv.Itoa(len(part))+":"+part) }
	if derived {
		// Charges may also depend on the header. A request with other charges is a different
		// request, even if everything else is the same.
		write("derived")
		for i := range v.Results[:v.enforced] {
			c := &v.Results[i].Claim
			write(c.Subject)
			write(c.Scope)
			write(strconv.FormatInt(c.Cost, 10))
		}
	}
	write(subject)
	write(f.first.method)
	write(strings.ToLower(syntax.Host(f.in.Host)))
	write(value)
	write(f.in.Path)
	write(f.in.RawPath)
	return hex.EncodeToString(h.Sum(nil)[:16]), life
}

func (c *Cost) of(f *facts) int64 {
	if c.Header != "" {
		if n, err := strconv.ParseInt(strings.TrimSpace(f.header(c.Header)), 10, 64); err == nil {
			return min(max(n, c.Min), c.Max)
		}
	}
	return c.Units
}

// after has the corrections that follow a response.
type after struct {
	header  string // response header with the true cost
	bytes   int64  // bytes of response body per unit
	maxDebt int64  // that a true cost may leave; 0 is one capacity of each limit
	refund  []int  // statuses or status classes
	atLeast bool   // a true cost below what was charged gives nothing back
}

// join returns the corrections for a request with two readings. Charges are given back only if both
// readings agree. A correction that may charge more is kept if either reading has it; otherwise
// another spelling of the request would avoid it. If there are two different true costs, the first
// one counts.
func (a *after) join(other *after) *after {
	if a == other {
		return a
	}
	if !a.settles() {
		a = other
	}
	if !a.settles() {
		return nil
	}
	joined := *a
	joined.refund, joined.atLeast = nil, true
	return &joined
}

// truth returns the true cost of a request and whether the outcome has it.
func (a *after) truth(o *Outcome) (int64, bool) {
	if a == nil {
		return 0, false
	}
	if a.header != "" {
		n, err := strconv.ParseInt(strings.TrimSpace(o.Cost), 10, 64)
		return min(n, stint.MaxUnits), err == nil && n >= 0
	}
	if a.bytes > 0 {
		return (o.Bytes + a.bytes - 1) / a.bytes, true
	}
	return 0, false
}

// settles reports whether the true cost is known only afterwards.
func (a *after) settles() bool { return a != nil && (a.header != "" || a.bytes > 0) }

// refunds reports whether everything is refunded after a status. [syntax.StatusClientGone] belongs
// to no class: a refund for "4xx" gives nothing back to a client that disconnects.
func (a *after) refunds(status int) bool {
	return slices.Contains(a.refund, status) || status != syntax.StatusClientGone &&
		slices.Contains(a.refund, status/100)
}

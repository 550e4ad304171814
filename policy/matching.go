package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tokens"
)

// tier is a compiled [Tier].
type tier struct {
	clause
	unit
	index   int
	rules   []*Rule
	scope   string // as in [Tier], with the default filled in
	bans    *stint.BanPolicy
	failure *stint.FailurePolicy
	contact string
}

// policy is a compiled [Policy].
type policy struct {
	clause
	unit
	skips   bool // if true, only the name and the clause are set
	per     []string
	tiers   []bool    // whether the policy applies to each tier; indexed by tier.index
	rules   [][]*Rule // the policy's rules for each tier; indexed by tier.index
	cost    *Cost
	costs   stint.Costs
	hold    time.Duration
	usage   *tokens.Rules
	after   *after
	id      *requestID
	failure *stint.FailurePolicy
}

// unit holds the fields that tiers and policies share: the identities by which they count requests,
// and the share of subjects for which they enforce their limits.
type unit struct {
	name    string
	who     []*identity // nil means the identity of the tier
	enforce uint32      // share of subjects, multiplied by enforceAll
}

// These scopes have a special meaning. A policy must not be named "global" or "other".
const (
	scopeRoute  = "route"
	scopeNone   = "none"
	globalScope = "global" // default scope of tiers
	otherScope  = "other"  // stands for a missing route and for unknown methods
)

// asker returns the first identity of the unit that the request has, with its subject. If the
// request has none, asker returns the zero value. It uses room as a buffer.
func (u *unit) asker(f *facts, room []byte) asker {
	for _, id := range u.who {
		if subject := id.subject(f, room); subject != "" {
			return asker{subject, id}
		}
	}
	return asker{}
}

type asker struct {
	subject string
	by      *identity
}

// exemptBy returns the name of the policy that exempts a request, or "". A request is exempt only
// if all its readings are.
func (s *Set) exemptBy(f *facts) string {
	if f.tooMany {
		return ""
	}
	by := -1
	for i := f.count() - 1; i >= 0; i-- {
		f.look(i)
		by = slices.IndexFunc(s.exempt, func(p *policy) bool { return p.mayFit(f) && p.clause.miss(f, true) == fits })
		if by < 0 {
			return ""
		}
	}
	return s.exempt[by].name
}

// tierOf returns the tier and the asker of the current reading. It always finds a tier, because the
// last one takes every request.
func (s *Set) tierOf(f *facts) (*tier, asker) {
	var room [128]byte
	for _, t := range s.tiers {
		if t.clause.miss(f, false) != fits {
			continue
		}
		if who := t.unit.asker(f, room[:0]); who.by != nil {
			return t, who
		}
	}
	return nil, asker{}
}

// miss returns the reason why a policy does not apply to a request of a tier, or the constant fits
// if the policy applies.
func (p *policy) miss(f *facts, t *tier) miss {
	if !p.skips && !p.tiers[t.index] {
		return missTier
	}
	return p.clause.miss(f, p.skips)
}

// askerIn returns the identity and the subject by which a policy counts a request. If the policy
// has no identity of its own, these are the ones by which the tier counts the request, which the
// caller passes as the argument tier.
func (p *policy) askerIn(f *facts, tier asker) asker {
	if p.who == nil || p.who[0] == tier.by {
		return tier
	}
	var room [128]byte
	return p.unit.asker(f, room[:0])
}

// scope returns the scope in which a policy counts a subject: the policy's name and the values of
// the attributes in per.
func (p *policy) scope(f *facts, route string) string {
	if len(p.per) == 0 {
		return p.name
	}
	b := []byte(p.name)
	for _, what := range p.per {
		b = append(b, ':')
		b = keypart.AppendEscaped(b, []byte(p.divider(what, f, route)), ':')
	}
	return string(b)
}

// divider returns the value of an attribute by which the policy counts requests separately.
func (p *policy) divider(what string, f *facts, route string) string {
	switch what {
	case "method":
		if slices.Contains(syntax.Methods[:], f.method) {
			return f.method
		}
		return otherScope
	case "host":
		return short(strings.ToLower(syntax.Host(f.in.Host)))
	case scopeRoute:
		return route
	}
	value, _ := p.when.pathOf(f).Value(f.path, what)
	return short(value)
}

// short returns a value, or its hash if the value is too long for a key.
func short(value string) string {
	if len(value) <= keypart.MaxIdentifier {
		return value
	}
	b, _ := keypart.AppendIdentifier(nil, value, false)
	return string(b)
}

func (t *tier) scopeOf(route string) string {
	switch t.scope {
	case scopeRoute:
		return route
	case scopeNone:
		return ""
	}
	return t.scope
}

package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/pathpattern"
	"github.com/stint-limiter/stint/internal/rollout"
	"github.com/stint-limiter/stint/internal/tokens"
	"github.com/stint-limiter/stint/internal/words"
)

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
	write(strings.ToLower(words.Host(f.in.Host)))
	write(value)
	write(f.in.Path)
	write(f.in.RawPath)
	return hex.EncodeToString(h.Sum(nil)[:16]), life
}

// tier is a compiled [Tier].
type tier struct {
	clause
	unit
	index   int
	rules   []*Rule
	scope   string // as in [Tier], never ""
	bans    *stint.BanPolicy
	failure *stint.FailurePolicy
	contact string
}

// policy is a compiled [Policy].
type policy struct {
	clause
	unit
	skips   bool      // then everything else but the name and the clause is zero
	per     []string  // as in [Policy]
	tiers   []bool    // by tier index: whether the policy applies to the tier
	rules   [][]*Rule // by tier index: rules for the number of requests and for their costs
	cost    *Cost
	costs   stint.Costs
	hold    time.Duration
	usage   *tokens.Rules
	after   *after
	id      *requestID
	failure *stint.FailurePolicy
}

// unit has what tiers and policies have in common: whose requests are counted together, and for
// which subjects the limits are enforced.
type unit struct {
	name    string
	who     []*identity // nil: the identity of the tier
	enforce uint32      // number of subjects out of enforceAll
}

const enforceAll = rollout.All

// Special scopes of a tier, and scopes that no policy may have as its name.
const (
	scopeRoute  = "route"
	scopeNone   = "none"
	globalScope = "global" // default scope of tiers
	otherScope  = "other"  // route of requests without one
)

// asker returns the first identity of the unit that the request has, with its subject. It returns
// the zero asker if the request has none. It uses room as a buffer.
func (u *unit) asker(f *facts, room []byte) asker {
	for _, id := range u.who {
		if subject := id.subject(f, room); subject != "" {
			return asker{subject, id}
		}
	}
	return asker{}
}

// enforced reports whether the unit's limits are enforced for a subject.
func (u *unit) enforced(subject string) bool { return rollout.Chosen(u.name, subject, u.enforce) }

type asker struct {
	subject string
	by      *identity
}

// patternUse is a pattern of a set, with the attributes that divide the count of matching requests.
type patternUse struct {
	*pathpattern.Pattern
	per []string
}

// fitting returns a string that encodes which patterns of the set a reading fits, with the values
// that divide counts. Readings with equal strings are judged alike.
func (s *Set) fitting(r *reading) string {
	var b []byte
	for i := range s.patterns {
		p := &s.patterns[i]
		if !r.fits(p.Pattern) {
			continue
		}
		b = binary.AppendUvarint(b, uint64(i))
		for _, name := range p.per {
			if value, ok := p.Value(r.path, name); ok {
				b = append(binary.AppendUvarint(b, uint64(len(value))), value...)
			}
		}
	}
	return string(b)
}

func (r *reading) fits(p *pathpattern.Pattern) bool {
	if r.folded != "" {
		return p.FitsFolded(r.folded)
	}
	return p.Fits(r.path)
}

// endingMatters reports whether a path fits a limiting pattern without the ending of its last
// segment but not with it. Otherwise the ending is treated as part of the segment's name, so that a
// pattern with the ending can exempt the path.
func (s *Set) endingMatters(path, without string, fits func(*pathpattern.Pattern, string) bool) bool {
	return slices.ContainsFunc(s.endings, func(p *pathpattern.Pattern) bool {
		return fits(p, without) && !fits(p, path)
	})
}

// exemptBy returns the name of the policy that exempts a request, or "". All readings must be
// exempt.
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

// tierOf returns the tier and the asker of the current reading. The last tier takes every request.
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

// miss returns the reason why a policy does not apply to a request of a tier.
func (p *policy) miss(f *facts, t *tier) miss {
	if !p.skips && !p.tiers[t.index] {
		return missTier
	}
	return p.clause.miss(f, p.skips)
}

// askerIn returns the asker whose requests a policy counts together, given the asker in the tier.
func (p *policy) askerIn(f *facts, tier asker) asker {
	if p.who == nil || p.who[0] == tier.by {
		return tier
	}
	var room [128]byte
	return p.unit.asker(f, room[:0])
}

// scope returns the scope in which a policy counts a subject: the policy's name and the values that
// divide its count.
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

// divider returns the value of an attribute that divides a policy's count.
func (p *policy) divider(what string, f *facts, route string) string {
	switch what {
	case "method":
		if slices.Contains(words.Methods[:], f.method) {
			return f.method
		}
		return otherScope
	case "host":
		return short(strings.ToLower(words.Host(f.in.Host)))
	case scopeRoute:
		return route
	}
	value, _ := p.when.pathOf(f).Value(f.path, what)
	return short(value)
}

// short returns a value, or a hash of it if it is too long for a key.
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

// refunds reports whether everything is refunded after a status. [words.StatusClientGone] belongs
// to no class: a refund for "4xx" gives nothing back to a client that disconnects.
func (a *after) refunds(status int) bool {
	return slices.Contains(a.refund, status) || status != words.StatusClientGone &&
		slices.Contains(a.refund, status/100)
}

package simulate

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// recommender measures what subjects use, and recommends limits that fit their usage.
type recommender struct {
	// store recognizes repeated request IDs. Its limits are so high that it denies only requests
	// that cost more than any limit allows.
	store       *memorystore.Store
	guard       *policy.Guard
	scale       scale
	rules       []ruleQuantities // by rule index
	maxSubjects int
	subjects    map[string]*needs
	// claims holds the measures of each claim and quantity: one measure for each window.
	claims map[claimKey][]measure

	// The fields below describe the request that is being measured.
	verdict policy.Verdict
	request stint.Request
}

// ruleQuantities holds what to measure for one rule. Limits with the same name count the same
// quantity.
type ruleQuantities struct {
	windows [][]*window   // the windows of each quantity
	limits  []stint.Limit // one for each quantity; in the store, they replace the limits of the rule
}

// window measures possible limits for one rule, all with the same name, window and burst.
type window struct {
	Recommendation
	exactLimit, largeLimit algorithm.Params
	steps                  []stepLimit // one for each number in the scale
	sliceless              int         // number of steps without slices
	denied                 []int64     // number of denied requests, by step

	// exact and large list the maximums that subjects need, in ascending order. They are filled in
	// after all requests have been measured. exact is for limits without slices; it leaves out
	// subjects that exceed all such limits. large is for limits with slices.
	exact, large []int64
}

// stepLimit is a limit whose maximum is a number in the scale.
type stepLimit struct {
	max int64
	algorithm.Params
}

type claimKey struct {
	subject, scope string
	rule, quantity int
}

// needs holds the needs of a subject in the windows of all rules that applied to it.
type needs []*need

// need holds the smallest maximums for one window that would have admitted all requests of a
// subject: exact for a limit without slices, and large for a limit with slices.
type need struct {
	window       *window
	exact, large int64
	exceeded     bool // the subject exceeded every limit without slices; exact is unknown
}

func (r *run) newRecommender() (*recommender, error) {
	store, err := r.newStore()
	if err != nil {
		return nil, err
	}
	o := r.options
	rec := &recommender{
		store: store, scale: newScale(), maxSubjects: o.MaxSubjects,
		subjects: make(map[string]*needs), claims: make(map[claimKey][]measure),
	}
	for _, rule := range o.Set.Rules() {
		var q ruleQuantities
		for _, name := range quantitiesOf(rule) {
			windows := windowsOf(rule, name, o)
			for _, w := range windows {
				w.scaled(rec.scale)
			}
			q.windows = append(q.windows, windows)
			// Each rule gets a different window. If two rules had the same window, the store would
			// use one count for the claims that they make for the same subject.
			unlimited := stint.Per(largestMax, stint.MinWindow+time.Duration(rule.Index)*time.Microsecond)
			q.limits = append(q.limits, unlimited.WithName(name))
		}
		rec.rules = append(rec.rules, q)
	}
	rec.guard, err = policy.NewGuard(settlingStore{Timeless{store}, rec}, o.Set,
		policy.GuardConfig{Logger: slog.New(slog.DiscardHandler), EnforceAll: true})
	return rec, err
}

// quantitiesOf returns the names of a rule's limits. Limits with different names count different
// quantities.
func quantitiesOf(rule *policy.Rule) (names []string) {
	for i := range rule.Limits {
		if name := rule.Limits[i].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{""} // a rule without limits: recommend limits on requests
	}
	return names
}

// windowsOf returns the windows to measure for the quantity with the given name: those of the
// rule's limits on that quantity, with their bursts, and all combinations of o.Windows and
// o.Bursts.
func windowsOf(rule *policy.Rule, name string, o *Options) []*window {
	var list []*window
	add := func(length time.Duration, burst int64, configured *stint.Limit) {
		added := &window{Recommendation: Recommendation{
			Policy: rule.Policy, Tier: rule.Tier, Costs: rule.Costs, Name: name,
			Window: Duration(length), Burst: burst, Configured: configured,
		}}
		same := func(w *window) bool { return w.Limit(1) == added.Limit(1) }
		if !slices.ContainsFunc(list, same) {
			list = append(list, added)
		}
	}
	for i := range rule.Limits {
		l := &rule.Limits[i]
		if l.Name != name {
			continue
		}
		switch l.Algorithm {
		case stint.AlgorithmConcurrency: // a log does not show which requests overlap
		case stint.AlgorithmSliding:
			add(l.Window, max(l.Capacity()/max(l.Max, 1), 1), l) // a limit of 0/1m has a burst of 1, not 0
		default:
			add(l.Window, 1, l)
		}
	}
	for _, length := range o.Windows {
		for _, burst := range o.Bursts {
			add(length, burst, nil)
		}
	}
	return list
}

// scaled sets up the limits to measure: exactLimit, largeLimit, and a step for each number in the
// scale.
func (w *window) scaled(s scale) {
	length := time.Duration(w.Window)
	of := func(l stint.Limit) algorithm.Params { return algorithm.Of(&l) }
	w.exactLimit = of(stint.Per(stint.Resolution/w.Burst*w.Burst, length))
	w.largeLimit = of(stint.Per(largestMax*w.Burst, length))
	if w.isCalendar() {
		w.exactLimit = of(w.Limit(largestMax))
		w.largeLimit = w.exactLimit
	}
	for _, round := range s {
		l := w.Limit(round)
		w.steps = append(w.steps, stepLimit{l.Max, of(l)})
		if !w.sliced(round) {
			w.sliceless++
		}
	}
	w.denied = make([]int64, len(s))
}

// add measures a request, and then settles its cost according to its outcome.
func (r *recommender) add(in *policy.Input, o policy.Outcome) error {
	ctx := context.Background()
	r.request = stint.Request{}
	v, request := &r.verdict, &r.request
	if err := r.guard.Prepare(in, v, request); err != nil || len(v.Results) == 0 {
		return err
	}
	request.Bans = nil
	for i := range v.Results {
		request.Claims[i].Limits = r.rules[v.Results[i].Rule.Index].limits
	}
	decision, err := r.store.Take(ctx, *request)
	if err != nil || !decision.Allowed { // it is denied only if it costs more than any limit allows
		return err
	}
	for i := range v.Results {
		claim, rule := &request.Claims[i], v.Results[i].Rule.Index
		for q := range claim.Limits {
			cost := claim.CostOf(&claim.Limits[q])
			if cost == 0 || decision.Repeat {
				continue
			}
			windows := r.rules[rule].windows[q]
			list := r.measures(claim, rule, q)
			for k := range list {
				windows[k].Requests++
				list[k].add(windows[k], decision.Charge.Data().At, cost)
			}
		}
	}
	v.Decision = decision
	if follow := r.guard.Follow(ctx, v); follow != nil {
		follow(o)
	}
	return nil
}

// measures returns the measures of a claim for a quantity of a rule, one for each window. It
// returns none for a new claim if there are too many subjects or claims.
func (r *recommender) measures(claim *stint.Claim, rule, quantity int) []measure {
	key := claimKey{claim.Subject, claim.Scope, rule, quantity}
	if list, ok := r.claims[key]; ok {
		return list
	}
	of := r.subjects[claim.Subject]
	key.subject, key.scope = strings.Clone(key.subject), strings.Clone(key.scope)
	switch {
	case len(r.claims) >= countsPerSubject*max(r.maxSubjects, DefaultMaxSubjects):
		return nil
	case of == nil && len(r.subjects) >= r.maxSubjects:
		return nil
	case of == nil:
		of = new(needs)
		r.subjects[key.subject] = of
	}
	list := make([]measure, len(r.rules[rule].windows[quantity]))
	for i, w := range r.rules[rule].windows[quantity] {
		list[i] = measure{need: of.in(w), exact: new(algorithm.Count), large: new(algorithm.Count)}
	}
	r.claims[key] = list
	return list
}

// in returns the need for window w. If there is none yet, it adds one.
func (s *needs) in(w *window) *need {
	i := slices.IndexFunc(*s, func(n *need) bool { return n.window == w })
	if i < 0 {
		i = len(*s)
		*s = append(*s, &need{window: w})
	}
	return (*s)[i]
}

// settlingStore is the store of a recommender. When it settles a charge, it also settles the
// recommender's measures.
type settlingStore struct {
	Timeless
	recommender *recommender
}

// Amend implements [stint.Store]. It also settles the measures. In each of them, the charge is the
// last one, because a replay settles each request before it decides the next one.
func (s settlingStore) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	done, err := s.Timeless.Amend(ctx, c, a)
	if done.Changed && a.Kind == stint.AmendSettle {
		for i := range c.Claims() {
			s.recommender.settle(&c.Claims()[i], c.Data().At, &a)
		}
	}
	return done, err
}

// settle settles the last charge of a claim in all of its measures.
func (r *recommender) settle(claim *stint.Claim, at int64, a *stint.Amendment) {
	for i := range r.verdict.Results {
		own, rule := &r.request.Claims[i], r.verdict.Results[i].Rule.Index
		if own.Subject != claim.Subject || own.Scope != claim.Scope ||
			own.Limits[0].Window != claim.Limits[0].Window {
			continue
		}
		for q := range claim.Limits {
			l := &claim.Limits[q]
			truth, ok := contract.TotalOf(a, l.Name)
			cost := claim.CostOf(l)
			if !ok || cost == 0 {
				continue
			}
			list := r.measures(claim, rule, q)
			for k := range list {
				list[k].settle(r.rules[rule].windows[q][k], at, cost, truth, a.MaxDebt)
			}
		}
	}
}

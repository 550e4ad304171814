package httplimit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
)

// ruleText holds the text about a rule in headers and bodies. The text does not depend on the
// request, so a ruleText is created once and reused.
type ruleText struct {
	policy, contact        string
	json                   string // members of a JSON body
	policyField, tierField []string
	// problem is the beginning of a problem+json body with the contact as its type, if the contact
	// is an http or https URL. detail is any other contact, as text to append to the detail. At
	// least one of the two is "".
	problem, detail string
	// policies is the rule's part of RateLimit-Policy.
	policies []string
	limits   []limitText
}

type limitText struct {
	// name is the limit's name in RateLimit-Policy. It is unique in nearly every answer, and does
	// not change between answers.
	name string
	// item is the beginning of the limit's item in RateLimit, up to the number of remaining units.
	// policy is the limit's item in RateLimit-Policy.
	item, policy string
	// timed reports whether the limit has a window.
	timed bool
	// max, window and burst are the values of X-RateLimit-Limit, X-RateLimit-Window and
	// X-RateLimit-Burst; window or burst is nil if the limit has none.
	max, window, burst []string
}

// ruleTexts holds the texts about one rule: own is for the limits of the rule itself, and kept is
// for other limits that requests have under the rule.
type ruleTexts struct {
	own ruleText

	mu   sync.RWMutex
	kept map[[keptLimits]stint.Limit]*ruleText
}

const (
	keptLimits = 3    // maximum number of limits in a cached text
	keptTexts  = 1024 // maximum number of cached texts per rule
)

// of returns the text for a result. Texts for limits other than the rule's own are cached, because
// many callers have the same limits.
func (t *ruleTexts) of(r *policy.Result) *ruleText {
	if equal(r.Limits, r.Rule.Limits) {
		return &t.own
	}
	var key [keptLimits]stint.Limit
	keep := copy(key[:], r.Limits) == len(r.Limits)
	if keep {
		t.mu.RLock()
		text := t.kept[key]
		t.mu.RUnlock()
		if text != nil {
			return text
		}
	}
	text := t.describe(r)
	if keep {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.kept == nil {
			t.kept = map[[keptLimits]stint.Limit]*ruleText{}
		}
		for other := range t.kept {
			if len(t.kept) < keptTexts {
				break
			}
			delete(t.kept, other)
		}
		t.kept[key] = text
	}
	return text
}

// describe returns text for limits other than the rule's own. A limit with the same ID as one of
// the rule's own limits also has the same name in RateLimit-Policy.
func (t *ruleTexts) describe(r *policy.Result) *ruleText {
	taken := names{}
	text := newRuleText(r.Rule, r.Limits, func(l *stint.Limit) string {
		for i := range t.own.limits {
			if contract.SameID(l, &r.Rule.Limits[i]) {
				return t.own.limits[i].name
			}
		}
		return taken.add(fullName(r.Rule.Name(), l))
	})
	return &text
}

// setText holds the texts about the rules of a set, by rule index.
type setText struct {
	set   *policy.Set
	rules []ruleTexts
}

func newSetText(set *policy.Set) *setText {
	t := &setText{set: set, rules: make([]ruleTexts, len(set.Rules()))}
	// It is enough that names are unique within each tier, because nearly every request has rules
	// of only one tier.
	taken := map[string]names{}
	for i, r := range set.Rules() {
		if taken[r.Tier] == nil {
			taken[r.Tier] = names{}
		}
		t.rules[i].own = newRuleText(r, r.Limits, taken[r.Tier].nameIn(r))
	}
	return t
}

// of appends the texts for the enforced results to a slice, and returns the extended slice. A rule
// that is not in the set gets a new text each time.
func (t *setText) of(results []policy.Result, to []*ruleText) []*ruleText {
	var taken names
	for i := range results {
		r := &results[i]
		if r.Shadow {
			break
		}
		if r.Rule.Index >= 0 {
			to = append(to, t.rules[r.Rule.Index].of(r))
			continue
		}
		if taken == nil {
			taken = names{}
		}
		text := newRuleText(r.Rule, r.Limits, taken.nameIn(r.Rule))
		to = append(to, &text)
	}
	return to
}

// describe sets x.shown, which selects the header fields, and x.rules, the texts about the rules
// that apply to the request.
func (x *exchange) describe() {
	set := x.v.Set
	x.shown = x.headers
	if x.shown == nil {
		x.shown = &set.Spec().Headers
	}
	text := x.texts.Load()
	if text == nil || text.set != set {
		text = newSetText(set)
		x.texts.Store(text)
	}
	x.rules = text.of(x.v.Results, x.ruleRoom[:0])
}

func (x *exchange) eachLimit(f func(*ruleText, *limitText, stint.State)) {
	for i, t := range x.rules {
		r := &x.v.Results[i]
		// A store may return too few or too many usages.
		for k := range min(len(r.Usages), len(t.limits)) {
			f(t, &t.limits[k], r.State(k))
		}
	}
}

// equal is like slices.Equal, but returns early if a and b share an array. They usually do, because
// most requests have the rule's own limits. Comparing element by element would take 2% of the time
// of a request.
func equal(a, b []stint.Limit) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

func newRuleText(r *policy.Rule, limits []stint.Limit, nameOf func(*stint.Limit) string) ruleText {
	name := r.Name()
	t := ruleText{policy: name, contact: r.Contact, json: fmt.Sprintf(`,"policy":%q`, name), policyField: fixed(name),
		tierField: fixed(r.Tier), limits: make([]limitText, len(limits))}
	if r.Tier != "" {
		t.json += fmt.Sprintf(`,"tier":%q`, r.Tier)
	}
	if r.Contact != "" {
		quoted := quote(r.Contact)
		t.json += `,"contact":` + quoted
		if syntax.IsContactURL(r.Contact) && !strings.HasPrefix(r.Contact, "mailto:") {
			t.problem = `{"type":` + quoted
		} else {
			t.detail = " " + quoted[1:len(quoted)-1]
		}
	}
	list := make([]string, len(limits))
	for i := range limits {
		l := &limits[i]
		full := nameOf(l)
		t.limits[i] = limitText{
			name:   full,
			item:   serialize(httpsfv.NewItem(full)) + ";r=",
			policy: serialize(policyItem(full, l)),
			timed:  l.Algorithm != stint.AlgorithmConcurrency,
			max:    fixed(strconv.FormatInt(l.Max, 10)),
		}
		if t.limits[i].timed {
			t.limits[i].window = fixed(strconv.FormatFloat(l.Window.Seconds(), 'f', -1, 64))
		}
		if c := l.Capacity(); c > l.Max {
			t.limits[i].burst = fixed(strconv.FormatInt(c, 10))
		}
		list[i] = t.limits[i].policy
	}
	t.policies = fixed(strings.Join(list, ", "))
	return t
}

func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // never fails
	return strings.TrimSuffix(b.String(), "\n")
}

// fullName returns a name that distinguishes the limits of a rule: "free-1m", "search-10s-bucket",
// "free-1d-login".
func fullName(rule string, l *stint.Limit) string {
	algorithm, window, _ := strings.Cut(l.ID(), "/")
	full := rule + "-" + strings.ReplaceAll(window, "/", "-")
	if l.Algorithm != stint.AlgorithmSliding {
		full += "-" + algorithm
	}
	return full
}

type names map[string]bool

// nameIn returns a function that names the limits of a rule.
func (n names) nameIn(r *policy.Rule) func(*stint.Limit) string {
	return func(l *stint.Limit) string { return n.add(fullName(r.Name(), l)) }
}

// add reserves a name and returns it: the given name or, if that is taken, the name with a number
// appended.
func (n names) add(name string) string {
	free := name
	for i := 2; n[free]; i++ {
		free = name + "-" + strconv.Itoa(i)
	}
	n[free] = true
	return free
}

// policyItem returns a limit's item in RateLimit-Policy. Its quota is the limit's capacity. Its
// window is the limit's own window or, for a bucket, the time in which the bucket refills
// completely. So a sliding limit, with or without a burst, admits at most the quota in any window.
// Windows are whole seconds, rounded up. Concurrency limits have no window.
func policyItem(name string, l *stint.Limit) httpsfv.Item {
	item := httpsfv.NewItem(name)
	item.Params.Add("q", quota(l.Capacity()))
	if l.Algorithm == stint.AlgorithmConcurrency {
		item.Params.Add("qu", "concurrent-requests")
		return item
	}
	window := l.Window
	if l.Algorithm == stint.AlgorithmBucket && l.Max > 0 {
		window = time.Duration(min(float64(l.Window)*float64(l.Capacity())/float64(l.Max),
			float64(stint.MaxWindow*stint.MaxBurst)))
	}
	item.Params.Add("w", wholeSeconds(window))
	return item
}

// quota returns units, but at most the largest integer that a structured field may contain, which
// has fifteen digits.
func quota(units int64) int64 { return min(units, 999_999_999_999_999) }

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// serialize returns a structured field as text. It cannot fail for the names that are passed to it.
func serialize(v httpsfv.StructuredFieldValue) string {
	s, _ := httpsfv.Marshal(v)
	return s
}

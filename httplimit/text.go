package httplimit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/words"
	"github.com/stint-limiter/stint/policy"
)

// ruleText is what answers say of a rule whatever the request: made once, used often.
type ruleText struct {
	policy, contact        string
	json                   string // the members of a body in JSON
	policyField, tierField []string
	// problem is how a problem begins whose type is the contact, a URL, and detail the contact, a
	// text, as it follows another; "" if the contact is no such thing.
	problem, detail string
	// policies is the rule's part of RateLimit-Policy.
	policies []string
	limits   []limitText
}

type limitText struct {
	// name is the limit's name in RateLimit-Policy: unique within an answer, and always the same.
	name string
	// item is the name as it begins an item of RateLimit, up to the number of units that are left,
	// and policy the limit's item of RateLimit-Policy.
	item, policy string
	// timed says that the limit has a window in which it is used up.
	timed bool
	// max, window and burst are values of the X fields; window and burst are nil if there is none.
	max, window, burst []string
}

// setText is what answers say of the rules of a set, by their index.
type setText struct {
	set   *policy.Set
	rules []ruleText
}

func newSetText(set *policy.Set) *setText {
	t := &setText{set: set, rules: make([]ruleText, len(set.Rules()))}
	taken := map[string]names{} // by tier: a request has one
	for i, r := range set.Rules() {
		if taken[r.Tier] == nil {
			taken[r.Tier] = names{}
		}
		t.rules[i] = newRuleText(r, r.Limits, taken[r.Tier])
	}
	return t
}

// of appends what there is to say of the results that are enforced. Rules that are not the set's,
// and those with other limits, as requests with several readings have, are described anew.
func (t *setText) of(results []policy.Result, to []*ruleText) []*ruleText {
	var taken names
	for i := range results {
		r := &results[i]
		if r.Shadow {
			break
		}
		if r.Rule.Index >= 0 && equal(r.Limits, r.Rule.Limits) {
			to = append(to, &t.rules[r.Rule.Index])
			continue
		}
		if taken == nil {
			taken = names{}
		}
		text := newRuleText(r.Rule, r.Limits, taken)
		to = append(to, &text)
	}
	return to
}

// equal is slices.Equal. Most requests are held to the limits of the rule itself, which are not
// compared: that was 2 % of a request.
func equal(a, b []stint.Limit) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

func newRuleText(r *policy.Rule, limits []stint.Limit, taken names) ruleText {
	name := r.Name()
	t := ruleText{policy: name, contact: r.Contact, json: fmt.Sprintf(`,"policy":%q`, name), policyField: fixed(name),
		tierField: fixed(r.Tier), limits: make([]limitText, len(limits))}
	if r.Tier != "" {
		t.json += fmt.Sprintf(`,"tier":%q`, r.Tier)
	}
	if r.Contact != "" {
		quoted := quote(r.Contact)
		t.json += `,"contact":` + quoted
		if words.IsContactURL(r.Contact) && !strings.HasPrefix(r.Contact, "mailto:") {
			t.problem = `{"type":` + quoted
		} else {
			t.detail = " " + quoted[1:len(quoted)-1]
		}
	}
	list := make([]string, len(limits))
	for i := range limits {
		l := &limits[i]
		full := taken.add(fullName(name, l))
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

// fullName tells the limits of a rule apart: "free-1m", "search-10s-bucket", "free-1d-login".
func fullName(rule string, l *stint.Limit) string {
	algorithm, window, _ := strings.Cut(l.ID(), "/")
	full := rule + "-" + strings.ReplaceAll(window, "/", "-")
	if l.Algorithm != stint.AlgorithmSliding {
		full += "-" + algorithm
	}
	return full
}

type names map[string]bool

// add takes a name, or if it is taken the next one like it.
func (n names) add(name string) string {
	free := name
	for i := 2; n[free]; i++ {
		free = name + "-" + strconv.Itoa(i)
	}
	n[free] = true
	return free
}

// policyItem is a limit as RateLimit-Policy has it. Its quota is the capacity, and its window that
// in which at most that much is admitted: a sliding limit's own, with or without a burst. That of a
// bucket is the time in which its capacity is refilled. Windows are whole seconds there: shorter
// ones are rounded up. Concurrency limits have none.
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

// quota is a number of units as structured fields can say it: in fifteen digits.
func quota(units int64) int64 { return min(units, 999_999_999_999_999) }

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// serialize writes a structured field. What it is given is made of names, which cannot be wrong.
func serialize(v httpsfv.StructuredFieldValue) string {
	s, _ := httpsfv.Marshal(v)
	return s
}

package overrides

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
)

// Override gives one subject other limits. [Write] and [Read] use its JSON form.
type Override struct {
	// Subject is the subject exactly as it is counted, such as "user:42".
	Subject string `json:"subject"`
	// Policy is the name of the policy or tier whose limits are overridden.
	Policy string `json:"policy"`
	// Limits raise the policy's limits. Each one raises the limit with its name, algorithm and
	// window: the larger of the two maximums and the larger of the two capacities apply. The
	// policy's other limits stay unchanged.
	Limits []stint.Limit `json:"limits"`
	// Lower makes Limits replace the policy's limits, even if that lowers them.
	Lower bool `json:"lower,omitempty"`
	// Until is the time at which the override ends, rounded down to a second. The zero time means
	// that it never ends.
	Until time.Time `json:"until,omitzero"`
	// Why is the reason for the override, such as a ticket, and By is its author. They are
	// informational and do not affect limits.
	Why string `json:"why,omitempty"`
	By  string `json:"by,omitempty"`
	// Made is the time at which the override was made. [Table.Set] fills it in.
	Made time.Time `json:"made,omitzero"`
}

// Apply returns the limits of the subject, given its configured limits. If nothing changes, it
// returns the given slice. It applies the override even if it has ended.
func (o *Override) Apply(configured []stint.Limit) []stint.Limit {
	return apply(configured, o.Limits, o.Lower)
}

func apply(configured, limits []stint.Limit, lower bool) []stint.Limit {
	effective, changed := configured, false
	for i := range configured {
		k := slices.IndexFunc(limits, func(m stint.Limit) bool { return contract.SameID(&m, &configured[i]) })
		if k < 0 {
			continue
		}
		l := effect(configured[i], limits[k], lower)
		if l == configured[i] {
			continue
		}
		if !changed {
			effective, changed = slices.Clone(configured), true
		}
		effective[i] = l
	}
	return effective
}

// maxText is the maximum length of Why and By in bytes.
const maxText = 200

// Validate reports every mistake in the override, in one [*stint.InvalidError]. It does not depend
// on a configuration.
func (o *Override) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Subject == "" || len(o.Subject) > stint.MaxSubject {
		add("the subject has %d bytes; want 1 to %d", len(o.Subject), stint.MaxSubject)
	}
	if !syntax.IsName(o.Policy) {
		add("invalid policy %q; want the name of a policy or a tier", o.Policy)
	}
	if len(o.Limits) == 0 || len(o.Limits) > stint.MaxLimits {
		add("%d limits; want 1 to %d", len(o.Limits), stint.MaxLimits)
	}
	for i, l := range o.Limits {
		if err := l.Validate(); err != nil {
			add("%s: %w", l, contract.Mistakes(err))
		}
		if slices.ContainsFunc(o.Limits[:i], func(m stint.Limit) bool { return contract.SameID(&l, &m) }) {
			add("%s has the same name, algorithm and window as another limit", l)
		}
	}
	for _, text := range []string{o.Why, o.By} {
		if len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl) {
			add("%.20q…: want at most %d bytes in one line", text, maxText)
		}
	}
	if len(errs) > 0 {
		return &stint.InvalidError{Err: errors.Join(errs...)}
	}
	return nil
}

// Check returns an error unless the override fits the set: its policy or tier must exist, and must
// have limits with the names, algorithms and windows of Limits. The error is a
// [*stint.InvalidError].
func (o *Override) Check(set *policy.Set) error {
	var names, limits []string
	var here []stint.Limit
	for _, r := range set.Rules() {
		if !slices.Contains(names, r.Name()) {
			names = append(names, r.Name())
		}
		if r.Name() == o.Policy {
			here = append(here, r.Limits...)
		}
	}
	if here == nil {
		return &stint.InvalidError{Err: fmt.Errorf("unknown policy or tier %q; want %s", o.Policy,
			messages.OneOf(names))}
	}
	for _, l := range here {
		if text := l.String(); !slices.Contains(limits, text) {
			limits = append(limits, text)
		}
	}
	for _, l := range o.Limits {
		if !slices.ContainsFunc(here, func(m stint.Limit) bool { return contract.SameID(&l, &m) }) {
			return &stint.InvalidError{Err: fmt.Errorf("%s has no limit like %s; want the name, algorithm and window "+
				"of one of %s", o.Policy, l, strings.Join(limits, ", "))}
		}
	}
	return nil
}

// base is the numeric base of the times in the stored form of an override.
const base = 36

// text returns the override without its subject and policy, in the form in which a table stores it.
// The text has five lines: the limits after "raise" or "set", Until, Made, By and Why. It is short
// because every process keeps up to a million of these strings.
func (o *Override) text() string {
	limits := make([]string, len(o.Limits))
	for i, l := range o.Limits {
		limits[i] = l.String()
	}
	verb, until := "raise", int64(0)
	if o.Lower {
		verb = "set"
	}
	if !o.Until.IsZero() {
		until = max(o.Until.Unix(), 1) // 0 would mean that the override never ends
	}
	return strings.Join([]string{verb + " " + strings.Join(limits, ", "), strconv.FormatInt(until, base),
		strconv.FormatInt(o.Made.UnixMicro(), base), o.By, o.Why}, "\n")
}

// parts holds the parts of an override's text; see [Override.text].
type parts struct {
	head
	made    int64 // Unix time in microseconds
	by, why string
}

func split(text string) (p parts, ok bool) {
	lines := strings.SplitN(text, "\n", 5)
	if len(lines) != 5 {
		return p, false
	}
	h, ok := headOf(text)
	made, err := strconv.ParseInt(lines[2], base, 64)
	return parts{h, made, lines[3], lines[4]}, ok && err == nil
}

// head holds the parts of an override's text that a decision needs.
type head struct {
	limits string
	lower  bool
	until  int64 // Unix time in seconds; 0 if the override never ends
}

// headOf returns the head of text, and whether text is well formed. It does not parse the limits.
func headOf(text string) (h head, ok bool) {
	first, rest, _ := strings.Cut(text, "\n")
	until, _, _ := strings.Cut(rest, "\n")
	verb, limits, _ := strings.Cut(first, " ")
	n, err := strconv.ParseInt(until, base, 64)
	return head{limits, verb == "set", n}, err == nil && (verb == "set" || verb == "raise")
}

func (h *head) ended(now time.Time) bool { return h.until > 0 && now.Unix() >= h.until }

// effect returns the limit that results from overriding configured with over. If lower is true, the
// limit has the maximum and the burst of over. Otherwise, it has the larger of the two maximums and
// at least the larger of the two capacities. If such a limit would not be valid, effect uses the
// maximum and the burst of whichever limit has the larger maximum.
func effect(configured, over stint.Limit, lower bool) stint.Limit {
	l := configured
	if lower {
		l.Max, l.Burst = over.Max, over.Burst
		return l
	}
	if over.Max <= l.Max && over.Capacity() <= l.Capacity() {
		return l
	}
	atOnce := max(l.Capacity(), over.Capacity())
	l.Max = max(l.Max, over.Max)
	if l.Algorithm == stint.AlgorithmSliding { // the burst of a sliding limit must be a multiple of Max
		atOnce = (atOnce + l.Max - 1) / l.Max * l.Max
	}
	if l.Burst = atOnce; atOnce == l.Max {
		l.Burst = 0
	}
	switch {
	case l.Validate() == nil:
	case over.Max < configured.Max: // both are valid, but their combination is not
		return configured
	default:
		l.Max, l.Burst = over.Max, over.Burst
	}
	return l
}

// parseLimits parses limits that are separated by ", ".
func parseLimits(text string) ([]stint.Limit, error) {
	var limits []stint.Limit
	for one := range strings.SplitSeq(text, ", ") {
		l, err := stint.ParseLimit(one)
		if err != nil {
			return nil, err
		}
		limits = append(limits, l)
	}
	return limits, nil
}

// read returns the override that is stored in a row of a table.
func read(name, text string) (o Override, err error) {
	subject, of := cutName(name)
	p, ok := split(text)
	if !ok {
		return o, fmt.Errorf("the override %q is damaged", name)
	}
	limits, err := parseLimits(p.limits)
	o = Override{Subject: subject, Policy: of, Limits: limits, Lower: p.lower, Why: p.why, By: p.by,
		Made: time.UnixMicro(p.made)}
	if p.until > 0 {
		o.Until = time.Unix(p.until, 0)
	}
	return o, err
}

func cutName(name string) (subject, policy string) {
	i := strings.LastIndex(name, separator)
	return name[:max(i, 0)], name[i+1:]
}

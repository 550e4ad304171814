package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/yamlread"
	"github.com/stint-limiter/stint/policy"
)

// These constants describe list elements in messages.
const (
	oneText   = "a string"
	oneStatus = "a status such as 404 or a class such as 5xx"
	oneLimit  = "a limit such as 100/1m"
	oneShare  = "a share such as 80%"
)

// elements calls f for each element of a list. If is(element) is false, it reports a mistake
// instead. A single element may be written without a list. The argument one describes an element,
// for messages.
func (d *decoder) elements(
	n *yaml.Node, key, one string, is func(*yaml.Node) bool, f func(n *yaml.Node, key string),
) {
	switch {
	case is(n):
		f(n, key)
		return
	case n.Kind != yaml.SequenceNode:
		d.bad(n, key, "want %s; got %s", orSeveral(one), got(n))
		return
	case len(n.Content) == 0:
		d.bad(n, key, "an empty list; want %s, or leave it out", one)
		return
	}
	for i, element := range n.Content {
		at := item(key, i)
		if !d.another(element, at) {
			return
		}
		d.positions[at] = position{d.file, element.Line}
		resolved := yamlread.Resolve(element)
		switch {
		case !is(resolved) || yamlread.IsNull(resolved) || yamlread.IsTagged(resolved):
			d.bad(element, at, "want %s; got %s%s", one, got(resolved), namedLimit(resolved))
		default:
			f(resolved, at)
		}
	}
}

func isScalar(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode }

func orSeveral(one string) string { return one + ", or a list of several" }

// namedLimit returns a hint for a named limit without quotes, such as login: 5/15m, which YAML
// reads as a mapping.
func namedLimit(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return ""
	}
	text := n.Content[0].Value + ": " + n.Content[1].Value
	if _, err := stint.ParseLimit(text); err != nil {
		return ""
	}
	return fmt.Sprintf(": write %q, with the quotes", text)
}

func (v *list) want() string { return orSeveral(oneText) }

func (v *list) read(d *decoder, n *yaml.Node, key string) {
	d.elements(n, key, oneText, isScalar, func(n *yaml.Node, key string) {
		if n.Value == "" {
			d.bad(n, key, "an empty string; want something, or leave it out")
			return
		}
		*v = append(*v, n.Value)
	})
}

func (v *statuses) want() string {
	return "a status such as 404, a class such as 5xx, or a list of them"
}

func (v *statuses) read(d *decoder, n *yaml.Node, key string) {
	d.elements(n, key, oneStatus, isScalar, func(n *yaml.Node, key string) {
		if !statusText.MatchString(n.Value) {
			d.bad(n, key, "want %s; got %s", oneStatus, got(n))
			return
		}
		// This cannot fail: the pattern has matched.
		status, _ := strconv.Atoi(strings.TrimSuffix(n.Value, "xx"))
		*v = append(*v, status)
	})
}

func (v *shares) want() string { return orSeveral(oneShare) }

func (v *shares) read(d *decoder, n *yaml.Node, key string) {
	d.elements(n, key, oneShare, isScalar, func(n *yaml.Node, key string) {
		number, isShare := strings.CutSuffix(n.Value, "%")
		share, err := strconv.Atoi(number)
		switch {
		case err != nil || !integerText.MatchString(number):
			d.bad(n, key, "want a whole percentage such as 80%%; got %s", got(n))
		case !isShare:
			d.bad(n, key, "want %s; got %s: write %d%%", oneShare, got(n), share)
		default:
			*v = append(*v, share)
		}
	})
}

const unlimited = "unlimited"

func (v *limitList) want() string { return orSeveral(oneLimit) }

func (v *limitList) read(d *decoder, n *yaml.Node, key string) {
	*v = limitList{}
	for _, l := range d.limits(n, key, isScalar) {
		*v = append(*v, l.Limit)
	}
}

func (v *ruleLimits) want() string { return orSeveral(oneLimit) }

func (v *ruleLimits) read(d *decoder, n *yaml.Node, key string) {
	*v = d.limits(n, key, func(n *yaml.Node) bool {
		return isScalar(n) || hasKey(n, "limit") || hasKey(n, "claim")
	})
}

// limits reads limits, each of which is a string or a mapping with a claim. If there is no mistake,
// an empty result means explicitly unlimited. The result is nil only if there are too many limits.
func (d *decoder) limits(n *yaml.Node, key string, is func(*yaml.Node) bool) []policy.Limit {
	limits := []policy.Limit{}
	var keys []string
	d.elements(n, key, oneLimit, is, func(n *yaml.Node, key string) {
		if n.Kind == yaml.MappingNode {
			if l, ok := d.claimed(n, key); ok {
				limits, keys = append(limits, l), append(keys, key)
			}
			return
		}
		text := n.Value
		window, without := strings.CutPrefix(text, unlimited+"/")
		if text == unlimited {
			return
		}
		if without {
			text = "1/" + window
		}
		limit, err := stint.ParseLimit(text)
		switch {
		case err != nil:
			d.bad(n, key, "%s: %s%s", got(n), limitMistakes(err), messages.Hint(n.Value, []string{unlimited}))
		case without && limit != stint.Per(1, limit.Window):
			d.bad(n, key, "%s: want only a window after %s/, as in unlimited/1d", got(n), unlimited)
		case !without:
			limits, keys = append(limits, policy.Limit{Limit: limit}), append(keys, key)
		}
	})
	if len(limits) > stint.MaxLimits {
		d.bad(n, key, "%d limits; want at most %d", len(limits), stint.MaxLimits)
		limits = nil // limits are compared in pairs, which would take too long for so many
	}
	d.idle(limits, keys)
	return limits
}

// claimed reads a limit whose maximum comes from a claim, and reports whether it is valid.
func (d *decoder) claimed(n *yaml.Node, key string) (policy.Limit, bool) {
	var doc limitDoc
	d.structure(n, reflect.ValueOf(&doc).Elem(), key)
	at := join(key, "limit")
	limit, err := stint.ParseLimit(doc.Limit)
	switch {
	case d.lacks(at) || d.lacks(join(key, "claim")) || d.lacks(join(key, "max")):
	case doc.Limit == "" || doc.Claim == "" || !d.has(join(key, "max")):
		d.bad(n, key, "want limit, claim and max, as in {limit: 60/1m, claim: rpm, max: 10000}")
	case doc.Limit == unlimited:
		d.bad(n, at, "requests without the claim would have no limit; want one, or 0/1m to deny them")
	case err != nil:
		d.bad(n, at, "%q: %s", messages.Shorten(doc.Limit, 80), limitMistakes(err))
	case limit.Max == 0 && strings.Contains(doc.Limit, "burst"):
		d.bad(n, at, "%q: a burst is a multiple of the number, so 0 has none; want another number, or no burst", doc.Limit)
	default:
		return policy.Limit{Limit: limit, Claim: doc.Claim, Max: doc.Max}, true
	}
	return policy.Limit{}, false
}

// idle warns of limits that have no effect because of other limits in the list. If each of two
// limits makes the other ineffective, only the second one gets a warning. idle ignores limits whose
// maximum comes from a claim.
func (d *decoder) idle(list []policy.Limit, keys []string) {
	limits, warnings := make([]stint.Limit, len(list)), make([]string, len(list))
	for i := range list {
		limits[i] = list[i].Limit
	}
	for i, l := range slices.Backward(limits) {
		by, most, ok := algorithm.Idle(limits, i, func(j int) bool {
			return warnings[j] != "" || list[j].Claim != "" ||
				contract.SameID(&limits[i], &limits[j]) // reported elsewhere as a mistake
		})
		if ok && list[i].Claim == "" {
			warnings[i] = fmt.Sprintf("%s has no effect: %s allows at most %s; lower it, raise %[2]s, or leave it out",
				l, limits[by], stint.Per(most, l.Window))
		}
	}
	for i, text := range warnings {
		if text != "" {
			d.warn(keys[i], "%s", text)
		}
	}
}

// limitMistakes returns the mistakes that [stint.ParseLimit] found, without the text of the limit.
func limitMistakes(err error) string {
	if inner := errors.Unwrap(contract.Mistakes(err)); inner != nil {
		err = inner
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

func (l *tierLimits) want() string {
	return oneLimit + ", a list of several, or a mapping from tiers to limits"
}

func (l *tierLimits) read(d *decoder, n *yaml.Node, key string) {
	if n.Kind == yaml.MappingNode && (!hasKey(n, "limit") || !hasKey(n, "claim")) {
		d.names(n, reflect.ValueOf(&l.ByTier).Elem(), key)
		return
	}
	l.All.read(d, n, key)
}

func hasKey(n *yaml.Node, name string) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for k := range yamlread.Keys(n) {
		if k.IsName() && k.Name.Value == name {
			return true
		}
	}
	return false
}

func (v *costDoc) want() string { return "a number of units, or a mapping with the key header" }

func (v *costDoc) read(d *decoder, n *yaml.Node, key string) {
	switch n.Kind {
	case yaml.ScalarNode:
		units := d.integer(n, key)
		v.Units = &units
	case yaml.MappingNode:
		d.structure(n, reflect.ValueOf(v).Elem(), key)
	default:
		d.bad(n, key, "want %s; got %s", v.want(), got(n))
	}
}

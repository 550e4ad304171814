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
	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/internal/yamlread"
)

// What a list holds.
const (
	oneText   = "a text"
	oneStatus = "a status such as 404 or a class such as 5xx"
	oneLimit  = "a limit such as 100/1m"
)

// scalars calls f with every element of a list of scalars, or with the one that stands for itself.
func (d *decoder) scalars(n *yaml.Node, key, one string, f func(n *yaml.Node, key string)) {
	switch {
	case n.Kind == yaml.ScalarNode:
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
		scalar := yamlread.Resolve(element)
		switch {
		case scalar.Kind != yaml.ScalarNode || yamlread.IsNull(scalar) || yamlread.IsTagged(scalar):
			d.bad(element, at, "want %s; got %s%s", one, got(scalar), namedLimit(scalar))
		default:
			f(scalar, at)
		}
	}
}

func orSeveral(one string) string { return one + ", or a list of several" }

// namedLimit is a hint for "- login: 5/15m", which is a mapping for want of quotes.
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
	d.scalars(n, key, oneText, func(n *yaml.Node, key string) {
		if n.Value == "" {
			d.bad(n, key, "an empty text; want something, or leave it out")
			return
		}
		*v = append(*v, n.Value)
	})
}

func (v *statuses) want() string {
	return "a status such as 404, a class such as 5xx, or a list of them"
}

func (v *statuses) read(d *decoder, n *yaml.Node, key string) {
	d.scalars(n, key, oneStatus, func(n *yaml.Node, key string) {
		if !statusText.MatchString(n.Value) {
			d.bad(n, key, "want %s; got %s", oneStatus, got(n))
			return
		}
		// The pattern leaves nothing to fail.
		status, _ := strconv.Atoi(strings.TrimSuffix(n.Value, "xx"))
		*v = append(*v, status)
	})
}

// unlimited is the word for no limit at all.
const unlimited = "unlimited"

func (v *limitList) want() string { return orSeveral(oneLimit) }

func (v *limitList) read(d *decoder, n *yaml.Node, key string) {
	limits := limitList{} // not nil: it is explicitly unlimited
	var keys []string
	d.scalars(n, key, oneLimit, func(n *yaml.Node, key string) {
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
			d.bad(n, key, "%s: %s%s", got(n), limitMistakes(err), nearest.Hint(n.Value, []string{unlimited}))
		case without && limit != stint.Per(1, limit.Window):
			d.bad(n, key, "%s: want nothing but a window after %s/, as in unlimited/1d", got(n), unlimited)
		case !without:
			limits, keys = append(limits, limit), append(keys, key)
		}
	})
	if len(limits) > stint.MaxLimits {
		d.bad(n, key, "%d limits; want at most %d", len(limits), stint.MaxLimits)
		limits = nil // limits are compared with each other, and so many would take long
	}
	*v = limits
	d.idle(limits, keys)
}

// idle warns of limits that have no effect because of others in the list. Of two that do this to
// each other, the first one stays.
func (d *decoder) idle(limits []stint.Limit, keys []string) {
	warnings := make([]string, len(limits))
	for i, l := range slices.Backward(limits) {
		by, most, ok := algorithm.Idle(limits, i, func(j int) bool {
			return warnings[j] != "" || contract.SameID(&limits[i], &limits[j]) // that is a mistake of its own
		})
		if ok {
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

// limitMistakes returns what [stint.ParseLimit] found, without the text that it was found in.
func limitMistakes(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

func (l *tierLimits) want() string {
	return oneLimit + ", a list of several, or a mapping from tiers to limits"
}

func (l *tierLimits) read(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.MappingNode {
		l.All.read(d, n, key)
		return
	}
	d.names(n, reflect.ValueOf(&l.ByTier).Elem(), key)
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

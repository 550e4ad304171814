package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/yamlread"
)

// These constants are regular expressions for values that are written as text. The schema uses all
// of them except integerPattern.
const (
	durationPattern = `^([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$`
	percentPattern  = `^(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)%$`
	statusPattern   = `^[1-5]([0-9][0-9]|xx)$`
	integerPattern  = `^(0|[1-9][0-9]*)$`
)

var (
	durationText = regexp.MustCompile(durationPattern)
	percentText  = regexp.MustCompile(percentPattern)
	statusText   = regexp.MustCompile(statusPattern)
	integerText  = regexp.MustCompile(integerPattern)
)

// text reads a scalar as it is written, because a name may be an unquoted number.
func (d *decoder) text(n *yaml.Node, key, want string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		d.bad(n, key, "want %s; got %s", want, got(n))
		return "", false
	}
	return n.Value, true
}

func (d *decoder) boolean(n *yaml.Node, key string) bool {
	text, ok := d.text(n, key, "true or false")
	switch {
	case !ok:
	case !yamlread.IsQuoted(n) && (text == "true" || text == "false"):
		return text == "true"
	case slices.Contains([]string{"true", "yes", "on", "y"}, strings.ToLower(text)):
		d.bad(n, key, "want true or false; got %s: write true", got(n))
	case slices.Contains([]string{"false", "no", "off", "n"}, strings.ToLower(text)):
		d.bad(n, key, "want true or false; got %s: write false", got(n))
	default:
		d.bad(n, key, "want true or false; got %s", got(n))
	}
	return false
}

func (d *decoder) integer(n *yaml.Node, key string) int64 {
	text, ok := d.text(n, key, "a whole number")
	if !ok {
		return 0
	}
	number, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !integerText.MatchString(text) && strings.Contains(key, ".prices."):
		d.bad(n, key, "want a whole number, such as 2500000 for 2.50 dollars if the budget counts millionths of a dollar; "+
			"got %s", got(n))
	case !integerText.MatchString(text):
		d.bad(n, key, "want a whole number such as 0 or 1000; got %s", got(n))
	case yamlread.IsQuoted(n):
		d.bad(n, key, "want a whole number; got %s: leave out the quotes", got(n))
	case err != nil || number > stint.MaxUnits:
		d.bad(n, key, "want at most %d; got %s", stint.MaxUnits, got(n))
	default:
		return number
	}
	return 0
}

func (v *duration) want() string { return `a duration such as 15ms, 1m30s, 1h or 1d` }

func (v *duration) read(d *decoder, n *yaml.Node, key string) {
	text, ok := d.text(n, key, v.want())
	if !ok {
		return
	}
	length, err := parseDuration(text)
	switch {
	case integerText.MatchString(text):
		d.bad(n, key, "%s has no unit; want %s", text, v.want())
	case err != nil:
		d.bad(n, key, "want %s; got %s", v.want(), got(n))
	case length > stint.MaxWindow:
		d.bad(n, key, "want at most 366d; got %s", got(n))
	default:
		*v = duration(length)
	}
}

func (v *budget) want() string { return (*duration)(v).want() + ", or strict" }

func (v *budget) read(d *decoder, n *yaml.Node, key string) {
	if n.Value == strictBudget {
		*v = budget(stint.StrictBudget)
		return
	}
	(*duration)(v).read(d, n, key)
}

const strictBudget = "strict"

// parseDuration parses a Go duration. A number of days may come first, as in limits. If the
// duration is too long, the result is above [stint.MaxWindow].
func parseDuration(text string) (time.Duration, error) {
	if text == "" || !durationText.MatchString(text) {
		return 0, errors.New("not a duration")
	}
	var length time.Duration
	if days, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 64)
		if err != nil || n > int64(stint.MaxWindow/(24*time.Hour)) {
			return math.MaxInt64, nil
		}
		length, text = time.Duration(n)*24*time.Hour, cmp.Or(rest, "0")
	}
	rest, err := time.ParseDuration(text)
	if err != nil || rest > stint.MaxWindow {
		return math.MaxInt64, nil // the pattern has matched, so the duration is too long
	}
	return length + rest, nil
}

func (v *percent) want() string { return "a percentage from 0% to 100%" }

func (v *percent) read(d *decoder, n *yaml.Node, key string) {
	text, ok := d.text(n, key, v.want())
	if !ok {
		return
	}
	if !percentText.MatchString(text) {
		hint := ""
		if percentText.MatchString(text+"%") && !strings.HasPrefix(text, "0.") { // 0.2 may mean 20%
			hint = fmt.Sprintf(": write %s%%", text)
		}
		d.bad(n, key, "want %s; got %s%s", v.want(), got(n), hint)
		return
	}
	// This cannot fail: the pattern has matched.
	share, _ := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	*v = percent(share)
}

// share returns the percentage as a share from 0 to 1. It returns nil for nil.
func (v *percent) share() *float64 {
	if v == nil {
		return nil
	}
	return new(float64(*v) / 100)
}

func (v *size) want() string { return syntax.SizeExamples }

func (v *size) read(d *decoder, n *yaml.Node, key string) {
	text, ok := d.text(n, key, v.want())
	if !ok {
		return
	}
	bytes, err := syntax.Size(text)
	if err != nil {
		d.bad(n, key, "%v; got %s", err, got(n))
		return
	}
	*v = size(bytes)
}

func (v *failureMode) want() string { return "local, allow, deny or error" }

func (v *failureMode) read(d *decoder, n *yaml.Node, key string) {
	text, ok := d.text(n, key, v.want())
	if !ok {
		return
	}
	for mode := stint.FailLocal; mode <= stint.FailError; mode++ {
		if mode.String() == text {
			*v = failureMode(mode)
			return
		}
	}
	d.bad(n, key, "want %s; got %s%s", v.want(), got(n),
		messages.Hint(text, []string{"local", "allow", "deny", "error"}))
}

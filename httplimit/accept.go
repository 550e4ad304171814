package httplimit

import "strings"

// format is a form of the body of an answer.
type format uint8

// The forms, in the order in which they are preferred if the client has no preference.
const (
	formatJSON format = iota
	formatProblem
	formatPlain
	formats
)

var contentTypes = [formats][]string{fixed("application/json"), fixed("application/problem+json"),
	fixed("text/plain; charset=utf-8")}

// offers are the media types of the forms.
var offers = [formats]struct{ kind, subtype string }{
	{"application", "json"}, {"application", "problem+json"}, {"text", "plain"},
}

// maxAccept is how much of an Accept header is looked at: nobody's preferences are longer.
const maxAccept = 1024

// negotiate is written by hand because it is on the path of every denial: it allocates nothing (the
// whole of a denial allocates twice, for its header fields), and reads a bounded part of what a
// client sends.
//
// It chooses the form that the client likes best by the values of its Accept header: the highest
// quality, then the type that is named most precisely, then the order of the forms. It is JSON if
// none is acceptable. Parameters of media types other than q are of no account.
func negotiate(values []string) format {
	if len(values) == 0 || len(values) == 1 && values[0] == "*/*" {
		return formatJSON
	}
	var found [formats]preference
	left := maxAccept
	for _, list := range values {
		for rest := list[:min(len(list), left)]; rest != ""; {
			var element string
			element, rest = cutElement(rest, ',')
			r, ok := parseRange(element)
			for f := range found {
				if p := r.preferenceFor(format(f)); ok && p.precision > found[f].precision {
					found[f] = p
				}
			}
		}
		if left -= len(list); left <= 0 {
			break
		}
	}
	best := formatJSON
	for f := formatJSON; f < formats; f++ {
		if found[f].above(found[best]) {
			best = f
		}
	}
	return best
}

// preference is what a client thinks of a media type.
type preference struct {
	quality   int // in thousandths
	precision int // of the range that says so: 0 is none
}

func (p preference) above(q preference) bool {
	if p.quality == 0 || p.quality != q.quality {
		return p.quality > q.quality
	}
	return p.precision > q.precision
}

// mediaRange is an element of an Accept header.
type mediaRange struct {
	kind, subtype string
	quality       int
}

func (r mediaRange) preferenceFor(f format) preference {
	offer := &offers[f]
	switch {
	case r.kind == "*" && r.subtype == "*":
		return preference{r.quality, 1}
	case !strings.EqualFold(r.kind, offer.kind):
		return preference{}
	case r.subtype == "*":
		return preference{r.quality, 2}
	case strings.EqualFold(r.subtype, offer.subtype):
		return preference{r.quality, 3}
	}
	return preference{}
}

func parseRange(element string) (r mediaRange, ok bool) {
	media, parameters := cutElement(element, ';')
	r.kind, r.subtype, ok = strings.Cut(trimSpace(media), "/")
	r.quality = 1000
	for ok && parameters != "" {
		var parameter string
		parameter, parameters = cutElement(parameters, ';')
		if key, value, isPair := strings.Cut(trimSpace(parameter), "="); isPair && strings.EqualFold(key, "q") {
			r.quality, ok = parseQuality(value)
		}
	}
	return r, ok && r.kind != "" && r.subtype != ""
}

// parseQuality reads "0.5" as 500: a number from 0 to 1 with at most three decimals.
func parseQuality(s string) (thousandths int, ok bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0, false
	}
	digit := 100
	for _, c := range []byte(decimals) {
		if c < '0' || c > '9' {
			return 0, false
		}
		thousandths += int(c-'0') * digit
		digit /= 10
	}
	if whole == "1" {
		thousandths += 1000
	}
	return thousandths, thousandths <= 1000
}

// cutElement cuts a list at its first separator outside of a quoted string.
func cutElement(list string, separator byte) (element, rest string) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}

func trimSpace(s string) string { return strings.Trim(s, " \t") }

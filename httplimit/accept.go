package httplimit

import (
	"strconv"
	"strings"
)

type format uint8

// The formats of an answer. Among formats that suit a client equally well, the first one is used.
const (
	formatJSON format = iota
	formatProblem
	formatPlain
	formats
)

var contentTypes = [formats][]string{fixed("application/json"), fixed("application/problem+json"),
	fixed("text/plain; charset=utf-8")}

var offers = [formats]string{"application/json", "application/problem+json", "text/plain"}

// maxAccept is the maximum number of bytes of an Accept header that are read. Real clients send far
// less.
const maxAccept = 1024

// negotiate chooses the format that the client prefers according to the values of its Accept
// header. The format with the highest quality wins. Among formats of equal quality, the one that
// the header names most precisely wins, and then the one that is first in the list of formats. It
// chooses JSON if no format is acceptable. Parameters other than q are ignored.
//
// negotiate runs for every denial, so it does not use a library: it does not allocate, and it reads
// at most maxAccept bytes.
func negotiate(values []string) format {
	if len(values) == 0 || len(values) == 1 && values[0] == "*/*" {
		return formatJSON
	}
	var quality [formats]float64
	var precision [formats]int // precision of the media range that set the quality
	left := maxAccept
	for _, list := range values {
		for rest := list[:min(len(list), left)]; rest != ""; {
			var element string
			element, rest = cutElement(rest, ',')
			media, q, ok := parseRange(element)
			for f, offer := range offers {
				if p := precisionOf(media, offer); ok && p > precision[f] {
					quality[f], precision[f] = q, p
				}
			}
		}
		if left -= len(list); left <= 0 {
			break
		}
	}
	best := formatJSON
	for f := range formats {
		if quality[f] > quality[best] ||
			quality[f] > 0 && quality[f] == quality[best] && precision[f] > precision[best] {
			best = f
		}
	}
	return best
}

// precisionOf returns the precision with which a media range names a type: 3 for the type itself, 2
// for a range such as text/*, 1 for */*, and 0 if the range does not contain the type.
func precisionOf(media, offer string) int {
	kind, isAny := strings.CutSuffix(media, "/*")
	switch {
	case media == "*/*":
		return 1
	case isAny && len(kind) < len(offer) && offer[len(kind)] == '/' && strings.EqualFold(kind, offer[:len(kind)]):
		return 2
	case strings.EqualFold(media, offer):
		return 3
	}
	return 0
}

// parseRange parses an element of an Accept header: a media range and its quality.
func parseRange(element string) (media string, quality float64, ok bool) {
	media, parameters := cutElement(element, ';')
	quality, ok = 1, true
	for ok && parameters != "" {
		var parameter string
		parameter, parameters = cutElement(parameters, ';')
		if key, value, isPair := strings.Cut(trimSpace(parameter), "="); isPair && strings.EqualFold(key, "q") {
			quality, ok = parseQuality(value)
		}
	}
	return trimSpace(media), quality, ok
}

// parseQuality parses a number from 0 to 1 with at most three decimals.
func parseQuality(s string) (quality float64, ok bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 || strings.Trim(decimals, "0123456789") != "" {
		return 0, false
	}
	quality, err := strconv.ParseFloat(s, 64)
	return quality, err == nil && quality <= 1
}

// cutElement cuts a list at the first separator that is not in a quoted string.
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

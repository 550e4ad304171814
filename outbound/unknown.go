package outbound

import (
	"fmt"
	"strings"
)

// UnknownError is a call to an API that is not registered, or no longer.
type UnknownError struct {
	// Name is what was asked for, and Known what there is, in order.
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("outbound: there is no API %q; none is registered", e.Name)
	}
	guess := ""
	if name := nearest(e.Name, e.Known); name != "" {
		guess = fmt.Sprintf("; did you mean %q?", name)
	}
	return fmt.Sprintf("outbound: there is no API %q%s (known: %s)", e.Name, guess, strings.Join(e.Known, ", "))
}

// nearest returns the candidate that was most likely meant, or "" if none resembles the name.
func nearest(name string, candidates []string) string {
	best, least := "", 1+len(name)/3 // one slip in three letters, and one for short names
	if len(name) > maxName {
		return ""
	}
	name = strings.ToLower(name)
	for _, c := range candidates {
		if d := distance(name, strings.ToLower(c)); d < least || d == least && best == "" {
			best, least = c, d
		}
	}
	return best
}

// distance is how many bytes have to be put in, taken out or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

package contest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bar is a bound that a value, or the values in all rows of a table, should meet. The worst value
// is reported.
type Bar struct {
	what    string
	atLeast bool // the value should be at least the limit; otherwise, at most
	limit   float64
	unit    string

	rows, missed int
	worst        float64
	where        string
}

// AtMost adds a bar that values should not exceed. The unit is printed directly after a number, so
// a unit that needs a space begins with it: "×", but " ns".
func (r *Report) AtMost(limit float64, unit, what string) *Bar {
	return r.add(&Bar{what: what, limit: limit, unit: unit})
}

// AtLeast adds a bar that values should reach.
func (r *Report) AtLeast(limit float64, unit, what string) *Bar {
	return r.add(&Bar{what: what, limit: limit, unit: unit, atLeast: true})
}

func (r *Report) add(b *Bar) *Bar {
	b.limit = printed(b.limit)
	r.bars = append(r.bars, b)
	return b
}

// Judge compares a value with the bar. where names the value's row, if the bar has several rows.
func (b *Bar) Judge(value float64, where ...string) {
	value = printed(value)
	if b.rows++; !b.holds(value) {
		b.missed++
	}
	if b.rows == 1 || b.atLeast && value < b.worst || !b.atLeast && value > b.worst {
		b.worst, b.where = value, strings.Join(where, ", ")
	}
}

func (b *Bar) holds(value float64) bool {
	if b.atLeast {
		return value >= b.limit
	}
	return value <= b.limit
}

// cells returns the bar's row in the verdict.
func (b *Bar) cells() []string {
	sign, word := "≤ ", "ok"
	if b.atLeast {
		sign = "≥ "
	}
	if b.missed > 0 {
		word = "MISSED"
	}
	switch {
	case b.rows > 1 && b.missed > 0:
		word += fmt.Sprintf(" in %d of %d", b.missed, b.rows)
	case b.rows > 1:
		word += fmt.Sprintf(" in all %d", b.rows)
	}
	measured := figure(b.worst) + b.unit
	if b.where != "" {
		measured += " (" + b.where + ")"
	}
	return []string{b.what, sign + figure(b.limit) + b.unit, measured, word}
}

// printed rounds a value to three decimals, so that bars judge the values that they show.
func printed(v float64) float64 { return math.Round(v*1000) / 1000 }

// figure formats a value with as many decimals as it needs.
func figure(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

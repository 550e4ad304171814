package report

import (
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/label"
)

// number formats a number with thousands separators: 1,204,331.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// share formats a part of a whole in percent. It rounds neither to 0 % nor to 100 %.
func share(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	return percent(float64(part) / float64(whole))
}

// percent formats a share in percent, like [share].
func percent(x float64) string {
	switch {
	case x > 0 && x < 0.0001:
		return "<0.01 %"
	case x < 1 && x > 0.9999:
		return ">99.99 %"
	case x < 0.1 || x > 0.99 && x < 1:
		return trimZeros(strconv.FormatFloat(100*x, 'f', 2, 64)) + " %"
	}
	return trimZeros(strconv.FormatFloat(100*x, 'f', 1, 64)) + " %"
}

// exactly formats a requested share, with all its digits.
func exactly(x float64) string {
	return trimZeros(strconv.FormatFloat(100*x, 'f', 6, 64)) + " %"
}

func trimZeros(decimal string) string {
	return strings.TrimSuffix(strings.TrimRight(decimal, "0"), ".")
}

// sameDay reports whether two times are on one day.
func sameDay(a, b time.Time) bool {
	return a.UTC().Format(time.DateOnly) == b.UTC().Format(time.DateOnly)
}

// at formats a time for a table.
func (b *builder) at(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case b.oneDay:
		return t.UTC().Format(time.TimeOnly)
	}
	return t.UTC().Format("Jan 2 15:04")
}

func fullTime(t time.Time) string { return t.UTC().Format(time.DateTime) }

// rule names a rule: a tier, or a policy as it applies to a tier.
func rule(policy, tier string) string {
	switch {
	case policy == "":
		return label.Line(tier)
	case tier == "":
		return label.Line(policy)
	}
	return label.Line(tier) + ", " + label.Line(policy)
}

func size(n int64) string {
	units, unit := float64(n), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if units < 1024 {
			break
		}
		units, unit = units/1024, larger
	}
	if unit == "B" {
		return strconv.FormatInt(n, 10) + " B"
	}
	return trimZeros(strconv.FormatFloat(units, 'f', 1, 64)) + " " + unit
}

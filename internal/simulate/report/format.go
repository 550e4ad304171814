package report

import (
	"strconv"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
)

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return figures.Number(n) + " " + many
}

// share formats part as a percentage of whole.
func share(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	return figures.Percent(float64(part) / float64(whole))
}

// exactly formats a share that the user requested, as a percentage with up to seven decimal places.
func exactly(x float64) string {
	return figures.Decimal(100*x, 7) + "%"
}

// at formats a time for a table, without the date if the log covers only one day.
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

// rule returns a name for a rule, which is a tier, or a policy as it applies to a tier.
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
	return figures.Decimal(units, 1) + " " + unit
}

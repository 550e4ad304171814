package envoyrls

import (
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-limiter/stint"
)

const day = 24 * time.Hour

// unitNames lists the valid units, for error messages.
const unitNames = "second, minute, hour, day, week, month or year"

// unitByName parses a unit in upper or lower case. UNKNOWN is not a unit.
func unitByName(name string) (rlsv3.RateLimitResponse_RateLimit_Unit, bool) {
	n, ok := rlsv3.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)]
	return rlsv3.RateLimitResponse_RateLimit_Unit(n), ok && n != 0
}

// lengths holds the durations of units: a month has 30 days and a year 365.
var lengths = [...]time.Duration{
	rlsv3.RateLimitResponse_RateLimit_SECOND: time.Second,
	rlsv3.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	rlsv3.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	rlsv3.RateLimitResponse_RateLimit_DAY:    day,
	rlsv3.RateLimitResponse_RateLimit_WEEK:   7 * day,
	rlsv3.RateLimitResponse_RateLimit_MONTH:  30 * day,
	rlsv3.RateLimitResponse_RateLimit_YEAR:   365 * day,
}

// windowOf returns the window of a limit, or zero if the window is not supported.
func windowOf(unit rlsv3.RateLimitResponse_RateLimit_Unit, multiplier uint32) time.Duration {
	if unit <= 0 || int(unit) >= len(lengths) || time.Duration(multiplier) > stint.MaxWindow/lengths[unit] {
		return 0
	}
	return lengths[unit] * time.Duration(multiplier)
}

// multiplierOf returns how many units a window has. If unset or zero, it is one.
func multiplierOf(l *rlsv3.RateLimitResponse_RateLimit) uint32 {
	return max(l.GetUnitMultiplier().GetValue(), 1)
}

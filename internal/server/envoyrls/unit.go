package envoyrls

import (
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-limiter/stint"
)

const day = 24 * time.Hour

// unitNames are for people who wrote another.
const unitNames = "second, minute, hour, day, week, month or year"

// unitByName reads a unit in any case. UNKNOWN is none.
func unitByName(name string) (rlsv3.RateLimitResponse_RateLimit_Unit, bool) {
	n, ok := rlsv3.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)]
	return rlsv3.RateLimitResponse_RateLimit_Unit(n), ok && n != 0
}

// lengthOf is how long a unit is: a month has 30 days and a year 365. It is zero for a unit that is
// none.
func lengthOf(unit rlsv3.RateLimitResponse_RateLimit_Unit) time.Duration {
	switch unit {
	case rlsv3.RateLimitResponse_RateLimit_SECOND:
		return time.Second
	case rlsv3.RateLimitResponse_RateLimit_MINUTE:
		return time.Minute
	case rlsv3.RateLimitResponse_RateLimit_HOUR:
		return time.Hour
	case rlsv3.RateLimitResponse_RateLimit_DAY:
		return day
	case rlsv3.RateLimitResponse_RateLimit_WEEK:
		return 7 * day
	case rlsv3.RateLimitResponse_RateLimit_MONTH:
		return 30 * day
	case rlsv3.RateLimitResponse_RateLimit_YEAR:
		return 365 * day
	}
	return 0
}

// windowOf is the window of a limit, or zero if it is not one that can be counted in.
func windowOf(unit rlsv3.RateLimitResponse_RateLimit_Unit, multiplier uint32) time.Duration {
	length := lengthOf(unit)
	if length == 0 || time.Duration(multiplier) > stint.MaxWindow/length {
		return 0
	}
	return length * time.Duration(multiplier)
}

// multiplierOf is how many units a window has. None, and zero, mean one.
func multiplierOf(l *rlsv3.RateLimitResponse_RateLimit) uint32 {
	return max(l.GetUnitMultiplier().GetValue(), 1)
}

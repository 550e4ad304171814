package contract

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/calendar"
)

// Period returns when the window of a fixed or calendar limit begins that contains an instant, and
// when it ends, in microseconds since the Unix epoch. A store may have begun a calendar's period by
// another calendar.
func Period(l *stint.Limit, at int64) (begin, end int64) {
	if l.Algorithm == stint.AlgorithmCalendar {
		e := calendar.Calendar{Period: l.Window, Start: l.Start, Zone: l.Zone}.Around(at)
		return e.Last, e.This
	}
	window := l.Window.Microseconds()
	begin = at - at%window
	return begin, begin + window
}

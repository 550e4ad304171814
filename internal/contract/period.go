package contract

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/calendar"
)

// Period returns the beginning and the end of the window that contains the time at, for a fixed or
// calendar limit. All times are in microseconds since the Unix epoch. In a store, a calendar period
// may have different bounds, if it began under another calendar.
func Period(l *stint.Limit, at int64) (begin, end int64) {
	if l.Algorithm == stint.AlgorithmCalendar {
		e := calendar.Calendar{Period: l.Window, Start: l.Start, Zone: l.Zone}.Around(at)
		return e.Last, e.This
	}
	window := l.Window.Microseconds()
	begin = at - at%window
	return begin, begin + window
}

package observe

import (
	"fmt"
	"time"
)

const (
	// surgeLife is the maximum duration of a surge. After that, its rate counts as the usual rate.
	surgeLife = time.Hour
	// surgeShare is the minimum share of the requests that new subjects must send to explain a
	// surge.
	surgeShare = 0.5
)

// Surge is traffic at many times the usual rate.
type Surge struct {
	Since time.Time `json:"since"`
	// Times is the rate of the last minute divided by the rate of the hour before the surge.
	Times float64 `json:"times"`
	// Text describes where the requests come from, as in "Traffic is 9 times the usual, from about
	// 3,000 new addresses, all below their limits."
	Text string `json:"text"`
}

// surges detects surges. The usual rate does not change during a surge.
type surges struct {
	since time.Time // start of the current surge; zero if there is none
	usual float64   // decisions per second before the surge
}

// look compares the rate of the last minute with the usual rate, and begins or ends a surge. It
// returns the surge without its text, and the counts of that minute. If there is no surge, only
// Times is set; it is 0 if there is too little data.
func (s *surges) look(now time.Time, a *alerts, h *history) (found Surge, minute Point) {
	minute, _ = h.sum(spikeWindow)
	rate := float64(minute.decisions()) / spikeWindow.Seconds()
	if s.since.IsZero() {
		before, seconds := h.sumBefore(spikeWindow, spikePast)
		if minute.decisions() < spikeFloor || before.decisions() < alertFloor ||
			time.Duration(seconds)*time.Second < a.known-min(a.known, spikeWindow) {
			return Surge{}, minute
		}
		s.usual = float64(before.decisions()) / float64(seconds)
	}
	found.Times = rate / s.usual
	threshold := a.threshold("Spike")
	switch {
	case s.since.IsZero() && found.Times > threshold:
		s.since = now
	case found.Times < threshold/2 || now.Sub(s.since) > surgeLife:
		s.since = time.Time{}
	}
	found.Since = s.since
	return found, minute
}

// surge returns the current surge with its text. Since is zero if there is none.
func (m *Monitor) surge(now time.Time, processes int) Surge {
	found, minute := m.surges.look(now, m.alerts, m.shown())
	if found.Since.IsZero() {
		return found
	}
	n, kind, share := m.newcomers.since(found.Since.Add(-spikeWindow))
	who := "most of it from known subjects"
	if share >= surgeShare {
		about := ""
		switch {
		case processes > 1: // this process has not seen all subjects
			about = "at least "
		case !m.newcomers.exact():
			about = "about "
		}
		who = "from " + about + roughly(n) + " new " + plural(kind, n)
	}
	limits := "all below their limits"
	if denied := float64(minute.Denied) / float64(minute.decisions()); denied >= jumpBase {
		limits = fmt.Sprintf("%.0f%% of the requests denied", 100*denied)
	} else if denied > 0 {
		limits = "nearly all below their limits"
	}
	found.Text = fmt.Sprintf("Traffic is %.0f times the usual, %s, %s.", found.Times, who, limits)
	return found
}

// plural returns the noun for n subjects of a kind.
func plural(kind string, n int64) string {
	name := map[string]string{"ip": "address", "user": "user", "apikey": "API key", "session": "session"}[kind]
	switch {
	case name == "":
		name = "subject"
	case name == "address" && n != 1:
		name = "addresse"
	}
	if n != 1 {
		name += "s"
	}
	return name
}

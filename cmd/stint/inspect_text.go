package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/overrides"
)

// subjectText describes a subject as text. Unless all is true, it omits each limit that is unused,
// is not divided into parts, and is not changed by an override.
func subjectText(s *system, result *control.Subject, all bool) []byte {
	var b bytes.Buffer
	b.WriteString(s.paint(bold, oneLine(result.Subject)) + noteText(result.Note) + "\n")
	if left := result.Ban.Until.Sub(result.Now); left > 0 {
		fmt.Fprintf(&b, "%s for another %s, until %s, %s\n", s.paint(red, "banned"), figures.Length(left),
			result.Ban.Until.UTC().Format(time.RFC3339), banNumber(result.Ban.Level))
	} else {
		b.WriteString("not banned\n")
	}
	if n := result.Ban.Strikes; n > 0 {
		fmt.Fprintf(&b, "%s toward the next ban\n", count(int(n), "denial counts", "denials count"))
	}
	unused := 0
	var tiers []string
	for i := range result.Limits {
		l := &result.Limits[i]
		if l.Used == 0 && !l.Divided && l.Configured == "" && !all {
			unused++
			continue
		}
		if l.Policy == "" && !slices.Contains(tiers, l.Tier) {
			tiers = append(tiers, l.Tier)
		}
		b.WriteByte('\n')
		drawLimit(&b, s, result.Now, l)
		if o := overrideOf(result, l); o != nil {
			row(&b, "override", "instead of "+oneLine(l.Configured)+", "+oneLine(overrideText(o)))
		}
	}
	if unused > 0 {
		fmt.Fprintf(&b, "\n%s unused; --all shows them\n", count(unused, "other limit", "other limits"))
	}
	if result.LeftOut > 0 {
		fmt.Fprintf(&b, "%s not shown\n", count(result.LeftOut, "limit is", "limits are"))
	}
	if len(tiers) > 1 {
		fmt.Fprintf(&b, "the tier of %s is unknown here: these are its counts under %s; --tier shows one\n",
			oneLine(result.Subject), strings.Join(tiers, ", "))
	}
	return trimLines(b.Bytes())
}

// overrideOf returns the override that changed a limit, or nil.
func overrideOf(result *control.Subject, l *control.Limit) *overrides.Override {
	if l.Configured == "" {
		return nil
	}
	for i := range result.Overrides {
		if o := &result.Overrides[i]; o.Policy == cmp.Or(l.Policy, l.Tier) {
			return o
		}
	}
	return nil
}

// banNumber describes the level of a ban, such as "number 2 in a row". A level of 0 means that an
// operator made the ban.
func banNumber(level int) string {
	if level == 0 {
		return "by hand"
	}
	return "number " + strconv.Itoa(level) + " in a row"
}

// margin is the width of the area to the left of charts.
const margin = 11

func row(b *bytes.Buffer, label, text string) { fmt.Fprintf(b, "  %-*s%s\n", margin-2, label, text) }

func drawLimit(b *bytes.Buffer, s *system, now time.Time, l *control.Limit) {
	shadow := ""
	if l.Shadow {
		shadow = ", in shadow: not enforced"
	}
	claim := ""
	if l.Claim != "" {
		claim = ", or by the claim " + oneLine(l.Claim) + " of a request"
	}
	fmt.Fprintf(b, "%s: %s%s%s\n", s.paint(bold, oneLine(owner(l))), oneLine(l.Limit), claim, shadow)
	color := blue
	if l.Remaining == 0 {
		color = red
	}
	amount := fmt.Sprintf("  %d of %d, %d left", l.Used, l.Capacity, l.Remaining)
	room := max(cmp.Or(s.columns(), usualColumns)-margin-1, 20)
	share := 1.0 // for a limit that admits nothing
	if l.Capacity > 0 {
		share = float64(l.Used) / float64(l.Capacity)
	}
	row(b, "used", s.paint(color, figures.Bar(share, min(room/2, 40)))+amount)
	if l.Held > 0 {
		row(b, "held", count(int(l.Held), "unit", "units")+" of these, until they are settled or expire")
	}
	switch l.Algorithm {
	case "sliding":
		drawLog(b, now, l, room)
		if l.Capacity > l.Max && l.Max > 0 && l.Used > 0 {
			row(b, "refills", fmt.Sprintf("%d each %s; full in %s", l.Max, inSeconds(l.Window),
				inSeconds(l.ResetAfter)))
		}
	case "fixed", "calendar":
		drawFixed(b, now, l, room)
	case "bucket":
		row(b, "refills", fmt.Sprintf("%d each %s; full in %s", l.Max, inSeconds(l.Window), inSeconds(l.ResetAfter)))
	case "concurrency":
		if len(l.Entries) > 0 {
			row(b, "held", "the first place expires in "+figures.Length(l.Entries[0].Until.Sub(now))+
				" unless its holder renews it")
		}
	}
	if l.LeftOut > 0 {
		row(b, "", fmt.Sprintf("older charges of %s are not shown", count(int(l.LeftOut), "unit", "units")))
	}
	switch {
	case l.RetryAfter < 0:
		row(b, "room", "never")
	case l.RetryAfter > 0:
		row(b, "room", "for another in "+inSeconds(l.RetryAfter))
	}
	if len(l.Notify) > 0 {
		row(b, "notifies", "at "+sharesText(l.Notify))
	}
	if l.Divided {
		row(b, "", "the policy counts in parts, some of which are not shown")
	}
}

func sharesText(percents []int) string {
	texts := make([]string, len(percents))
	for i, n := range percents {
		texts[i] = strconv.Itoa(n) + "%"
	}
	return strings.Join(texts, ", ")
}

// drawLog draws the charges of a limit between two timelines: one with the times of the charges,
// and one with the times when they expire.
func drawLog(b *bytes.Buffer, now time.Time, l *control.Limit, width int) {
	if len(l.Entries) == 0 {
		return
	}
	window := time.Duration(l.Window * float64(time.Second))
	last := now
	for _, e := range l.Entries {
		// Extend the timeline to the last booking, a charge at a future time. Other charges may
		// also have times after now, because these are rounded up to the end of a slice of the
		// window, but by at most window/Resolution.
		if e.At.Sub(now) > window/stint.Resolution && e.At.After(last) {
			last = e.At
		}
	}
	a := timeline{from: now.Add(-window), to: last, width: width}
	units := make([]int64, width)
	for _, e := range l.Entries {
		units[a.column(e.At)] += e.Units
	}
	row(b, "charged", a.labels(now))
	row(b, "", figures.Heights(units))
	a.from, a.to = a.from.Add(window), a.to.Add(window)
	row(b, "returns", a.labels(now))
}

func drawFixed(b *bytes.Buffer, now time.Time, l *control.Limit, width int) {
	if len(l.Entries) == 0 {
		return
	}
	last := &l.Entries[len(l.Entries)-1]
	a := timeline{from: last.At, to: last.Until, width: width}
	gone := a.column(now)
	row(b, "window", strings.Repeat("━", gone)+"┃"+strings.Repeat("─", width-gone-1))
	row(b, "", a.labels(now))
}

package main

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/figures"
)

type timeline struct {
	from, to time.Time
	width    int
}

func (a *timeline) column(t time.Time) int {
	length := a.to.Sub(a.from)
	if length <= 0 {
		return a.width - 1
	}
	return min(max(int(float64(t.Sub(a.from))/float64(length)*float64(a.width)), 0), a.width-1)
}

// labels returns a line with the times at the start, the middle and the end of the timeline, and
// the current time if the timeline includes it. It leaves out times that do not fit.
func (a *timeline) labels(now time.Time) string {
	line := []rune(strings.Repeat("·", a.width))
	put := func(t time.Time) {
		text := relative(t.Sub(now))
		n := utf8.RuneCountInString(text)
		at := min(max(a.column(t)-n/2, 0), a.width-n)
		if at < 0 {
			return
		}
		around := line[max(at-1, 0):min(at+n+1, a.width)]
		if slices.ContainsFunc(around, func(r rune) bool { return r != '·' && r != ' ' }) {
			return // another label is already there
		}
		for i := range around {
			around[i] = ' '
		}
		copy(line[at:], []rune(text))
	}
	if !now.Before(a.from) && !now.After(a.to) {
		put(now)
	}
	put(a.from)
	put(a.to)
	put(a.from.Add(a.to.Sub(a.from) / 2))
	return string(line)
}

func relative(d time.Duration) string {
	switch {
	case d.Abs() < time.Millisecond:
		return "now"
	case d < 0:
		return figures.Length(-d) + " ago"
	}
	return "in " + figures.Length(d)
}

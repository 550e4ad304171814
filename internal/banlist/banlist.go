// Package banlist keeps the longest-lasting of any number of bans, in bounded memory.
package banlist

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint/driver"
)

// List is the longest bans so far. See [New].
type List struct {
	most int
	bans []driver.Banned
}

// New returns an empty list of at most so many bans.
func New(most int) *List { return &List{most: max(most, 0)} }

// slack is how many bans beyond the bound are collected before the list is cut, because sorting for
// every ban would take longer.
const slack = 1024

// Add puts a ban on the list if it lasts longer than others there. A subject may be added again.
func (l *List) Add(b driver.Banned) {
	if l.most == 0 {
		return
	}
	l.bans = append(l.bans, b)
	if len(l.bans) >= l.most+slack {
		l.cut()
	}
}

// Sorted returns the bans, longest-lasting first, equal ones by subject.
func (l *List) Sorted() []driver.Banned {
	l.cut()
	return l.bans
}

func (l *List) cut() {
	slices.SortFunc(l.bans, func(a, b driver.Banned) int {
		return cmp.Or(b.Until.Compare(a.Until), cmp.Compare(a.Subject, b.Subject))
	})
	seen := make(map[string]bool, len(l.bans))
	l.bans = slices.DeleteFunc(l.bans, func(b driver.Banned) bool {
		again := seen[b.Subject]
		seen[b.Subject] = true
		return again
	})
	l.bans = l.bans[:min(len(l.bans), l.most)]
}

// Package banlist keeps the bans that last the longest of however many there are, in bounded memory.
package banlist

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint"
)

// List is the longest bans so far. See [New].
type List struct {
	most int
	bans []stint.Banned
}

// New returns an empty list of so many bans at most.
func New(most int) *List { return &List{most: max(most, 0)} }

// slack is how many more than wanted are gathered before the list is cut: to sort for every ban would take longer.
const slack = 1024

// Add puts a ban on the list if it lasts longer than others there. A subject may be told of again.
func (l *List) Add(b stint.Banned) {
	if l.most == 0 {
		return
	}
	l.bans = append(l.bans, b)
	if len(l.bans) >= l.most+slack {
		l.cut()
	}
}

// Sorted returns the list, the longest to last first; equal ones by subject.
func (l *List) Sorted() []stint.Banned {
	l.cut()
	return l.bans
}

func (l *List) cut() {
	slices.SortFunc(l.bans, func(a, b stint.Banned) int {
		return cmp.Or(b.Until.Compare(a.Until), cmp.Compare(a.Subject, b.Subject))
	})
	seen := make(map[string]bool, len(l.bans))
	l.bans = slices.DeleteFunc(l.bans, func(b stint.Banned) bool {
		again := seen[b.Subject]
		seen[b.Subject] = true
		return again
	})
	l.bans = l.bans[:min(len(l.bans), l.most)]
}

package contract

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint/driver"
)

// BanList keeps a bounded number of the bans that are added to it: those that end last. See
// [NewBanList].
type BanList struct {
	most int
	bans []driver.Banned
}

// NewBanList returns an empty list that keeps at most the given number of bans.
func NewBanList(most int) *BanList { return &BanList{most: max(most, 0)} }

// slack is the number of bans by which the list may exceed its maximum before Add sorts and cuts
// it. Sorting it for every ban would take longer.
const slack = 1024

// Add adds a ban to the list. Only the bans that end last stay in it. If several bans of a subject
// are added, only the one that ends last stays.
func (l *BanList) Add(b driver.Banned) {
	if l.most == 0 {
		return
	}
	l.bans = append(l.bans, b)
	if len(l.bans) >= l.most+slack {
		l.cut()
	}
}

// Sorted returns the bans sorted by end, the latest first. Bans that end at the same time are
// ordered by subject.
func (l *BanList) Sorted() []driver.Banned {
	l.cut()
	return l.bans
}

func (l *BanList) cut() {
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

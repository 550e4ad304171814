package faults

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// answer is one decision as its caller saw it. Nobody outside knows when between the two instants
// it was made.
type answer struct {
	Subject          int
	Called, Returned int64 // in microseconds since the Unix epoch
	Allowed          bool
	Degraded         bool
}

// took is how long the caller waited.
func (a *answer) took() time.Duration { return time.Duration(a.Returned-a.Called) * time.Microsecond }

// history is what callers were told, in any order.
type history []answer

// admissions are those that were allowed, in the order in which they were called.
func (h history) admissions() history {
	var list history
	for _, a := range h {
		if a.Allowed {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b answer) int { return cmp.Compare(a.Called, b.Called) })
	return list
}

// slide moves a window of that length over the admissions: from the call of each of them on. Those
// that certainly fell into it, because they were called and answered in it, are told as they come
// in and go out, and then where it begins. So the most that any window certainly has is seen.
func (h history) slide(length time.Duration, in, out func(*answer), at func(from int64)) {
	called := h.admissions()
	returned := slices.Clone(called)
	slices.SortFunc(returned, func(a, b answer) int { return cmp.Compare(a.Returned, b.Returned) })
	next := 0
	for i := range called {
		first := called[i].Called
		if i > 0 && called[i-1].took() < length { // else it never came in
			out(&called[i-1])
		}
		for ; next < len(returned) && returned[next].Returned < first+length.Microseconds(); next++ {
			if returned[next].Called >= first {
				in(&returned[next])
			}
		}
		at(first)
	}
}

// excess is by how many the admissions in the worst window certainly exceed a limit, over all
// subjects.
func (h history) excess(max int, length time.Duration) (most int) {
	count, over := map[int]int{}, 0
	h.slide(length,
		func(a *answer) {
			if count[a.Subject]++; count[a.Subject] > max {
				over++
			}
		},
		func(a *answer) {
			if count[a.Subject]--; count[a.Subject] >= max {
				over--
			}
		},
		func(int64) {
			if over > most {
				most = over
			}
		})
	return most
}

func TestHistory(t *testing.T) {
	const second = int64(time.Second / time.Microsecond)
	at := func(subject int, called, returned float64) answer {
		return answer{Subject: subject, Called: int64(called * float64(second)),
			Returned: int64(returned * float64(second)), Allowed: true}
	}
	denied := at(1, 0.5, 0.6)
	denied.Allowed = false
	for _, test := range []struct {
		name string
		history
		excess int // over 2 in 1 s
	}{
		{"nothing", nil, 0},
		{"two", history{at(1, 0, 0.1), at(1, 0.5, 0.6)}, 0},
		{"three", history{at(1, 0, 0.1), at(1, 0.8, 0.9), at(1, 0.5, 0.6)}, 1},
		{"a denial", history{at(1, 0, 0.1), at(1, 0.8, 0.9), denied}, 0},
		{"the third may be later", history{at(1, 0, 0.1), at(1, 0.5, 0.6), at(1, 0.8, 1)}, 0},
		{"the first may be earlier", history{at(1, 0, 0.9), at(1, 0.5, 0.6), at(1, 0.8, 1)}, 0},
		{"one that takes longer than a window", history{at(1, 0, 5), at(1, 0, 0.2), at(1, 0.5, 0.6), at(1, 2, 2.1)}, 0},
		{"a later window", history{at(1, 0, 0.1), at(1, 2, 2.1), at(1, 2.2, 2.3), at(1, 2.4, 2.5), at(1, 2.6, 2.7),
			at(1, 3.5, 3.6)}, 2},
		{"several subjects", history{at(1, 0, 0.1), at(2, 0, 0.1), at(3, 0, 0.1)}, 0},
		{"all of them over", history{at(1, 0, 0.1), at(1, 0.1, 0.2), at(1, 0.2, 0.3), at(2, 0, 0.1), at(2, 0.1, 0.2),
			at(2, 0.2, 0.3)}, 2},
		{"over in different windows", history{at(1, 0, 0.1), at(1, 0.1, 0.2), at(1, 0.2, 0.3), at(2, 5, 5.1),
			at(2, 5.1, 5.2), at(2, 5.2, 5.3)}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.history.excess(2, time.Second); got != test.excess {
				t.Errorf("%d over, want %d", got, test.excess)
			}
		})
	}
}

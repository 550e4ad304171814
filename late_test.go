package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/protocol"
)

// places is a store that gives places from a list, and notes what it is asked.
type places struct {
	answers []place
	asked   []string // "book", "move 7" or "return 2"
}

// place is an answer: a place some time ahead, that of another store, or an error.
type place struct {
	wait   time.Duration
	slow   time.Duration // how long the answer takes
	local  bool
	denied bool
	err    error
}

func (p *places) Take(_ context.Context, r Request) (Decision, error) {
	if r.terms.Booked == nil {
		p.asked = append(p.asked, "book")
	} else {
		p.asked = append(p.asked, fmt.Sprint("move ", r.terms.Booked.At))
	}
	if len(p.answers) == 0 {
		return Decision{}, errors.New("asked too often")
	}
	a := p.answers[0]
	p.answers = p.answers[1:]
	time.Sleep(a.slow)
	if a.err != nil || a.denied {
		return Decision{RetryAfter: a.wait}, a.err
	}
	n := len(p.asked)
	c := Charge{data: protocol.ChargeData{ID: uint64(n), At: int64(n), Fallback: a.local}}
	return Decision{Allowed: true, Degraded: a.local, RetryAfter: a.wait, Charge: c}, nil
}

func (p *places) Amend(_ context.Context, c Charge, a Amendment) (Amended, error) {
	if a != (Amendment{}) {
		return Amended{}, fmt.Errorf("amendment %+v, want a refund", a)
	}
	p.asked = append(p.asked, fmt.Sprint("return ", c.data.ID))
	return Amended{Changed: true}, nil
}

func (p *places) Command(context.Context, Command) error { return nil }

// A place, a charge and a request for one have the number of the call that they came from.
func TestAwait(t *testing.T) {
	const ms = time.Millisecond
	at := func(wait time.Duration) place { return place{wait: wait} }
	broken := place{err: errors.New("connection reset")}
	for _, test := range []struct {
		name    string
		answers []place
		late    []time.Duration // of each sleep
		slept   string
		asked   string
		want    uint64 // the charge that is used, 0 if it fails
	}{
		{"at once", []place{at(0)}, nil, "", "book", 1},
		{"in time", []place{at(400 * ms)}, nil, "400ms", "book", 1},
		{"as late as the grace", []place{at(400 * ms)}, []time.Duration{20 * ms}, "400ms", "book", 1},
		{"later than the grace", []place{at(400 * ms), at(300 * ms)}, []time.Duration{21 * ms, 0}, "400ms 300ms",
			"book, return 1, book", 3},
		{"late after a slow answer", []place{{wait: 400 * ms, slow: 6 * ms}, at(0)}, []time.Duration{15 * ms}, "400ms",
			"book, return 1, book", 3},
		{"after an answer slower than the grace", []place{{wait: 400 * ms, slow: time.Second}},
			[]time.Duration{10 * ms}, "400ms", "book", 1},
		{"later twice", []place{at(400 * ms), at(300 * ms), at(0)}, []time.Duration{time.Hour, time.Minute},
			"400ms 300ms",
			"book, return 1, book, return 3, book", 5},
		{"nobody gives up", []place{at(1500 * ms), at(1000 * ms), at(500 * ms)}, nil, "500ms 500ms 500ms",
			"book, move 1, move 2", 3},
		{"an eighth of a long wait", []place{at(80 * time.Second), at(100 * ms)}, nil, "10s 100ms", "book, move 1", 2},
		{"an earlier place", []place{at(10 * time.Second), at(3 * time.Second), at(300 * ms)}, nil, "1.25s 500ms 300ms",
			"book, move 1, move 2", 3},
		{"a place at once", []place{at(10 * time.Second), at(0)}, nil, "1.25s", "book, move 1", 2},
		{"late, but before its place", []place{at(10 * time.Second), at(100 * ms)}, []time.Duration{5 * time.Second},
			"1.25s 100ms", "book, move 1", 2},
		{"an error", []place{at(1500 * ms), broken, at(300 * ms)}, nil, "500ms 300ms", "book, move 1, book", 3},
		{"denied", []place{at(900 * ms), {denied: true, wait: time.Hour}, at(100 * ms)}, nil, "500ms 100ms",
			"book, move 1, return 1, book", 4},
		{"denied from the start", []place{{denied: true, wait: time.Hour}}, nil, "", "book", 0},
		{"an error from the start", []place{broken}, nil, "", "book", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &places{answers: slices.Clone(test.answers)}
				lim, err := New(store, PerSecond(1))
				if err != nil {
					t.Fatal(err)
				}
				var slept []string
				lim.sleep = func(_ context.Context, d time.Duration) (late time.Duration, err error) {
					if i := len(slept); i < len(test.late) {
						late = test.late[i]
					}
					slept = append(slept, d.Round(10*ms).String())
					return late, nil
				}
				d, err := lim.Wait(t.Context(), "api")
				if got := strings.Join(store.asked, ", "); got != test.asked {
					t.Errorf("asked: %s; want %s", got, test.asked)
				}
				if got := strings.Join(slept, " "); got != test.slept {
					t.Errorf("slept %s; want %s", got, test.slept)
				}
				if (err == nil) != (test.want != 0) || err == nil &&
					(d.Charge.data.ID != test.want || d.RetryAfter != 0 || !d.Allowed) {
					t.Errorf("charge %d with retry-after %v, error %v; want charge %d", d.Charge.data.ID, d.RetryAfter, err, test.want)
				}
			})
		})
	}
}

// Who stops waiting gives back the place that it has by then.
func TestAwaitGivesBackTheLatestPlace(t *testing.T) {
	store := &places{answers: []place{{wait: 10 * time.Second}, {wait: 5 * time.Second}}}
	lim, err := New(store, PerSecond(1))
	if err != nil {
		t.Fatal(err)
	}
	naps := 0
	lim.sleep = func(context.Context, time.Duration) (time.Duration, error) {
		if naps++; naps == 2 {
			return 0, context.Canceled
		}
		return 0, nil
	}
	if _, err := lim.Wait(t.Context(), "api"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if got, want := strings.Join(store.asked, ", "), "book, move 1, return 2"; got != want {
		t.Errorf("asked: %s; want %s", got, want)
	}
}

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
	"github.com/stint-limiter/stint/internal/testkit"
)

// places is a store that answers with places from a list, and records what it is asked.
type places struct {
	answers   []place
	booked    time.Time       // time of every place if answers is empty
	announced []time.Duration // pauses before the announcements
	silent    bool
	asked     []string // "book", "move 7" or "return 2"
}

// place is an answer of places: a booking, a denial or an error. If local is set, the fallback made
// the booking.
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
	a := place{wait: time.Until(p.booked)}
	if len(p.answers) > 0 {
		a, p.answers = p.answers[0], p.answers[1:]
	} else if p.booked.IsZero() {
		return Decision{}, errors.New("asked too often")
	}
	time.Sleep(a.slow)
	if a.err != nil || a.denied {
		return Decision{RetryAfter: a.wait}, a.err
	}
	n := len(p.asked)
	c := Charge{data: protocol.ChargeData{ID: uint64(n), At: int64(n), Fallback: a.local}}
	return Decision{Allowed: true, Degraded: a.local, RetryAfter: a.wait, Charge: c}, nil
}

func (p *places) Amend(_ context.Context, c Charge, a Amendment) (Amended, error) {
	if a.Kind != AmendSettle || a.Cost != 0 {
		return Amended{}, fmt.Errorf("amendment %+v, want a refund", a)
	}
	p.asked = append(p.asked, fmt.Sprint("return ", c.data.ID))
	return Amended{Changed: true}, nil
}

func (p *places) Command(context.Context, Command) error { return nil }

// Announcements announces that there is room, after each pause in p.announced.
func (p *places) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	if p.silent {
		return errors.ErrUnsupported
	}
	for _, pause := range p.announced {
		if _, err := sleep(ctx, pause, nil); err != nil {
			return err
		}
		f("api", false)
	}
	<-ctx.Done()
	return ctx.Err()
}

// The number of a charge, and of the request that moves or returns it, is the number of the call
// that made the charge.
func TestAwait(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	type D = []time.Duration
	at := func(wait time.Duration) place { return place{wait: wait} }
	broken, refused := place{err: errors.New("connection reset")}, place{err: &StoreError{Kind: "refused"}}
	minute, second := PerMinute(1), PerSecond(1) // bookings under second are tentative
	for _, test := range []struct {
		name      string
		limit     Limit
		answers   []place
		late      D // lateness of each sleep
		announced D // pauses before the announcements
		took      time.Duration
		asked     string
		want      uint64 // id of the charge that is used; 0 if Wait fails
	}{
		{"at once", minute, []place{at(0)}, nil, nil, 0, "book", 1},
		{"in time", minute, []place{at(400 * ms)}, nil, nil, 400 * ms, "book", 1},
		{"no waiter gives up", minute, []place{at(time.Hour), at(time.Hour - 10*s)}, nil, nil, time.Hour, "book, move 1", 2},
		{"units came back before it listened", minute, []place{at(time.Hour), at(0)}, nil, nil, 10 * s, "book, move 1", 2},
		{"as late as the grace", minute, []place{at(400 * ms)}, D{20 * ms}, nil, 420 * ms, "book", 1},
		{"later than the grace", minute, []place{at(400 * ms), at(300 * ms)}, D{21 * ms, 0}, nil, 721 * ms,
			"book, return 1, book", 3},
		{"late after a slow answer", minute, []place{{wait: 400 * ms, slow: 6 * ms}, at(0)}, D{15 * ms}, nil,
			421 * ms, "book, return 1, book", 3},
		{"after an answer slower than the grace", minute, []place{{wait: 400 * ms, slow: s}}, D{10 * ms}, nil,
			1410 * ms, "book", 1},
		{"answers about an earlier time come late", minute,
			[]place{at(10 * s), {wait: 5 * s, slow: 200 * ms}, {wait: 4 * s, slow: 200 * ms}}, nil, D{5 * s},
			10*s + 2*time.Microsecond, "book, move 1, move 2", 3},
		{"later twice", minute, []place{at(400 * ms), at(300 * ms), at(0)}, D{time.Hour, time.Minute}, nil,
			time.Hour + time.Minute + 700*ms, "book, return 1, book, return 3, book", 5},
		{"an earlier place", minute, []place{at(10 * s), at(3 * s)}, nil, D{2 * s}, 5 * s, "book, move 1", 2},
		{"a place at once", minute, []place{at(10 * s), at(0)}, nil, D{2 * s}, 2 * s, "book, move 1", 2},
		{"no earlier place, but later", minute, []place{at(10 * s), at(8 * s), at(s)}, nil, D{2 * s}, 4 * s,
			"book, move 1, move 2", 3},
		{"no earlier place", minute, []place{at(10 * s), at(8 * s), at(7 * s)}, nil, D{2 * s}, 10 * s,
			"book, move 1, move 2", 3},
		{"much is given back", minute, []place{at(10 * s), at(8 * s), at(5 * s)}, nil, D{2 * s, ms, ms, ms, ms},
			8 * s, "book, move 1, move 2", 3},
		{"too near to move", minute, []place{at(2 * s)}, nil, D{1950 * ms}, 2 * s, "book", 1},
		{"late, but before its place", minute, []place{at(10 * s), at(100 * ms)}, D{5 * s}, D{s}, 6100 * ms,
			"book, move 1", 2},
		{"an error", minute, []place{at(2 * s), broken, at(100 * ms)}, nil, D{s}, 1100 * ms, "book, move 1, book", 3},
		{"nothing was done, then an answer", minute, []place{at(10 * s), refused, at(s)}, nil, D{s, 2 * s}, 4 * s,
			"book, move 1, move 1", 3},
		{"denied", minute, []place{at(2 * s), {denied: true, wait: time.Hour}, at(100 * ms)}, nil, D{s}, 1100 * ms,
			"book, move 1, return 1, book", 4},
		{"denied from the start", minute, []place{{denied: true, wait: time.Hour}}, nil, nil, 0, "book", 0},
		{"an error from the start", minute, []place{broken}, nil, nil, 0, "book", 0},

		{"it asks before it goes", second, []place{at(400 * ms), at(0)}, D{21 * ms}, nil, 421 * ms, "book, move 1", 2},
		{"one ahead was late", second, []place{at(400 * ms), at(5 * ms), at(0)}, nil, nil, 405 * ms,
			"book, move 1, move 2", 3},
		{"it moves up first", second, []place{at(4 * s), at(2 * s), at(0)}, nil, D{s}, 3 * s,
			"book, move 1, move 2", 3},
		{"no answer before it goes", second, []place{at(400 * ms), broken, at(0)}, nil, nil, 400 * ms,
			"book, move 1, book", 3},
		{"it is certain that nothing happened", second, []place{at(400 * ms), refused, at(0)}, nil, nil, 400 * ms,
			"book, move 1, return 1, book", 4},
		{"denied before it goes", second, []place{at(400 * ms), {denied: true}, {denied: true}}, nil, nil, 400 * ms,
			"book, move 1, return 1, book", 0},
	} {
		testkit.InBubble(t, test.name, func(t *testing.T) {
			store := &places{answers: slices.Clone(test.answers), announced: test.announced}
			lim := testkit.Must(New(store, test.limit))(t)
			late := test.late
			lim.WakeLate(func() (next time.Duration) {
				if len(late) > 0 {
					next, late = late[0], late[1:]
				}
				return next
			})
			start := time.Now()
			d, err := lim.Wait(t.Context(), "api")
			if got := time.Since(start); got != test.took {
				t.Errorf("took %v; want %v", got, test.took)
			}
			if got := strings.Join(store.asked, ", "); got != test.asked {
				t.Errorf("asked: %s; want %s", got, test.asked)
			}
			if (err == nil) != (test.want != 0) || err == nil &&
				(d.Charge.data.ID != test.want || d.RetryAfter != 0 || !d.Allowed) {
				t.Errorf("charge %d with retry-after %v, error %v; want charge %d", d.Charge.data.ID, d.RetryAfter, err, test.want)
			}
		})
	}
}

// If the store announces nothing, a waiter asks when half of a long wait is over.
func TestAwaitWithoutAnnouncements(t *testing.T) {
	for wait, calls := range map[time.Duration]int{10 * time.Second: 1, time.Minute: 4, time.Hour: 10} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			store := &places{silent: true, booked: start.Add(wait)}
			lim := testkit.Must(New(store, PerHour(1)))(t)
			if _, err := lim.Wait(t.Context(), "api"); err != nil || time.Since(start) != wait {
				t.Errorf("%v after %v; want no error after %v", err, time.Since(start), wait)
			}
			if len(store.asked) != calls {
				t.Errorf("a wait of %v took %d calls, want %d", wait, len(store.asked), calls)
			}
		})
	}
}

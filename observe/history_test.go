package observe

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// epoch is what the wall clock says when the histories of these tests begin.
const epoch = int64(1_700_000_000)

// past is a history with the totals that it is given.
type past struct {
	*history
	totals totals
	since  time.Duration
	step   int64 // of the wall clock, in seconds
}

func newPast() *past {
	h := newHistory()
	h.offset = epoch
	return &past{history: h}
}

// pass lets time go by, in which some decisions are made, and takes a sample.
func (p *past) pass(d time.Duration, allowed, denied int64) (Point, []Series) {
	return p.happen(d, Counts{Allowed: allowed, Denied: denied})
}

func (p *past) happen(d time.Duration, c Counts) (Point, []Series) {
	p.since += d
	p.totals.Counts = p.totals.Counts.combine(c, plus)
	p.totals.Calls += c.decisions()
	p.totals.Carried += 2 * c.decisions()
	if len(p.totals.series) == 0 {
		p.totals.series = []Series{{Tier: "free"}, {Tier: "free", Policy: "login"}}
	}
	p.totals.series[0].Total = p.totals.Counts
	return p.record(p.since, epoch+p.step+int64(p.since/time.Second), &p.totals)
}

// took adds decisions and store calls that took so long.
func (p *past) took(n int64, decision, call time.Duration) {
	p.totals.decisions[bucketOf(decision)] += n
	p.totals.storeCalls[bucketOf(call)] += n
}

// However samples come, the points add up to what happened, and there is one for every second.
func TestHistoryAddsUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		p := newPast()
		for p.since < 10*time.Minute {
			pause := time.Duration(random.Int64N(int64(1500 * time.Millisecond)))
			if random.IntN(20) == 0 {
				pause *= 30
			}
			p.happen(pause, Counts{random.Int64N(1000), random.Int64N(10), random.Int64N(3), random.Int64N(3),
				random.Int64N(3)})
		}
		p.pass(time.Second, 0, 0)
		var sum Point
		points := p.points(time.Second)
		for i := range points {
			sum = sum.combine(points[i], plus)
			if points[i].At != points[0].At+int64(i) {
				t.Fatalf("point %d is at %d, the first at %d", i, points[i].At, points[0].At)
			}
		}
		if sum.Counts != p.totals.Counts || sum.Calls != p.totals.Calls || sum.Carried != p.totals.Carried {
			t.Fatalf("the points add up to %+v, want %+v", sum, p.totals.Counts)
		}
	}
}

// The wall clock may be put right, or drift, without harm to the history.
func TestHistoryWhenTheClockSteps(t *testing.T) {
	for _, step := range []int64{-3600, -2, 2, 86400} {
		p := newPast()
		for range 20 {
			p.pass(time.Second, 1, 0)
		}
		p.step = step
		last, _ := p.pass(time.Second, 1, 0)
		if want := epoch + step + 21; last.At != want {
			t.Errorf("step of %d s: the newest is at %d, want %d", step, last.At, want)
		}
		points := p.points(time.Second)
		if len(points) != 21 {
			t.Fatalf("step of %d s: %d points, want 21", step, len(points))
		}
		for i, point := range points {
			if want := last.At - 20 + int64(i); point.At != want || point.Allowed != 1 {
				t.Errorf("step of %d s: point %d is %d at %d, want 1 at %d", step, i, point.Allowed, point.At, want)
			}
		}
	}
	p := newPast()
	first, _ := p.pass(time.Second, 1, 0)
	p.step = 1 // slewed, or sampled just after the second
	second, _ := p.pass(time.Second, 1, 0)
	if second.At != first.At+1 {
		t.Errorf("the second after %d is %d", first.At, second.At)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	p := newPast()
	for range 3 * 3600 {
		p.pass(time.Second, 2, 1)
	}
	if got := len(p.points(time.Second)); got != 900 {
		t.Errorf("%d seconds, want 900", got)
	}
	tens := p.points(10 * time.Second)
	if len(tens) != 720 {
		t.Fatalf("%d tens of seconds, want 720", len(tens))
	}
	for i, point := range tens {
		if want := epoch + 3*3600 - int64(719-i)*10; point.At != want || point.Allowed != 20 || point.Denied != 10 {
			t.Fatalf("step %d: %+v; want 20 and 10 at %d", i, point, want)
		}
	}
	if got := len(p.series()[0].Recent); got != 90 {
		t.Errorf("%d steps of a series, want 90", got)
	}
	p.pass(5*time.Hour, 5*3600, 0)
	for i, point := range p.points(10 * time.Second) {
		if point.Allowed != 10 {
			t.Fatalf("after five hours, step %d: %+v; want 10", i, point)
		}
	}
}

func TestHistoryOfSeries(t *testing.T) {
	p := newPast()
	for i := range int64(25) {
		_, happened := p.pass(time.Second, i%2, 0)
		if (i%2 == 1) != (len(happened) == 1) {
			t.Fatalf("second %d: something happened to %v", i, happened)
		}
	}
	p.totals.series = append(p.totals.series, Series{Tier: "pro", Total: Counts{Denied: 30}})
	p.pass(15*time.Second, 15, 0) // across a step's end: a third of it before
	got := p.series()
	if len(got) != 3 || !slices.Equal(got[0].Recent, []Counts{{Allowed: 5}, {Allowed: 5}, {Allowed: 7}, {Allowed: 10}}) ||
		!slices.Equal(got[2].Recent, []Counts{{Denied: 10}, {Denied: 20}}) {
		t.Errorf("got %+v", got)
	}
}

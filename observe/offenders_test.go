package observe

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/testkit"
)

// What the list promises, held against exact counts: nobody with more than a thousandth of all
// denials is missing, and the truth lies between AtLeast and Denied, which is no more than a
// thousandth too high.
func TestOffendersOnZipfStreams(t *testing.T) {
	testkit.SkipUnderRace(t)
	const events, names = 30_000, 30_000
	subjects := make([]string, names+1)
	for i := range subjects {
		subjects[i] = fmt.Sprint("user:", i)
	}
	for _, skew := range []float64{1.01, 1.1, 1.5, 2.5} {
		// in one pane, and over all
		for _, every := range []time.Duration{60 * time.Microsecond, 5 * time.Millisecond} {
			t.Run(fmt.Sprint(skew, " every ", every), func(t *testing.T) {
				zipf := rand.NewZipf(rand.New(rand.NewPCG(3, 4)), skew, 1, names)
				o := newOffenders(newNames(label.Line))
				exact := map[string]int64{}
				now := o.start
				for range events {
					subject := subjects[zipf.Uint64()]
					exact[subject]++
					now = now.Add(every)
					o.tell(subject, "login", now)
				}
				holdToCounts(t, o.top("user", offenderCounters*panes, now), exact, events)
			})
		}
	}
}

func holdToCounts(t *testing.T, list []Offender, exact map[string]int64, events int64) {
	t.Helper()
	allowance := events / offenderCounters
	listed := map[string]bool{}
	for i, o := range list {
		listed[o.Subject] = true
		truth := exact[o.Subject]
		if truth > o.Denied || truth < o.AtLeast || o.Denied-truth > allowance {
			t.Fatalf("%s was denied %d times; the list says %d to %d", o.Subject, truth, o.AtLeast, o.Denied)
		}
		if i > 0 && o.Denied > list[i-1].Denied {
			t.Fatalf("%d comes after %d", o.Denied, list[i-1].Denied)
		}
	}
	for subject, n := range exact {
		if n > allowance && !listed[subject] {
			t.Fatalf("%s was denied %d times of %d and is not in the list", subject, n, events)
		}
	}
}

// An abuser stands out among ever new names, which is what attacks look like.
func TestOffendersAmongStrangers(t *testing.T) {
	testkit.SkipUnderRace(t)
	o := newOffenders(newNames(label.Line))
	now := o.start
	for i := range 100_000 {
		subject := fmt.Sprintf("ip:198.51.%d.%d", i>>8&255, i&255)
		if i%100 == 0 {
			subject = "ip:203.0.113.7"
		}
		now = now.Add(time.Millisecond)
		o.tell(subject, "", now)
	}
	got := o.top("ip", 1, now)
	if len(got) != 1 || got[0].Subject != "ip:203.0.113.7" || got[0].AtLeast < 950 || got[0].Denied > 1100 {
		t.Errorf("got %+v, want ip:203.0.113.7 with about 1000", got)
	}
	if len(o.top("policy", 1, now)) != 0 {
		t.Error("a policy without a name is listed")
	}
}

func TestOffendersByKind(t *testing.T) {
	o := newOffenders(newNames(label.Short))
	now := o.start
	for subject, times := range map[string]int{
		"ip:203.0.113.7": 3, "user:mallory": 5, "apikey:sk-0123456": 1, "session:abcdefghi": 1, "internal:indexer": 1,
		"envoy:edge": 1, "igdb:api": 1, "plain": 2, "policy:x": 1, "": 1,
	} {
		for range times {
			o.tell(subject, "login", now)
		}
	}
	want := map[string][]string{
		"ip": {"ip:203.0.113.x"}, "user": {"user:mallor…"}, "apikey": {"apikey:sk-012…"},
		"session":  {"session:abcdef…"},
		"internal": {"internal:indexe…"}, "envoy": {"envoy:edge"}, "other": {"plain", "", "igdb:api", "policy:x"},
		"policy": {"login"}, "none": nil,
	}
	for kind, subjects := range want {
		var got []string
		for _, offender := range o.top(kind, 10, now) {
			got = append(got, offender.Subject)
			if offender.Kind != kind || offender.Policy != "login" || (offender.Ref == "") != (kind == "policy") {
				t.Errorf("%s: %+v", kind, offender)
			}
		}
		if !slices.Equal(got, subjects) {
			t.Errorf("%s: %q, want %q", kind, got, subjects)
		}
	}
	if got := o.top("policy", 1, now)[0]; got.Denied != 17 || got.AtLeast != 17 {
		t.Errorf("the policy has %+v, want 17 denials", got)
	}
	if got := o.top("other", 2, now); len(got) != 2 {
		t.Errorf("%d of the others, want 2", len(got))
	}
}

// The window slides: what is older than ten minutes is forgotten, what is newer than eight is not.
func TestOffendersForget(t *testing.T) {
	tests := []struct {
		after time.Duration
		want  int64
	}{
		{0, 10}, {8 * time.Minute, 10}, {10*time.Minute - 1, 10}, {10 * time.Minute, 0}, {time.Hour, 0},
		{-time.Hour, 10},
	}
	for _, test := range tests {
		o := newOffenders(newNames(label.Line))
		for range 10 {
			o.tell("user:1", "", o.start)
		}
		o.tell("user:2", "", o.start.Add(test.after))
		got := int64(0)
		for _, offender := range o.top("user", 10, o.start.Add(test.after)) {
			if offender.Subject == "user:1" {
				got = offender.Denied
			}
		}
		if got != test.want {
			t.Errorf("after %v: %d denials, want %d", test.after, got, test.want)
		}
	}
	o := newOffenders(newNames(label.Line))
	for minute := range 100 { // one a minute, of which eight to ten are in the window
		now := o.start.Add(time.Duration(minute) * time.Minute)
		o.tell("user:1", "", now)
		if got := o.top("user", 1, now)[0].Denied; minute >= 10 && (got < 9 || got > 10) {
			t.Errorf("minute %d: %d denials, want 9 or 10", minute, got)
		}
	}
}

// In a flood a sample is counted. It finds the same offenders, and AtLeast remains true.
func TestOffendersInAFlood(t *testing.T) {
	testkit.SkipUnderRace(t)
	o := newOffenders(newNames(label.Line))
	exact := map[string]int64{}
	now := o.start
	for second := range 5 {
		now = o.start.Add(time.Duration(second) * time.Second)
		for i := range 4 * floodRate {
			subject := fmt.Sprint("user:", i%5000)
			if i%10 == 0 {
				subject = "user:mallory"
			}
			exact[subject]++
			o.tell(subject, "", now)
		}
	}
	got := o.top("user", 1, now)[0]
	truth := exact["user:mallory"]
	if got.Subject != "user:mallory" || got.Denied < truth*9/10 || got.Denied > truth*11/10 || got.AtLeast > truth ||
		got.AtLeast < truth/(2*floodShare) {
		t.Errorf("got %+v, want user:mallory with about %d", got, truth)
	}
	if !o.flood.Load() {
		t.Error("there is no flood")
	}
	for i := range 1000 { // ends it, after a second
		now = now.Add(2 * time.Second)
		o.tell("user:quiet", "", now)
		if i > 100 && o.flood.Load() {
			t.Fatal("the flood does not end")
		}
	}
}

func TestOffendersRefs(t *testing.T) {
	n := newNames(label.Short)
	o, f := newOffenders(n), newFeed(n)
	o.tell("user:mallory", "login", o.start)
	f.add(denialOf("user:mallory"))
	shown := f.drain()
	got := o.top("user", 1, o.start)[0]
	if got.Ref != shown[0].Ref {
		t.Errorf("the list has the ref %q, the feed %q", got.Ref, shown[0].Ref)
	}
}

func TestOffendersInParallel(t *testing.T) {
	o := newOffenders(newNames(label.Line))
	var group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for i := range 1000 {
				o.tell(fmt.Sprint("user:", i%10), "login", o.start)
				if i%100 == caller {
					o.top("user", 10, o.start)
				}
			}
		})
	}
	group.Wait()
	for _, offender := range o.top("user", 20, o.start) {
		if offender.Denied != 800 || offender.AtLeast != 800 {
			t.Errorf("%+v, want 800", offender)
		}
	}
}

func TestOffendersAllocateNothing(t *testing.T) {
	o := newOffenders(newNames(label.Line))
	subjects := make([]string, 5000)
	for i := range subjects {
		subjects[i] = fmt.Sprint("user:", i)
		o.tell(subjects[i], "login", o.start)
	}
	i := 0
	if got := testing.AllocsPerRun(5000, func() {
		i++
		o.tell(subjects[i*7919%len(subjects)], "login", o.start)
	}); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

// The heap is one after whatever was added, and the counts are those of Space-Saving done slowly.
func TestSketchAgainstSlowOne(t *testing.T) {
	testkit.SkipUnderRace(t)
	const size = 8
	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		s := newSketch(size)
		slow := map[string]int64{}
		for range 300 {
			name := strings.Repeat("x", random.IntN(20))
			weight := 1 + random.Int64N(3)
			smallest := s.least()
			s.add(name, "", weight)
			if _, known := slow[name]; !known && len(slow) == size {
				for other := range slow { // the one that s has chosen among the smallest
					if _, kept := s.byName[other]; !kept {
						if slow[other] != smallest {
							t.Fatalf("a count of %d was taken over, the smallest is %d", slow[other], smallest)
						}
						delete(slow, other)
					}
				}
				slow[name] = smallest
			}
			slow[name] += weight
			got := map[string]int64{}
			for i := range s.counters {
				got[s.counters[i].name] = s.counters[i].count
			}
			if !maps.Equal(got, slow) {
				t.Fatalf("counts are %v, want %v", got, slow)
			}
			if len(slow) == size && s.least() != slices.Min(slices.Collect(maps.Values(slow))) {
				t.Fatalf("the smallest is %d of %v", s.least(), slow)
			}
		}
	}
}

// told numbers what tests tell.
var told atomic.Int64

// tell is add with a number.
func (o *offenders) tell(subject, policy string, now time.Time) {
	o.add(subject, policy, false, now, told.Add(1))
}

// TestOffendersAfterAFlood: who comes when it is over is counted one by one again, however long
// nobody came.
func TestOffendersAfterAFlood(t *testing.T) {
	o := newOffenders(newNames(label.Line))
	now := o.start
	for nth := range int64(2 * floodRate) {
		o.add("user:mallory", "", false, now, nth)
	}
	if !o.flood.Load() {
		t.Fatal("no flood")
	}
	for range int(panes * paneLength / time.Second) {
		now = now.Add(time.Second)
		o.tick(now)
	}
	for nth := range int64(5) {
		o.add("user:alice", "", false, now, nth)
	}
	if got := o.top("user", 9, now); len(got) != 1 || got[0].Denied != 5 {
		t.Errorf("got %+v, want alice with 5", got)
	}
}

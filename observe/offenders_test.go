package observe

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

// What the list promises, held against exact counts: no subject with more than a thousandth of all
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
				for _, s := range o.kinds[kindOf(subjects[0])] {
					for at := int32(1); s != nil && at < int32(len(s.heap)); at++ {
						if s.count(at) < s.count((at-1)/2) {
							t.Fatalf("position %d of the heap has a smaller count than the one above it", at)
						}
					}
				}
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
	for range int(panes * paneLength / time.Second) { // it ends after a second, and is forgotten
		now = now.Add(time.Second)
		o.tick(now)
	}
	for nth := range int64(5) { // these are counted one by one again
		o.add("user:alice", "", false, now, nth)
	}
	if got := o.top("user", 9, now); len(got) != 1 || got[0].Denied != 5 {
		t.Errorf("after the flood: got %+v, want alice with 5", got)
	}
}

// told numbers what tests tell.
var told atomic.Int64

// tell is add with a number.
func (o *offenders) tell(subject, policy string, now time.Time) {
	o.add(subject, policy, false, now, told.Add(1))
}

// resultsOf returns results for requests of some subjects.
func resultsOf(subjects ...string) []policy.Result {
	list := make([]policy.Result, len(subjects))
	for i, s := range subjects {
		list[i].Claim = stint.Claim{Subject: s}
	}
	return list
}

func TestSuspects(t *testing.T) {
	o := newOffenders(newNames(label.Line))
	now := o.start
	second := func(do func()) {
		if do != nil {
			do()
		}
		now = now.Add(time.Second)
		o.tick(now)
	}
	find := func(subject string) Offender { return o.of(subject, now) }

	const flooder = "ip:203.0.113.9"
	second(func() { o.add(flooder, "login", false, now, 1) }) // from here on it is watched
	for range 5 {
		second(func() {
			for range 60 {
				o.add(flooder, "login", false, now, 1)
			}
			o.add(flooder, "search", false, now, 1)
			o.add("user:42", "", false, now, 1)
			o.suspects.allowed(resultsOf("user:42", "user:42", "user:43"))
			o.suspects.allowed(resultsOf("user:44", "user:42"))
		})
	}
	worst := o.worst(now)
	if len(worst) != 2 || worst[0].Subject != flooder || worst[1].Subject != "user:42" {
		t.Fatalf("the worst are %+v", worst)
	}
	got := worst[0]
	if got.Rate < 50 || got.Rate > 62 || got.Share != 1 || got.Denied != 306 || !got.First.Equal(o.start) ||
		!got.Last.Equal(now.Add(-time.Second)) || !slices.Equal(got.Policies, []string{"login", "search"}) {
		t.Errorf("the flooder is %+v", got)
	}
	if got := find("user:42"); got.Share < 0.3 || got.Share > 0.4 || got.Rate < 2 || got.Rate > 3 {
		t.Errorf("one request in three denied: %+v", got)
	}

	// What a ban denies is counted until the ban is over.
	second(func() {
		for range 12 {
			o.add(flooder, "", true, now, 1)
		}
	})
	if got := find(flooder); got.Banned != 12 || !slices.Equal(got.Policies, []string{"login", "search"}) {
		t.Errorf("banned: %+v", got)
	}
	second(func() { o.suspects.allowed(resultsOf(flooder)) })
	if got := find(flooder); got.Banned != 0 {
		t.Errorf("allowed after the ban: %+v", got)
	}

	// After ten seconds without a request there is no rate, and after an hour nothing is known.
	for range suspectSeconds {
		second(nil)
	}
	if got := find(flooder); got.Rate != 0 || got.Share != 0 || got.First.IsZero() || len(o.worst(now)) != 0 {
		t.Errorf("after ten quiet seconds: %+v", got)
	}
	now = now.Add(suspectLife)
	second(nil)
	if got := find(flooder); !got.First.IsZero() || o.suspects.known.Load() != nil {
		t.Errorf("after an hour: %+v", got)
	}
}

// TestSuspectsAreBounded: in a flood from very many, the one that is denied most is not replaced.
func TestSuspectsAreBounded(t *testing.T) {
	o := newOffenders(newNames(label.Line))
	for i := range 3 * maxSuspects {
		o.add(fmt.Sprint("user:", i), "", false, o.start, 1)
		if i%100 == 0 {
			o.add("user:mallory", "", false, o.start, 1)
		}
	}
	o.tick(o.start.Add(time.Second))
	if got := o.suspects.each.Len(); got != maxSuspects || len(o.suspects.byName) != maxSuspects {
		t.Errorf("%d suspects are kept, want %d", got, maxSuspects)
	}
	if got := o.worst(o.start); len(got) != worstSuspects || got[0].Subject != "user:mallory" {
		t.Errorf("the worst are %+v", got)
	}
}

func denialOf(subject string) violation {
	return violation{subject: subject, tier: "free", policy: "login", reason: "limit", retryAfter: 90 * time.Second}
}

// A flood leaves the first of every second.
func TestFeedInAFlood(t *testing.T) {
	f := newFeed(newNames(label.Short))
	for second := range 7 {
		for i := range 1000 {
			f.add(denialOf("user:" + strconv.Itoa(second) + "/" + strconv.Itoa(i)))
		}
		if got := f.drain(); len(got) != feedRate {
			t.Fatalf("second %d: %d shown, want %d", second, len(got), feedRate)
		}
	}
	recent := f.recent(5000)
	if len(recent) != feedSize {
		t.Fatalf("%d are remembered, want %d", len(recent), feedSize)
	}
	if got := recent[0].Subject; got != "user:2/0" {
		t.Errorf("the oldest is %s, want user:2/0", got)
	}
	if got := recent[feedSize-1].Subject; got != "user:6/199" {
		t.Errorf("the newest is %s, want user:6/199", got)
	}
}

// TestLongSubjects: what requests call themselves takes a bounded part of the memory, and is told
// apart all the same.
func TestLongSubjects(t *testing.T) {
	n := newNames(label.Line)
	long := "user:" + strings.Repeat("x", stint.MaxSubject-6)
	f, o := newFeed(n), newOffenders(n)
	for _, subject := range []string{long + "a", long + "b", long + "b"} {
		f.add(denialOf(subject))
		o.add(subject, "login", false, o.start, 1)
	}
	for _, v := range f.drain() {
		if v.Ref != "" || v.Subject != label.Line(long) {
			t.Errorf("shown as %q with the ref %q; want its beginning and none", v.Subject, v.Ref)
		}
	}
	top := o.top("user", 9, o.start)
	if len(top) != 2 || top[0].Denied != 2 || top[1].Denied != 1 || top[0].Ref != "" ||
		top[0].Subject != label.Line(long) {
		t.Errorf("top: %+v; want two subjects, without refs", top)
	}
	var kept []string
	for _, c := range o.merge(kindOf(long), o.start) {
		kept = append(kept, c.name)
	}
	for i := range f.ring.items {
		kept = append(kept, f.ring.items[i].subject)
	}
	for _, subject := range kept {
		if len(subject) > 2*longestKept {
			t.Errorf("%d bytes of a subject are kept", len(subject))
		}
	}
}

func TestRefs(t *testing.T) {
	n, other := newNames(label.Short), newNames(label.Short)
	for _, subject := range []string{"user:42", "", "\x00\xff{}:\n", strings.Repeat("x", stint.MaxSubject)} {
		ref := n.seal(subject)
		if got, ok := n.subject(ref); !ok || got != subject || ref != n.seal(subject) || url.QueryEscape(ref) != ref {
			t.Errorf("%q: %s stands for %q", subject, ref, got)
		}
		if _, ok := other.subject(ref); ok || other.seal(subject) == ref {
			t.Errorf("%q: the ref is good elsewhere", subject)
		}
		for _, wrong := range []string{ref[1:], ref[:len(ref)-2], ref + "AA", "~", "A", "",
			strings.Repeat("A", 2*stint.MaxSubject)} {
			if got, ok := n.subject(wrong); ok {
				t.Errorf("%s stands for %q", wrong, got)
			}
		}
	}
}

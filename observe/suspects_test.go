package observe

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

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

// TestSuspectRates are those of the last ten seconds, at a tick and between two.
func TestSuspectRates(t *testing.T) {
	testkit.SkipUnderRace(t)
	o := newOffenders(newNames(label.Line))
	now := o.start
	for range 30 * 60 { // half a minute with 60 a second
		o.add("ip:203.0.113.9", "login", false, now, 1)
		before := now
		if now = now.Add(time.Second / 60); now.Truncate(time.Second) != before.Truncate(time.Second) {
			o.tick(now)
		}
		if got := o.of("ip:203.0.113.9", now).Rate; now.Sub(o.start) > time.Second && (got < 59 || got > 61.1) {
			t.Fatalf("after %v: %.1f a second, want 60", now.Sub(o.start), got)
		}
	}
}

package observe

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
)

func denialOf(subject string) violation {
	return violation{subject: subject, tier: "free", policy: "login", reason: "limit", retryAfter: 90 * time.Second}
}

func TestFeedShowsWhatHappened(t *testing.T) {
	f := newFeed(newNames(label.Short))
	limit := stint.PerMinute(10).WithBurst(2)
	at := time.Unix(1_700_000_000, 0)
	f.add(violation{
		at: at, subject: "user:mallory", tier: "free", policy: "login", limit: limit, reason: "limit",
		retryAfter: 1500 * time.Millisecond, degraded: true,
	})
	f.add(violation{at: at, subject: "ip:203.0.113.7", tier: "free", reason: "ban", retryAfter: stint.Never})
	got := f.drain()
	want := []Violation{
		{At: at, Subject: "user:mallor…", Tier: "free", Policy: "login", Limit: "10/1m burst 2x", Reason: "limit",
			RetryAfter: 1.5, Degraded: true},
		{At: at, Subject: "ip:203.0.113.x", Tier: "free", Reason: "ban", RetryAfter: -1},
	}
	for i := range want {
		want[i].Ref = got[i].Ref
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := f.recent(10); !slices.Equal(got, want) {
		t.Errorf("recent are %+v, want %+v", got, want)
	}
	if got := f.recent(1); len(got) != 1 || got[0] != want[1] {
		t.Errorf("the last is %+v, want %+v", got, want[1])
	}
	if again := f.drain(); len(again) != 0 {
		t.Errorf("%d violations were drained twice", len(again))
	}
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

// However many come at once, no second shows more than its share, and each shows something.
func TestFeedInParallel(t *testing.T) {
	const callers, each = 8, 2000
	f := newFeed(newNames(label.Short))
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range each {
				f.add(denialOf("user:1"))
			}
		})
	}
	stop := make(chan struct{})
	var total int
	var drains sync.WaitGroup
	drains.Go(func() {
		for {
			shown := len(f.drain())
			if shown > feedRate {
				t.Errorf("%d are shown of one second, want at most %d", shown, feedRate)
			}
			total += shown
			f.recent(10)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	group.Wait()
	close(stop)
	drains.Wait()
	if total += len(f.drain()); total == 0 || total > callers*each {
		t.Errorf("%d were shown of %d", total, callers*each)
	}
}

// Strings of requests come out on one line, in UTF-8 and not long, shortened or not (F34).
func TestFeedMakesStringsHarmless(t *testing.T) {
	for name, shown := range map[string]func(string) string{"shortened": label.Short, "in full": label.Line} {
		f := newFeed(newNames(shown))
		for _, hostile := range []string{
			"user:a\nFAKE log line", "ip:\x1b[2J\x1b[1;1H", "user:\xff\xfe\xfd", strings.Repeat("x", 100_000),
			"\u202euser:\u0000", "<script>",
		} {
			f.add(violation{subject: hostile, tier: hostile, policy: hostile, reason: "limit"})
		}
		got := f.drain()
		for _, v := range got {
			for _, s := range []string{v.Subject, v.Tier, v.Policy} {
				if !utf8.ValidString(s) || len(s) > 600 ||
					strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%s: %q", name, s)
				}
			}
			if _, err := json.Marshal(v); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestFeedRefs(t *testing.T) {
	f := newFeed(newNames(label.Short))
	f.add(denialOf("user:mallory"))
	f.add(denialOf("user:mallory"))
	f.add(denialOf("user:malloc"))
	got := f.drain()
	if got[0].Ref != got[1].Ref || got[0].Ref == got[2].Ref {
		t.Errorf("refs %q, %q and %q; want the first two alike", got[0].Ref, got[1].Ref, got[2].Ref)
	}
	if strings.Contains(got[0].Ref, "mallory") || len(got[0].Ref) != 32 {
		t.Errorf("the ref is %q", got[0].Ref)
	}
	if subject, ok := f.names.subject(got[0].Ref); !ok || subject != "user:mallory" {
		t.Errorf("the ref stands for %q, %v", subject, ok)
	}
	if other := newNames(label.Short).ref("user:mallory"); other == got[0].Ref {
		t.Error("two processes have the same refs: the key is not random")
	}
}

func TestFeedAllocatesNothingForWhatIsNotShown(t *testing.T) {
	f := newFeed(newNames(label.Short))
	e := denialOf("user:1")
	if got := testing.AllocsPerRun(1000, func() { f.add(e) }); got != 0 {
		t.Errorf("%v allocations, want none", got)
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

package memorystore

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/testkit"
)

// user is a subject made anew, so that the store cannot share the caller's.
func user(i int) string { return fmt.Sprintf("user:%07d", i) }

func TestBytesPerSubject(t *testing.T) {
	for _, x := range []struct {
		subjects, requests int
		most               int64
	}{{100_000, 1, 120}, {2000, 100, 1024}} {
		s, clock := newClocked(t, Config{MaxSubjects: 2_000_000})
		lim := newLimiter(t, s, stint.PerMinute(100))
		const first = 1000 // with which every shard has its tables
		for i := range first {
			allow(t, lim, fmt.Sprint("first:", i))
		}
		before := testkit.HeapInUse()
		for i := range x.subjects {
			subject := user(i)
			for range x.requests {
				clock.Advance(time.Microsecond)
				if !allow(t, lim, subject).Allowed {
					t.Fatal("denied")
				}
			}
		}
		took := (testkit.HeapInUse() - before) / int64(x.subjects)
		t.Logf("%d bytes per subject after %d requests; accounted %d", took, x.requests,
			s.bytes.Load()/int64(x.subjects))
		if took > x.most {
			t.Errorf("%d bytes per subject after %d requests, want at most %d", took, x.requests, x.most)
		}
		if s.Len() != first+x.subjects {
			t.Errorf("%d subjects, want %d", s.Len(), first+x.subjects)
		}
		runtime.KeepAlive(lim)
	}
}

// What was leased is kept until a span after the lease's end, though nothing was charged for longer
// than that, and counts as used when others are to go.
func TestLeasesAreKept(t *testing.T) {
	const most = 1000
	s, clock := newClocked(t, Config{MaxSubjects: most})
	minute := stint.PerMinute(10)
	admit(t, s, driver.WithTerms(units("user:1", 8, minute), driver.Terms{Lease: 10 * time.Minute}))
	lim := newLimiter(t, s, minute)
	clock.Advance(10 * time.Minute)
	for i := range 10 * most {
		allow(t, lim, fmt.Sprint("other:", i))
	}
	clock.Advance(time.Minute - time.Microsecond)
	s.Sweep()
	if d, err := lim.Peek(context.Background(), "user:1"); err != nil || d.Decisive().Used != 8 {
		t.Errorf("%d used, want 8: %v", d.Decisive().Used, err)
	}
	clock.Advance(2 * time.Minute)
	s.Sweep()
	if n := s.Len(); n != 0 {
		t.Errorf("%d subjects are left", n)
	}
	checkAccounts(t, s)
}

func TestSweeperRuns(t *testing.T) {
	s, clock := newClocked(t, Config{})
	lim := newLimiter(t, s, stint.PerSecond(1))
	for i := range 100 {
		allow(t, lim, user(i))
	}
	clock.Advance(time.Hour)
	testkit.Eventually(t, "no subject is left", func() bool { return s.Len() == 0 })
}

// Dead limits of a subject that is alive make room for others.
func TestLimitsOfOneSubjectAreBounded(t *testing.T) {
	s, clock := newClocked(t, Config{})
	for i := range 2000 {
		l := stint.Per(10, time.Second+time.Duration(i)*time.Microsecond)
		l.Algorithm = stint.Algorithm(i % 4)
		admit(t, s, units("user:1", 1, l, stint.PerDay(1_000_000)))
		clock.Advance(time.Second)
	}
	if n := s.bytes.Load(); n > 8000 {
		t.Errorf("one subject takes %d bytes", n)
	}
	checkAccounts(t, s)
}

// checkAccounts compares what is kept with what is counted.
func checkAccounts(t *testing.T, s *Store) {
	t.Helper()
	for i := range s.shards { // the sweeper must not come between
		s.shards[i].mu.Lock()
		defer s.shards[i].mu.Unlock()
	}
	var bytes int64
	records := 0
	for i := range s.shards {
		sh := &s.shards[i]
		var want, got [classes]int
		for n := range sh.count {
			bytes += int64(sh.record(n).bytes())
			records++
			want[sh.classOf(n)]++
		}
		for _, v := range sh.variants {
			if v != nil {
				bytes += v.bytes()
			}
		}
		for c := range got {
			got[c] = int(sh.loads()[c].Load())
		}
		if got != want {
			t.Errorf("shard %d: %d records by class, counted %d", i, want, got)
		}
	}
	if bytes != s.bytes.Load() || records != s.Len() {
		t.Errorf("%d bytes in %d records; counted %d in %d", bytes, records, s.bytes.Load(), s.Len())
	}
}

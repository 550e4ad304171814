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

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// user is a subject made anew, so that the store cannot share the caller's.
func user(i int) string { return fmt.Sprintf("user:%07d", i) }

func TestBytesPerSubject(t *testing.T) {
	for _, x := range []struct {
		subjects, requests int
		most               int64
	}{{100_000, 1, 120}, {2000, 100, 1024}} {
		clock := newClock()
		s := newStore(t, Config{MaxSubjects: 2_000_000, Now: clock.now})
		lim := newLimiter(t, s, stint.PerMinute(100))
		const first = 1000 // with which every shard has its tables
		for i := range first {
			allow(t, lim, fmt.Sprint("first:", i))
		}
		before := heap()
		for i := range x.subjects {
			subject := user(i)
			for range x.requests {
				clock.advance(time.Microsecond)
				if !allow(t, lim, subject).Allowed {
					t.Fatal("denied")
				}
			}
		}
		took := (heap() - before) / int64(x.subjects)
		t.Logf(
			"%d bytes per subject after %d requests; accounted %d",
			took,
			x.requests,
			s.bytes.Load()/int64(x.subjects),
		)
		if took > x.most {
			t.Errorf("%d bytes per subject after %d requests, want at most %d", took, x.requests, x.most)
		}
		if s.Len() != first+x.subjects {
			t.Errorf("%d subjects, want %d", s.Len(), first+x.subjects)
		}
		runtime.KeepAlive(lim)
	}
}

// F12: many more distinct subjects than the store holds.
func TestFloodOfSubjects(t *testing.T) {
	const known, most, flood = 500, 10_000, 30_000
	clock := newClock()
	s := newStore(t, Config{MaxSubjects: most, Now: clock.now})
	lim := newLimiter(t, s, stint.PerHour(10), stint.WithBans(stint.BanPolicy{}))
	for i := range known {
		for range 8 {
			allow(t, lim, fmt.Sprint("known:", i))
		}
	}
	if err := lim.Ban(context.Background(), "villain", 10*time.Hour); err != nil {
		t.Fatal(err)
	}
	before := heap()
	for i := range flood {
		if !allow(t, lim, user(i)).Allowed {
			t.Fatal("a new subject was denied")
		}
		clock.advance(10 * time.Microsecond)
	}
	if n := s.Len(); n > most+len(s.shards) || n < most*9/10 {
		t.Errorf("%d subjects are remembered, want about %d", n, most)
	}
	if grown := heap() - before; grown > 150*most {
		t.Errorf("the heap grew by %d bytes, %d per subject remembered", grown, grown/most)
	}
	for i := range known {
		if d := allow(t, lim, fmt.Sprint("known:", i)); d.Decisive().Used != 9 {
			t.Fatalf("known:%d has used %d, want 9: forgotten", i, d.Decisive().Used)
		}
	}
	if d := allow(t, lim, "villain"); !d.Banned {
		t.Error("the ban was forgotten")
	}
	if d := allow(t, lim, user(flood-1)); d.Decisive().Used != 2 {
		t.Error("the newest subject was forgotten")
	}
}

func TestExpiry(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{Now: clock.now})
	ctx := context.Background()
	lim := newLimiter(t, s, stint.PerMinute(2), stint.TokenBucket(10, 1, time.Second), stint.AtOnce(3, time.Minute),
		stint.WithBans(stint.BanPolicy{After: 1, Within: time.Minute, Durations: []time.Duration{time.Hour},
			Forgive: time.Hour}))
	for i := range 1000 {
		allow(t, lim, user(i))
	}
	d, err := lim.Take(ctx, stint.Request{Claims: []stint.Claim{{Subject: "id", Cost: 1}}, ID: "x",
		IDLife: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	settled := allow(t, lim, "settled")
	if ok, err := lim.Refund(ctx, settled); !ok.Changed || err != nil {
		t.Fatal(ok, err)
	}
	for range 3 {
		d = allow(t, lim, "villain")
	}
	if !d.Banned {
		t.Fatal("not banned")
	}
	// The refund is remembered for as long as the charge could be amended again, the id for its
	// life, the ban until it is forgiven.
	for _, x := range []struct {
		pass        time.Duration
		least, most int
	}{{59 * time.Second, 1003, 1003}, {5 * time.Second, 2, 3}, {10 * time.Minute, 1, 1}, {50 * time.Minute, 1, 1},
		{time.Hour, 0, 0}} {
		clock.advance(x.pass)
		s.Sweep()
		if n := s.Len(); n < x.least || n > x.most {
			t.Errorf("%d subjects after another %v, want %d to %d", n, x.pass, x.least, x.most)
		}
		checkAccounts(t, s)
	}
	for i := range s.shards {
		if n := len(s.shards[i].variantOf); n != 0 {
			t.Fatalf("%d limits are remembered of nobody", n)
		}
	}
}

// What was leased is kept until a span after the lease's end, though nothing was charged for longer
// than that, and counts as used when others are to go.
func TestLeasesAreKept(t *testing.T) {
	const most = 1000
	clock := newClock()
	s := newStore(t, Config{MaxSubjects: most, Now: clock.now})
	minute := stint.PerMinute(10)
	lease := driver.WithTerms(
		stint.Request{Claims: []stint.Claim{{Subject: "user:1", Limits: []stint.Limit{minute}, Cost: 8}}},
		driver.Terms{Lease: 10 * time.Minute},
	)
	d, err := s.Take(context.Background(), lease)
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	lim := newLimiter(t, s, minute)
	clock.advance(10 * time.Minute)
	for i := range 10 * most {
		allow(t, lim, fmt.Sprint("other:", i))
	}
	clock.advance(time.Minute - time.Microsecond)
	s.Sweep()
	if d, err := lim.Peek(context.Background(), "user:1"); err != nil || d.Decisive().Used != 8 {
		t.Errorf("%d used, want 8: %v", d.Decisive().Used, err)
	}
	clock.advance(2 * time.Minute)
	s.Sweep()
	if n := s.Len(); n != 0 {
		t.Errorf("%d subjects are left", n)
	}
	checkAccounts(t, s)
}

func TestSweeperRuns(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{Now: clock.now})
	lim := newLimiter(t, s, stint.PerSecond(1))
	for i := range 100 {
		allow(t, lim, user(i))
	}
	clock.advance(time.Hour)
	testkit.Eventually(t, "no subject is left", func() bool { return s.Len() == 0 })
}

// Dead limits of a subject that is alive make room for others.
func TestLimitsOfOneSubjectAreBounded(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{Now: clock.now})
	for i := range 2000 {
		l := stint.Per(10, time.Second+time.Duration(i)*time.Microsecond)
		l.Algorithm = stint.Algorithm(i % 4)
		r := stint.Request{Claims: []stint.Claim{{
			Subject: "user:1", Limits: []stint.Limit{l, stint.PerDay(1_000_000)}, Cost: 1}}}
		if d, err := s.Take(context.Background(), r); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		clock.advance(time.Second)
	}
	if n := s.bytes.Load(); n > 8000 {
		t.Errorf("one subject takes %d bytes", n)
	}
	checkAccounts(t, s)
}

func TestIndexKeepsEveryRecord(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{MaxSubjects: 64, Now: clock.now})
	lim := newLimiter(t, s, stint.PerHour(10))
	for i := range 5000 {
		allow(t, lim, fmt.Sprintf("user:%d:%*d", i%97, i%40, i))
		sh := &s.shards[0]
		for n := range sh.count {
			if r := sh.record(n); r.size != 0 {
				subject := r.subject()
				if sh.find(r.hash(s.seed), subject, "", "") != r {
					t.Fatalf("after %d: %q is not found", i, subject)
				}
			}
		}
		if sh.index.used != int(sh.count) {
			t.Fatalf("%d places for %d records", sh.index.used, sh.count)
		}
	}
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

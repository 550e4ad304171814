package memorystore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
)

// charge takes units of an hourly limit and reports whether they were granted.
func charge(t testing.TB, s *Store, subject, scope string, limit, cost int64) bool {
	t.Helper()
	r := units(subject, cost, stint.PerHour(limit))
	r.Claims[0].Scope = scope
	d, err := s.Take(context.Background(), r)
	if err != nil {
		t.Error(err)
	}
	return d.Allowed
}

// chargeEach is charge for so many subjects, whose names begin with a prefix.
func chargeEach(t testing.TB, s *Store, subjects int, prefix string, limit, cost int64) {
	t.Helper()
	for i := range subjects {
		charge(t, s, fmt.Sprint(prefix, i), "", limit, cost)
	}
}

// over counts how many of some users get more than an hourly limit in many attempts, all taking
// turns.
func over(t testing.TB, s *Store, users int, limit int64) (n int) {
	t.Helper()
	got := make([]int64, users)
	for range 8 * limit {
		for u := range got {
			if charge(t, s, fmt.Sprint("address:", u), "login", limit, 1) {
				got[u]++
			}
		}
	}
	for _, g := range got {
		if g > limit {
			n++
		}
	}
	return n
}

// Nobody who is near a limit goes as long as more than one record in 20 has room, wherever those
// are.
func TestRecordsWithRoomGoFirst(t *testing.T) {
	const most, withRoom, newcomers = 4096, 512, 300
	s := newStore(t, Config{MaxSubjects: most})
	cost := func(i int) int64 {
		if i%(most/withRoom) == 0 {
			return 5
		}
		return 6 // leaves less than half
	}
	for i := range most {
		charge(t, s, fmt.Sprint("old:", i), "", 10, 1)
		charge(t, s, fmt.Sprint("old:", i), "", 10, cost(i)-1)
	}
	chargeEach(t, s, newcomers, "new:", 1, 1)
	if st := s.Stats(); st.Subjects != most || st.Evicted != newcomers {
		t.Errorf("%+v", st)
	}
	gone := 0
	for i := range most {
		switch n := spent(t, s, fmt.Sprint("old:", i), "", 10); {
		case n == 0 && cost(i) == 5:
			gone++
		case n != cost(i):
			t.Fatalf("old:%d has used %d, want %d", i, n, cost(i))
		}
	}
	if gone != newcomers {
		t.Errorf("%d with room are gone, want %d", gone, newcomers)
	}
	for i := range newcomers {
		if spent(t, s, fmt.Sprint("new:", i), "", 1) != 1 {
			t.Fatalf("new:%d is forgotten", i)
		}
	}
	checkAccounts(t, s)
}

// In a store full of subjects at their limits, newcomers have room until they are at theirs. They
// are not forgotten one for the other.
func TestNewcomersAmongSubjectsAtTheirLimits(t *testing.T) {
	const most = 5_000
	s := newStore(t, Config{MaxSubjects: most})
	chargeEach(t, s, 2*most, "full:", 1, 1)
	if n := over(t, s, 50, 5); n > 0 {
		t.Errorf("%d of 50 got more than 5 in an hour; %+v", n, s.Stats())
	}
	checkAccounts(t, s)
}

func spent(t testing.TB, s *Store, subject, scope string, limit int64) int64 {
	t.Helper()
	r := units(subject, 1, stint.PerHour(limit))
	r.Claims[0].Scope, r.Mode = scope, stint.ModePeek
	d := take(t, s, r)
	return d.States()[0].Used
}

// F38: a subject with as many scopes as the store holds, with room or at their limits, changes no
// limit of others.
func TestOneSubjectWithManyScopes(t *testing.T) {
	const most, users = 2000, 50
	for _, limit := range []int64{100, 1} {
		s := newStore(t, Config{MaxSubjects: most})
		for i := range most {
			charge(t, s, "everyone", fmt.Sprint("thing:", i), limit, 1)
		}
		if n := over(t, s, users, 5); n > 0 {
			t.Errorf("%d of %d got more than 5 in an hour beside things of limit %d", n, users, limit)
		}
	}
}

// F44: large keys after many small ones, several at once, stay within the bound on bytes.
func TestLargeKeysAfterSmallOnes(t *testing.T) {
	s := newStore(t, Config{MaxBytes: 2 << 20})
	before, long := testkit.HeapInUse(), strings.Repeat("x", 60<<10)
	chargeEach(t, s, 18_000, "small:", 5, 1)
	var group sync.WaitGroup
	for g := range 16 {
		group.Go(func() {
			for i := range 4 {
				charge(t, s, fmt.Sprint(g, ":", i, long), "", 5, 1)
				checkBounds(t, s)
			}
		})
	}
	group.Wait()
	checkHeap(t, s, before)
	checkAccounts(t, s)
}

// What a call has written stays, though it has the most left of all and many must go for it.
func TestNewcomerStays(t *testing.T) {
	s := newStore(t, Config{MaxBytes: 100_000})
	for i := range 1000 {
		charge(t, s, fmt.Sprint("user:", i), "", 10, 2+rand.Int64N(3))
	}
	long := strings.Repeat("x", 60_000)
	for i := range 10 {
		charge(t, s, fmt.Sprint(i, long), "", 10, 1)
		if spent(t, s, fmt.Sprint(i, long), "", 10) != 1 {
			t.Fatalf("large subject %d is forgotten", i)
		}
		checkBounds(t, s)
	}
	checkAccounts(t, s)
}

// Records that have expired are not counted as evicted.
func TestExpiredIsNotEvicted(t *testing.T) {
	const most = 1000
	s, clock := newClocked(t, Config{MaxSubjects: most})
	chargeEach(t, s, most, "old:", 5, 1)
	clock.Advance(3 * time.Hour)
	chargeEach(t, s, most/2, "new:", 5, 1)
	if n := s.Stats().Evicted; n != 0 {
		t.Errorf("%d were evicted, though others had expired", n)
	}
	s.Sweep()
	chargeEach(t, s, 2*most, "newer:", 5, 1)
	if n := s.Stats().Evicted; n != most+most/2 {
		t.Errorf("%d were evicted, want %d", n, most+most/2)
	}
}

// What has come to have room by the passing of time is known once the sweeper has been there.
func TestRoomComesBack(t *testing.T) {
	const most = 1024
	s, clock := newClocked(t, Config{MaxSubjects: most})
	for i := range most - 100 {
		if charge(t, s, fmt.Sprint("old:", i), "", 1, 1); i < 900 && i%9 == 8 {
			take(t, s, units(fmt.Sprint("bucket:", i), 10, stint.TokenBucket(10, 10, time.Hour)))
		}
	}
	charge(t, s, "new", "", 1, 1) // notes that nobody has room
	clock.Advance(35 * time.Minute)
	s.Sweep()
	chargeEach(t, s, 50, "new:", 1, 1)
	gone := 0
	for i := range most - 100 {
		if spent(t, s, fmt.Sprint("old:", i), "", 1) == 0 {
			gone++
		}
	}
	if gone > 1 {
		t.Errorf("%d at their limit were evicted, though others had room again", gone)
	}
}

// One subject in a hundred is at its limit in a store that many callers at once flood four times
// over, with subjects, scopes and long keys.
func TestFloodsEvictNobodyAtALimit(t *testing.T) {
	const most, known = 2_000, 20
	long := strings.Repeat("x", 3000)
	s := newStore(t, Config{MaxSubjects: most, MaxBytes: 8 << 20})
	s.turns.Store(1) // loads are not compared with the first eviction
	chargeEach(t, s, known, "known:", 5, 5)
	var next atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := int(next.Add(1)); i <= 4*most; i = int(next.Add(1)) {
				switch i % 3 {
				case 0:
					charge(t, s, "flood", fmt.Sprint(i), 5, 1)
				case 1:
					charge(t, s, fmt.Sprint("flood:", i), "", 5, 1)
				case 2:
					charge(t, s, fmt.Sprint("flood:", i, long[:rand.IntN(len(long))]), "", 5, 1)
				}
				if i%100 == 0 {
					checkBounds(t, s)
				}
			}
		})
	}
	group.Wait()
	for i := range known {
		if n := spent(t, s, fmt.Sprint("known:", i), "", 5); n != 5 {
			t.Errorf("known:%d has used %d, want 5", i, n)
		}
	}
	checkAccounts(t, s)
}

// checkBounds compares what is counted with the bounds.
func checkBounds(t testing.TB, s *Store) {
	t.Helper()
	st := s.Stats()
	if st.Bytes > st.MaxBytes+st.MaxBytes/50 || st.Subjects > st.MaxSubjects {
		t.Errorf("beyond the bounds: %+v", st)
	}
}

// checkHeap compares what is counted with what the heap has grown by.
func checkHeap(t testing.TB, s *Store, before int64) {
	t.Helper()
	grown, counted := testkit.HeapInUse()-before, s.Stats().Bytes
	t.Logf("%d bytes counted, %d on the heap", counted, grown)
	if fixed := int64(len(s.shards)) * 8 << 10; grown > counted+counted/10+fixed {
		t.Errorf("%d bytes on the heap, %d are counted", grown, counted)
	}
}

// A store that is full of bans and places forgets some of them.
func TestNothingButBansAndPlaces(t *testing.T) {
	const most = 2000
	s := newStore(t, Config{MaxSubjects: most})
	for i := range most / 2 {
		mustBan(t, s, fmt.Sprint("villain:", i))
		admit(t, s, units(fmt.Sprint("holder:", i), 1, stint.Concurrency(10, time.Hour)))
	}
	for i := range 100 { // the newcomers count, each until there are others with as much room
		for k := range int64(10) {
			if got := charge(t, s, fmt.Sprint("user:", i), "", 5, 1); got != (k < 5) {
				t.Fatalf("user:%d: attempt %d: %v", i, k, got)
			}
		}
		checkBounds(t, s)
	}
	bans := testkit.Must(s.Bans(t.Context(), most))(t)
	if len(bans) != most/2 {
		t.Errorf("%d bans are left of %d, though places could go", len(bans), most/2)
	}
	checkAccounts(t, s)
}

// Calls over several shards neither wait for each other in a circle nor exceed the bounds, also by
// records that grow where they are, and lists are whole although records move.
func TestFullStoreUnderEverything(t *testing.T) {
	const most, bans = 1000, 50
	s := newStore(t, Config{MaxSubjects: most, MaxBytes: 1 << 20})
	ctx := context.Background()
	for i := range bans {
		mustBan(t, s, fmt.Sprint("villain:", i))
	}
	var callers, listers sync.WaitGroup
	done := make(chan struct{})
	listers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			list, err := s.Bans(ctx, 1000)
			if err != nil || len(list) != bans {
				t.Errorf("%d bans are listed, want %d: %v", len(list), bans, err)
				return
			}
			s.Sweep()
		}
	})
	for g := range 16 {
		callers.Go(func() {
			for i := range 300 {
				claim := func(subject, scope string) stint.Claim {
					return stint.Claim{Subject: subject, Scope: scope,
						Limits: []stint.Limit{stint.PerHour(10), stint.PerDay(100).WithName("daily"),
							stint.Concurrency(100, time.Hour)}, Cost: 1}
				}
				_, err := s.Take(ctx, stint.Request{ID: fmt.Sprint(g, i, strings.Repeat("x", 500)), Claims: []stint.Claim{
					claim(fmt.Sprint("user:", g, ":", i), ""),
					claim(fmt.Sprint("team:", i), ""),
					claim("everyone", fmt.Sprint("thing:", g, ":", i)),
				}})
				if err != nil {
					t.Error(err)
				}
				checkBounds(t, s)
			}
		})
	}
	callers.Wait()
	close(done)
	listers.Wait()
	checkAccounts(t, s)
}

// A record that is larger than the bound is not kept.
func TestTooLargeForTheStore(t *testing.T) {
	s := newStore(t, Config{MaxBytes: 10_000})
	for i := range 10 {
		if !charge(t, s, strings.Repeat("x", 20_000), "", 5, 1) {
			t.Fatal("denied")
		}
		checkBounds(t, s)
		charge(t, s, fmt.Sprint("user:", i), "", 5, 1)
		checkBounds(t, s)
	}
	checkAccounts(t, s)
}

// A shard has no more records than its index can name.
func TestShardIsFull(t *testing.T) {
	s := newStore(t, Config{MaxSubjects: 10_000})
	s.perShard = 500
	for i := range 3000 {
		charge(t, s, "everyone", fmt.Sprint("thing:", i), 5, 1)
		if !charge(t, s, "everyone", fmt.Sprint("thing:", i), 5, 4) ||
			charge(t, s, "everyone", fmt.Sprint("thing:", i), 5, 1) {
			t.Fatalf("thing:%d is forgotten", i)
		}
	}
	if n := s.Len(); n != 500 {
		t.Errorf("%d records", n)
	}
	checkAccounts(t, s)
}

// What is no longer needed is given back.
func TestRoomIsGivenBack(t *testing.T) {
	s, clock := newClocked(t, Config{})
	before := testkit.HeapInUse()
	for i := range 40_000 {
		charge(t, s, "everyone", fmt.Sprint(i), 5, 1)
	}
	clock.Advance(90 * time.Minute)
	for i := range 1000 {
		charge(t, s, "everyone", fmt.Sprint("late:", i), 5, 1)
	}
	clock.Advance(45 * time.Minute)
	s.Sweep()
	if n := s.Len(); n != 1000 {
		t.Fatalf("%d records", n)
	}
	checkHeap(t, s, before)
	checkAccounts(t, s)
	for i := range 1000 {
		if spent(t, s, "everyone", fmt.Sprint("late:", i), 5) != 1 {
			t.Fatalf("late:%d is forgotten", i)
		}
	}
}

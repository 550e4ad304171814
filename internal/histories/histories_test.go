package histories

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seed   = flag.Uint64("seed", 0, "run the history of this `seed` alone, and tell it")
	again  = flag.Int("again", 1, "run the one history so many times")
	trace  = flag.Bool("trace", false, "tell of every message of the one history")
	first  = flag.Uint64("first", 1, "the first of many seeds; 0 draws one")
	lasts  = flag.Duration("for", 3*time.Second, "how long many histories are run")
	survey = flag.Bool("survey", false, "go on after a history that is wrong, and count what was")
)

// A history leaves little behind, so a larger share of garbage costs no memory and saves time. What
// a stack pools stays until the second collection, with the whole stack: without the limit, collections
// become rarer and rarer.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(2 << 30)
	}
	os.Exit(m.Run())
}

// run lets the history of a seed happen.
func run(t *testing.T, seed uint64, draft func(uint64) *plan) (h *history) {
	t.Helper()
	return watched(t, fmt.Sprintf("seed %d", seed), func() *history { return draft(seed).happen() })
}

// watched lets a history happen in a bubble of its own, and says which it was if that never ends.
func watched(t *testing.T, name string, happen func() *history) (h *history) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("%s: %v", name, p))
		}
	}()
	// A history takes milliseconds. One that stands still has a goroutine that waits for a lock
	// whose holder sleeps, so that virtual time does not pass.
	alarm := time.AfterFunc(2*time.Minute, func() {
		debug.SetTraceback("all")
		panic(name + " does not end")
	})
	defer alarm.Stop()
	synctest.Test(t, func(*testing.T) { h = happen() })
	return h
}

// usual is how many histories are run unless somebody wants a survey: always the same, so that a
// test that fails was broken by a change. make soak draws others.
const usual = 2000

// What the stack promises holds in every history.
func TestHistories(t *testing.T) { testHistories(t, draft) }

// What it promises of holds, too.
func TestStreamHistories(t *testing.T) { testHistories(t, draftStreams) }

func testHistories(t *testing.T, draft func(uint64) *plan) {
	if *seed != 0 {
		for range *again {
			h := run(t, *seed, draft)
			for _, wrong := range verdict(h) {
				t.Error(wrong)
			}
			t.Logf("faults %v\n%v", draft(*seed).faults, h)
		}
		return
	}
	if testing.Short() {
		*lasts = min(*lasts, time.Second)
	}
	if *first == 0 {
		*first = uint64(time.Now().Unix()) << 32
	}
	var next atomic.Uint64
	next.Store(*first)
	var tally tally
	begin := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("worker", worker), func(t *testing.T) {
				t.Parallel()
				for time.Since(begin) < *lasts && (*survey || !t.Failed()) {
					s := next.Add(1) - 1
					if !*survey && s >= *first+usual {
						break
					}
					h := run(t, s, draft)
					tally.add(t, draft(s), h, verdict(h))
				}
			})
		}
	})
	t.Logf("%d histories of %d questions in %v, seeds from %d on; wrong: %s",
		tally.histories, tally.questions, time.Since(begin).Round(time.Second), *first, &tally)
}

// tally counts histories, and what was wrong with them.
type tally struct {
	mu                          sync.Mutex
	histories, questions, wrong int
	kinds                       map[string]int
}

func (c *tally) add(t *testing.T, p *plan, h *history, found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.histories++
	c.questions += len(h.ops)
	if len(found) == 0 {
		return
	}
	c.wrong++
	seen := map[string]bool{}
	for _, f := range found {
		what, _, _ := strings.Cut(f, ":")
		if seen[what] {
			continue
		}
		seen[what] = true
		if c.kinds == nil {
			c.kinds = map[string]int{}
		}
		if c.kinds[what]++; c.kinds[what] <= 20 {
			t.Errorf("%s\nto run it alone: go test ./internal/histories -run '%s$' -args -seed %d -again 10\n"+
				"as it was this time: faults %v\n%v", f, strings.Split(t.Name(), "/")[0], p.seed, p.faults, h)
		}
	}
	t.Fail()
}

func (c *tally) String() string {
	all := fmt.Sprint(c.wrong)
	for _, what := range slices.Sorted(maps.Keys(c.kinds)) {
		all += fmt.Sprintf(", %s %d", what, c.kinds[what])
	}
	return all
}

package histories

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seed   = flag.Uint64("seed", 0, "run the history of this `seed` alone, and tell it")
	again  = flag.Int("again", 1, "run the one history so many times")
	first  = flag.Uint64("first", 1, "the first of many seeds")
	lasts  = flag.Duration("for", 30*time.Second, "how long histories are run")
	trace  = flag.Bool("trace", false, "tell of every message")
	survey = flag.Bool("survey", false, "go on after a history that is wrong, and count what was")
)

// run lets the history of a seed happen.
func run(t *testing.T, seed uint64) (h *history) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("seed %d: %v", seed, p))
		}
	}()
	synctest.Test(t, func(*testing.T) { h = draft(seed).happen() })
	return h
}

func TestHistories(t *testing.T) {
	if *seed != 0 {
		for range *again {
			h := run(t, *seed)
			for _, wrong := range verdict(h) {
				t.Error(wrong)
			}
			t.Logf("faults %v\n%v", draft(*seed).faults, h)
		}
		return
	}
	counts, example := map[string]int{}, map[string]uint64{}
	n, wrong, ops := 0, 0, 0
	begin := time.Now()
	for s := *first; time.Since(begin) < *lasts; s++ {
		h := run(t, s)
		n++
		ops += len(h.ops)
		found := verdict(h)
		if len(found) == 0 {
			continue
		}
		wrong++
		if !*survey {
			t.Fatalf("seed %d (go test ./internal/histories -run TestHistories -seed %d -again 20):\n%s", s, s, strings.Join(found, "\n"))
		}
		seen := map[string]bool{}
		for _, f := range found {
			what, _, _ := strings.Cut(f, ":")
			if !seen[what] {
				seen[what] = true
				if counts[what]++; counts[what] <= 3 {
					t.Logf("seed %d: %s", s, f)
				}
			}
			if example[what] == 0 {
				example[what] = s
			}
		}
	}
	t.Logf("%d histories of %d questions in %v, %d wrong: %v, first %v", n, ops, time.Since(begin), wrong, counts, example)
	if wrong > 0 {
		t.Fail()
	}
}

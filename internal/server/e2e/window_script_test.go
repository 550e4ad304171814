package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

// TestWindowScript: the script of docs/redis-keys.md counts what stint inspect does, and lists every
// entry of a window, oldest first, however the entries of a log are laid out.
func TestWindowScript(t *testing.T) {
	redis, script := redistest.Start(t), windowScript(t)
	store := guardtest.Redis(t, redisstore.Config{URL: redis.URL()})
	const most = 1_000_000
	lim, err := stint.New(store, stint.Per(most, 50*time.Millisecond), stint.PerHour(125),
		stint.Limit{Max: most, Window: 6 * time.Hour, Algorithm: stint.AlgorithmFixed}, stint.PerDay(most),
		stint.TokenBucket(most, most, 48*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	limit := regexp.MustCompile(`^(\w+) ([\d.]+)s, (?:(\d+) used)?`)
	entry := regexp.MustCompile(`^  (\d+\.\d{6}): (\d+), until (\d+\.\d) s from now$`)
	maxima := []string{fmt.Sprint(most), "125", fmt.Sprint(most), fmt.Sprint(most), fmt.Sprint(most), "entries"}
	for taken := 1; taken <= 125; taken++ {
		if _, err := lim.Allow(t.Context(), "user:42"); err != nil {
			t.Fatal(err)
		}
		got := redis.CLI(t, append([]string{"EVAL_RO", script, "1", "stint:{user:42}:limits"}, maxima...)...)
		counts, units, entries := map[string]string{}, map[string]int{}, map[string]int{}
		at, last := "", ""
		for line := range strings.SplitSeq(got, "\n") {
			if found := limit.FindStringSubmatch(line); found != nil {
				at, last = found[1]+found[2], ""
				counts[at] = found[3]
			} else if found := entry.FindStringSubmatch(line); found == nil || found[1] <= last {
				t.Fatalf("after %d requests: %q in\n%s", taken, line, got)
			} else {
				n, _ := strconv.Atoi(found[2])
				units[at] += n
				entries[at]++
				last = found[1]
			}
		}
		for _, name := range []string{"sliding3600", "fixed21600", "sliding86400"} {
			if counts[name] != strconv.Itoa(taken) {
				t.Fatalf("after %d requests %s has %q used:\n%s", taken, name, counts[name], got)
			}
		}
		if _, ok := counts["bucket172800"]; !ok {
			t.Fatalf("no bucket in\n%s", got)
		}
		// Below 126 every request has its microsecond: one caller makes no two in the same.
		if units["sliding3600"] != taken || units["sliding86400"] != taken || entries["sliding3600"] != taken ||
			entries["sliding86400"] > 2 {
			t.Fatalf("after %d requests %v units in %v entries:\n%s", taken, units, entries, got)
		}
	}
}

// windowScript is the script of the page.
func windowScript(t *testing.T) string {
	t.Helper()
	page := testkit.ReadFile(t, "../../../docs/redis-keys.md")
	script := regexp.MustCompile("(?s)```lua\n(-- window\\.lua:.*?)```").FindStringSubmatch(page)
	if script == nil {
		t.Fatal("the page has no window.lua")
	}
	return script[1]
}

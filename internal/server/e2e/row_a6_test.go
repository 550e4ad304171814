package e2e

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// TestA6ScriptCountsLikeInspect: the page's script counts what stint inspect does, however the
// entries of a log are laid out.
func TestA6ScriptCountsLikeInspect(t *testing.T) {
	redis, script := redistest.Start(t), windowScript(t)
	store, err := redisstore.Open(t.Context(), redisstore.Config{URL: redis.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const most = 1_000_000
	lim, err := stint.New(store, stint.Per(most, 50*time.Millisecond), stint.PerHour(300),
		stint.Limit{Max: most, Window: 6 * time.Hour, Algorithm: stint.AlgorithmFixed}, stint.PerDay(most),
		stint.TokenBucket(most, most, 48*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^(\w+) (\d+)s, (?:(\d+) used)?`)
	for taken := int64(1); taken <= 250; taken++ {
		if _, err := lim.Allow(context.Background(), "user:42"); err != nil {
			t.Fatal(err)
		}
		got := redis.CLI(t, "EVAL_RO", script, "1", "stint:{user:42}:limits")
		counts := map[string]string{}
		for _, found := range line.FindAllStringSubmatch(got, -1) {
			counts[found[1]+found[2]] = found[3]
		}
		want := strconv.FormatInt(taken, 10)
		for _, limit := range []string{"sliding3600", "fixed21600", "sliding86400"} {
			if counts[limit] != want {
				t.Fatalf("after %d requests %s has %q used: %s", taken, limit, counts[limit], got)
			}
		}
		if _, ok := counts["bucket172800"]; !ok {
			t.Fatalf("no bucket in %s", got)
		}
	}
}

// TestA6ScriptListsEntries: with the word for it, the script lists every entry of a window, oldest
// first, however they are laid out.
func TestA6ScriptListsEntries(t *testing.T) {
	redis, script := redistest.Start(t), windowScript(t)
	store, err := redisstore.Open(t.Context(), redisstore.Config{URL: redis.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lim, err := stint.New(store, stint.PerHour(125), stint.PerDay(1_000_000))
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`^  (\d+\.\d{6}): (\d+), until (\d+\.\d) s from now$`)
	for taken := 1; taken <= 125; taken++ {
		if _, err := lim.Allow(t.Context(), "user:42"); err != nil {
			t.Fatal(err)
		}
		got := redis.CLI(t, "EVAL_RO", script, "1", "stint:{user:42}:limits", "125", "1000000", "entries")
		units, entries, last := []int{}, []int{}, ""
		for line := range strings.SplitSeq(got, "\n") {
			found := entry.FindStringSubmatch(line)
			switch {
			case strings.HasPrefix(line, "sliding "):
				units, entries, last = append(units, 0), append(entries, 0), ""
			case found == nil || found[1] <= last:
				t.Fatalf("after %d requests: %q in\n%s", taken, line, got)
			default:
				n, _ := strconv.Atoi(found[2])
				units[len(units)-1] += n
				entries[len(entries)-1]++
				last = found[1]
			}
		}
		// Below 126 every request has its microsecond: one caller makes no two in the same.
		if !slices.Equal(units, []int{taken, taken}) || entries[0] != taken || entries[1] > 2 {
			t.Fatalf("after %d requests %d units in %d entries:\n%s", taken, units, entries, got)
		}
	}
}

// windowScript is the script of the page.
func windowScript(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/redis-keys.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```lua\n(-- window\\.lua:.*?)```").FindSubmatch(page)
	if script == nil {
		t.Fatal("the page has no window.lua")
	}
	return string(script[1])
}

package e2e

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// TestA6ScriptCountsLikeInspect: the page's script counts what stint inspect does, however the
// entries of a log are laid out.
func TestA6ScriptCountsLikeInspect(t *testing.T) {
	redis := redistest.Start(t)
	page, err := os.ReadFile("../../../docs/redis-keys.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```lua\n(-- window\\.lua:.*?)```").FindSubmatch(page)
	if script == nil {
		t.Fatal("the page has no window.lua")
	}
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
		got := redis.CLI(t, "EVAL_RO", string(script[1]), "1", "stint:{user:42}:limits")
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

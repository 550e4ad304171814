package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

const keysPage = "../../../docs/redis-keys.md"

// TestA6RedisCLIPage does what docs/redis-keys.md says, with redis-cli and stint as they are, and
// sees what it says. Numbers with a fraction are times, which differ; so does a TTL.
func TestA6RedisCLIPage(t *testing.T) {
	redis := redistest.Start(t)
	directory := savedScripts(t)
	program, err := build(t, "../../..")
	if err != nil {
		t.Fatal(err)
	}
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Fatal(err)
	}
	// What the page takes for granted: both programs are found, and Redis is at its usual port.
	for name, script := range map[string]string{
		"redis-cli": fmt.Sprintf("exec %s -p %d \"$@\"", cli, redis.Port()),
		"stint":     fmt.Sprintf("exec %s \"${@/127.0.0.1:6379/%s}\"", program, redis.Addr()),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte("#!/bin/bash\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	store, err := redisstore.Open(t.Context(), redisstore.Config{URL: redis.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lim, err := stint.New(store, stint.AtOnce(2, 10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lim.Take(t.Context(), stint.Request{
		Claim: stint.Claim{Subject: "user:43", Cost: 1}, ID: "order-7"}); err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(keysPage)
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for _, step := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(strings.TrimSuffix(step, "\n"), "\n")
			commands++
			run := exec.CommandContext(t.Context(), "bash", "-c", command)
			run.Dir = directory
			run.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"))
			out, err := run.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v", command, err)
			}
			got := strings.TrimSuffix(string(out), "\n")
			if strings.Contains(command, "PTTL") {
				checkTTL(t, got, 24*time.Hour)
				checkTTL(t, want, 24*time.Hour)
			} else if !sameText(want, got) {
				t.Errorf("%s\nprints %q\nthe page says %q", command, got, want)
			}
		}
	}
	if commands < 15 {
		t.Errorf("the page has %d commands, want at least 15", commands)
	}
}

// checkTTL wants a TTL of a window of this length: not less, apart from what has passed since, and
// at most an eighth more.
func checkTTL(t *testing.T, text string, window time.Duration) {
	t.Helper()
	ms, err := strconv.ParseInt(text, 10, 64)
	ttl := time.Duration(ms) * time.Millisecond
	if err != nil || ttl < window-10*time.Minute || ttl > window*9/8+2*time.Second {
		t.Errorf("a TTL of %q, want that of a window of %s", text, window)
	}
}

// sameText compares texts, but for numbers with a fraction.
func sameText(a, b string) bool {
	fraction := regexp.MustCompile(`\d+\.\d+`)
	return fraction.ReplaceAllString(a, "N") == fraction.ReplaceAllString(b, "N")
}

// savedScripts writes the Lua scripts of the page to a directory, under the names they have there.
func savedScripts(t *testing.T) (directory string) {
	t.Helper()
	text, err := os.ReadFile(keysPage)
	if err != nil {
		t.Fatal(err)
	}
	directory = t.TempDir()
	for _, script := range regexp.MustCompile("(?s)```lua\n(-- (\\w+\\.lua):.*?)```").FindAllStringSubmatch(
		string(text), -1) {
		if err := os.WriteFile(filepath.Join(directory, script[2]), []byte(script[1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// TestA6ScriptCountsLikeInspect: the page's script counts what stint inspect does, however the
// entries of a log are laid out.
func TestA6ScriptCountsLikeInspect(t *testing.T) {
	redis := redistest.Start(t)
	script, err := os.ReadFile(filepath.Join(savedScripts(t), "window.lua"))
	if err != nil {
		t.Fatal(err)
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
		got := redis.CLI(t, "EVAL_RO", string(script), "1", "stint:{user:42}:limits")
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

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/redistest"
)

// TestTwoVersionsShareOneRedis: the previous version and this one decide side by side, as they do
// while instances are upgraded or rolled back. They share limits of every algorithm exactly, apply
// each other's bans, and none of them fails.
func TestTwoVersionsShareOneRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t) // which skips it under -short
	commands := []stintCommand{{t, previousBinary(t), server.URL()}, {t, proxytest.BuildStint(t), server.URL()}}

	for _, test := range []struct {
		limits []string
		want   int64
	}{
		{[]string{"12/1h"}, 12},
		{[]string{"5/1h burst 2x", "9/1d"}, 9},
		{[]string{"8/1h bucket"}, 8},
		{[]string{"7/1d fixed", "1000/1h"}, 7},
	} {
		subject := "user:" + strings.ReplaceAll(test.limits[0], "/", "-")
		args := []string{"take", subject}
		for _, limit := range test.limits {
			args = append(args, "--limit", limit)
		}
		var allowed atomic.Int64
		var work sync.WaitGroup
		for caller := range 4 {
			work.Go(func() {
				for i := range 4 { // each version before and after the other
					if commands[(caller+i)%2].allows(args...) {
						allowed.Add(1)
					}
				}
			})
		}
		work.Wait()
		if got := allowed.Load(); got != test.want {
			t.Errorf("%s: %d of 16 were allowed, want %d", test.limits, got, test.want)
		}
	}

	for i, c := range commands {
		other, subject := commands[1-i], fmt.Sprintf("user:banned-%d", i)
		c.run("ban", subject, "--for", "1h")
		if other.allows("take", subject, "--limit", "5/1h") {
			t.Errorf("%s ignores a ban by %s", other.path, c.path)
		}
		other.run("unban", subject)
		if !c.allows("take", subject, "--limit", "5/1h") {
			t.Errorf("%s ignores an unban by %s", c.path, other.path)
		}
	}
}

// stintCommand runs a version of the program on a Redis.
type stintCommand struct {
	t           *testing.T
	path, redis string
}

func (c stintCommand) run(args ...string) string {
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(c.t.Context(), c.path, slices.Concat(args, []string{"--store", c.redis})...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if stdout.Len() == 0 || stderr.Len() > 0 { // a denial is a failure that is written to stdout
		c.t.Errorf("%s %q: %v: %s", c.path, args, err, &stderr)
	}
	return stdout.String()
}

func (c stintCommand) allows(args ...string) bool {
	text := c.run(slices.Concat(args, []string{"--json"})...)
	var answer struct{ Allowed, Degraded bool }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Degraded {
		c.t.Errorf("%s %q: %v: %s", c.path, args, err, text)
	}
	return answer.Allowed
}

// previousBinary builds the last release before this version, or if there is none, the newest
// commit with other scripts than this version has. A commit that does not build is nobody's
// version.
func previousBinary(t *testing.T) string {
	t.Helper()
	git := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), "git", append([]string{"-C", "../../.."}, args...)...)
		out, err := command.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	var candidates []string
	if release, err := git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"); err == nil {
		candidates = []string{release}
	} else if commits, err := git("rev-list", "--first-parent", "HEAD"); err == nil {
		for commit := range strings.FieldsSeq(commits) {
			if len(candidates) == 3 {
				break
			}
			if _, err := git("diff", "--quiet", commit, "--", "redisstore/lua"); err != nil {
				candidates = append(candidates, commit)
			}
		}
	} else {
		t.Skipf("the previous version is built from the history of a git clone, and this is none: %v: %s", err, commits)
	}
	for _, commit := range candidates {
		name, _ := git("log", "-1", "--format=%h %s", commit)
		source := t.TempDir()
		archive := filepath.Join(source, "source.tar")
		if out, err := git("archive", "--output", archive, commit); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		unpack := exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", source)
		if out, err := unpack.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		path, err := build(t, source)
		if err == nil {
			t.Logf("the previous version is %s", name)
			return path
		}
		t.Logf("%s does not build: %v", name, err)
	}
	if shallow, _ := git("rev-parse", "--is-shallow-repository"); shallow == "true" {
		t.Skip("this clone is shallow; for the previous version, run: git fetch --unshallow --tags")
	}
	t.Fatal("no release, and none of three commits with other scripts in redisstore/lua, can be built")
	return ""
}

// build builds the program of a source tree. Optimizing it would take longer than running it.
func build(t *testing.T, source string) (path string, err error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "stint")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	compile := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w",
		"-gcflags=github.com/stint-limiter/stint/...=-N -l", "-o", path, "./cmd/stint")
	compile.Dir = source
	if out, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
}

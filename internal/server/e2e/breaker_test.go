package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// program is the built program.
type program string

// buildProgram builds the program for a test.
func buildProgram(t *testing.T) program {
	t.Helper()
	return program(proxytest.BuildStint(t))
}

// serving is a process of the program that serves.
type serving struct {
	t          *testing.T
	log        testkit.Buffer
	api, admin string // URLs
}

// serve runs "stint serve" on free ports until the test ends.
func (p program) serve(t *testing.T, policies string, args ...string) *serving {
	t.Helper()
	s := &serving{t: t}
	c := exec.Command(string(p), append([]string{"serve", "--config", file(t, "stint.yaml", policies),
		"--http", anywhere, "--admin", anywhere, "--no-admin-token"}, args...)...)
	c.Stderr = &s.log
	c.Env = append(os.Environ(), "REDIS_URL=")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it has no work to finish
		_ = c.Wait()         // which ends in that signal
		if t.Failed() {
			t.Logf("log of serve %v:\n%s", args, s.log.String())
		}
	})
	address := regexp.MustCompile(`listener=(\S+) address=(\S+)`)
	testkit.Eventually(t, "it listens", func() bool {
		for _, m := range address.FindAllStringSubmatch(s.log.String(), -1) {
			switch url := "http://" + m[2]; m[1] {
			case "HTTP":
				s.api = url
			case "admin":
				s.admin = url
			}
		}
		return s.api != "" && s.admin != ""
	})
	testkit.Eventually(t, "it is ready", func() bool { return strings.Contains(s.get(s.api+"/readyz"), "ready") })
	return s
}

func (s *serving) get(url string) string {
	s.t.Helper()
	response, err := http.Get(url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// take makes a request of a user, and returns the status of the answer.
func (s *serving) take(user string) int {
	s.t.Helper()
	body, err := json.Marshal(question(user))
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.Post(s.api+"/v1/take", "application/json", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode
}

// metric adds up the values of the metrics whose name and labels contain the texts.
func (s *serving) metric(name string, labels ...string) (sum float64) {
	s.t.Helper()
lines:
	for line := range strings.Lines(s.get(s.admin + "/metrics")) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at, _, _ := strings.Cut(series, "{"); at != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(series, label) {
				continue lines
			}
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		sum += n
	}
	return sum
}

func (s *serving) breakerIs(state string) bool {
	s.t.Helper()
	return s.metric("stint_breaker_state", fmt.Sprintf("state=%q", state)) == 1
}

// TestBreakerIsConfigurable: the breaker opens after as many failures as the configuration or a flag says, and tries
// again after the time that they say.
func TestBreakerIsConfigurable(t *testing.T) {
	t.Parallel()
	stint, redis := buildProgram(t), redistest.Start(t)
	const tiers = "tiers:\n  - {name: all, identity: [user, ip], limits: 1000/1h}\n"
	const two = tiers + "failure: {instances: 1, breaker: {failures: 2, probe: 20ms, retry: 1m}}\n"
	byFile := stint.serve(t, two, "--store", redis.URL())
	byFlag := stint.serve(t, two, "--store", redis.URL(), "--breaker-failures", "3", "--breaker-probe", "24h",
		"--breaker-retry", "48h")
	never := stint.serve(t, tiers+"failure: {instances: 1, breaker: {failures: 1000000}}\n", "--store", redis.URL())

	for s, want := range map[*serving]string{
		byFile: `{"failures":2,"probe_seconds":0.02,"retry_seconds":60}`,
		byFlag: `{"failures":3,"probe_seconds":86400,"retry_seconds":172800}`,
		never:  `{"failures":1000000,"probe_seconds":0.25,"retry_seconds":30}`,
	} {
		var config struct {
			Store struct {
				Settings json.RawMessage `json:"breaker_settings"`
			}
		}
		var got bytes.Buffer
		if err := json.Unmarshal([]byte(s.get(s.admin+"/config")), &config); err != nil {
			t.Fatal(err)
		}
		if err := json.Compact(&got, config.Store.Settings); err != nil || got.String() != want {
			t.Errorf("in force is %s, want %s (%v)", &got, want, err)
		}
		if s.take("42") != http.StatusOK || !s.breakerIs("closed") {
			t.Fatal("the breaker is not closed, although Redis works")
		}
	}

	redis.Kill()
	failures := func(s *serving) float64 { return s.metric("stint_store_errors_total", `op="take"`) }
	for s, want := range map[*serving]float64{byFile: 2, byFlag: 3} {
		for s.breakerIs("closed") {
			if got := failures(s); got >= 5 {
				t.Fatalf("the breaker is closed after %v failures, want it open after %v", got, want)
			}
			if s.take("42") != http.StatusOK {
				t.Fatal("denied without Redis, although the limit has room")
			}
		}
		if got := failures(s); got < want {
			t.Errorf("the breaker opened after %v failures, want %v", got, want)
		}
	}
	testkit.Eventually(t, "many failures", func() bool {
		never.take("42")
		return failures(never) >= 20
	})
	if !never.breakerIs("closed") {
		t.Error("the breaker that a million failures open is not closed after twenty")
	}

	redis.Restart(t)
	testkit.Eventually(t, "the breaker that pings often is closed", func() bool { return byFile.breakerIs("closed") })
	if !byFlag.breakerIs("open") || byFlag.metric("stint_store_call_duration_seconds_count", `op="ping"`) != 0 {
		t.Error("the breaker that is to ping after a day has done so")
	}
}

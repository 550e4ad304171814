package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// TestLimits runs the limits commands and raise on a server.
func TestLimits(t *testing.T) {
	token := testkit.TempFile(t, "tokens", "alice: token-of-alice-and-more\n")
	where := "http://" + serving(t, server.Config{Policies: example, AdminTokens: token})
	stdin := ""
	do := func(args ...string) result {
		return execute(t, stdin, append(args, "--server", where, "--token-file", token)...)
	}
	want := func(got result, code int, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if got.code != code || !strings.Contains(got.stdout+got.stderr, text) {
				t.Errorf("exit code %d, errors %q, output:\n%s\nwant %d, %q", got.code, got.stderr, got.stdout, code, text)
			}
		}
	}
	want(do("limits", "list"), exitGood, "there are no overrides\n")
	want(do("limits", "show", "user:42"), exitGood, "user:42 has the configured limits\n")
	set := []string{"limits", "set", "user:42", "--policy", "simulation", "500/1m", "--until", "2099-12-31T18:00:00Z",
		"--why", "TICKET-7"}
	want(do(set...), exitGood, "user:42 has 500/1m under simulation until Thu 2099-12-31 ", ", in ")
	want(do("limits", "show", "user:42"), exitGood, "user:42  simulation  500/1m  2099-12-31T18:00:00Z  alice  TICKET-7")
	want(do("limits", "list", "user:"), exitGood, "user:42  simulation  500/1m  2099-12-31T18:00:00Z  alice  TICKET-7")
	want(do("limits", "list", "ip:"), exitGood, "there are no overrides\n")
	want(do("inspect", "user:42", "--policy", "simulation"), exitGood, "simulation", "500/1m",
		"override instead of 10/1m, until Thu 2099-12-31 18:00", "by alice: TICKET-7")
	want(do("limits", "list", "--json"), exitGood, `"500/1m"`)

	// raise multiplies the configured limits of the policy that --policy names, or of the policy
	// with the highest share used.
	want(do("raise", "user:42", "--by", "5x", "--until", "1h"), exitBad,
		"user:42 has used nothing", "want --policy with one of ", "simulation")
	want(do("raise", "user:42", "--by", "1x", "--until", "1h"), exitUsage,
		"want a number above 1 and up to 1000, such as 5x")
	want(do("raise", "user:43", "--by", "5x", "--until", "2099-12-31T18:00:00Z", "--policy", "simulation",
		"--why", "TICKET-8"), exitGood, "user:43 has 50/1m", "under simulation until Thu 2099-12-31 ")
	want(do("take", "user:43", "--policy", "simulation"), exitGood, "of 50")
	want(do("raise", "user:43", "--by", "2.5x", "--until", "2099-12-31T18:00:00Z"), exitGood,
		"user:43 has 25/1m", "under simulation")
	want(do("limits", "unset", "user:43", "--policy", "simulation"), exitGood, "user:43 has the configured limits under simulation\n")

	exported := do("limits", "export")
	want(exported, exitGood, `{"subject":"user:42","policy":"simulation","limits":["500/1m"],"until":"2099-12-31T18:00:00Z","why":"TICKET-7","by":"alice",`)
	want(do("limits", "unset", "user:42", "--policy", "simulation"), exitGood, "user:42 has the configured limits under simulation\n")
	want(do("limits", "unset", "user:42", "--policy", "simulation"), exitUsage, `"user:42" has no override`)
	stdin = exported.stdout
	want(do("limits", "import", "-"), exitGood, "1 override is imported\n")
	want(do("limits", "list"), exitGood, "TICKET-7")
	stdin = "{}\n"
	want(do("limits", "import", "-"), exitBad, "<stdin>: line 1: the subject has 0 bytes")

	// Error messages say how to fix the mistake.
	for text, args := range map[string][]string{
		`unknown policy or tier "nothing"; want`: {"limits", "set", "user:42", "--policy", "nothing",
			"5/1h", "--until", "1h"},
		"simulation has no limit like 5/1s; want the name, algorithm and window of one of": {"limits", "set", "user:42", "--policy",
			"simulation", "5/1s", "--until", "1h"},
		"and the larger limit applies; want more, or allow a lower limit (--lower)": {"limits", "set", "user:42", "--policy", "simulation",
			"5/1m", "--until", "1h"},
		"--until=WHEN": {"limits", "set", "user:42", "--policy", "simulation", "500/1m"},
		`invalid time "yesterday"; want a day, a time or a duration, such as friday`: {"limits", "set", "user:42", "--policy",
			"simulation", "500/1m", "--until", "yesterday"},
	} {
		want(do(args...), exitUsage, text)
	}

	// Other commands read the exported file, too.
	file := testkit.TempFile(t, "overrides.jsonl", exported.stdout)
	want(execute(t, "", "config", "explain", example, "--request", "POST /api/simulation/start", "--claim", "user=42",
		"--claim", "plan=free", "--overrides", file), exitGood,
		"user:42:simulation: an override instead of 10/1m, until Thu 2099-12-31 18:00", "by alice: TICKET-7")
	log := testkit.TempFile(t, "access.log", "")
	want(execute(t, "", "simulate", "--config", example, "--overrides", testkit.TempFile(t, "wrong.jsonl",
		strings.Replace(exported.stdout, "simulation", "simulatio", 1)), log), exitUsage,
		`unknown policy or tier "simulatio"; want`)
}

// TestUntil checks that a day means the midnight at its end, in the local time zone.
func TestUntil(t *testing.T) {
	berlin := testkit.Must(time.LoadLocation("Europe/Berlin"))(t)
	now := time.Date(2026, 10, 21, 15, 4, 5, 6, berlin) // a Wednesday
	for text, want := range map[string]string{
		"friday":               "2026-10-24T00:00:00+02:00",
		"Fri":                  "2026-10-24T00:00:00+02:00",
		"wednesday":            "2026-10-22T00:00:00+02:00",
		"tuesday":              "2026-10-28T00:00:00+01:00", // after the end of daylight saving time
		"today":                "2026-10-22T00:00:00+02:00",
		"tomorrow":             "2026-10-23T00:00:00+02:00",
		"2026-10-25":           "2026-10-26T00:00:00+01:00",
		"2026-11-20T18:00":     "2026-11-20T18:00:00+01:00",
		"2026-11-20 18:00":     "2026-11-20T18:00:00+01:00",
		"2026-11-20T18:00:00Z": "2026-11-20T19:00:00+01:00",
		"36h":                  "2026-10-23T03:04:05+02:00",
		"7d":                   "2026-10-28T14:04:05+01:00",
		"1d12h":                "2026-10-23T03:04:05+02:00",
		"never":                "0001-01-01T00:53:28+00:53",
	} {
		got, err := parseUntil(text, now)
		if err != nil || got.In(berlin).Format(time.RFC3339) != want {
			t.Errorf("%s: got %s, %v, want %s", text, got.In(berlin).Format(time.RFC3339), err, want)
		}
	}
	for text, want := range map[string]string{
		"":           "such as friday",
		"next week":  "such as friday",
		"2026-10-20": "is in the past",
		"2026-13-01": "such as friday",
		"366d1ms":    "such as friday",
		"1d-2h":      "such as friday",
		"12h1d":      "such as friday",
		"1.0005ms":   "such as friday",
	} {
		if _, err := parseUntil(text, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

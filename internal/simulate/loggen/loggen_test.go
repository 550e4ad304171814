package loggen

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

func TestSameOptionsSameLog(t *testing.T) {
	first := generate(t, Options{Seed: 7, Lines: 5000})
	if first != generate(t, Options{Seed: 7, Lines: 5000}) {
		t.Error("the same options made two logs")
	}
	if first == generate(t, Options{Seed: 8, Lines: 5000}) {
		t.Error("two seeds made the same log")
	}
}

func TestNumberOfLines(t *testing.T) {
	for _, o := range []Options{
		{Lines: 1},
		{Lines: 10_000},
		{Lines: 999, Span: time.Minute, Users: 1},
		{Lines: 5000, Span: 14 * 24 * time.Hour, JSON: true},
		{Lines: 3000, Span: 2 * time.Hour, From: time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)},
	} {
		if got := strings.Count(generate(t, o), "\n"); got != o.Lines {
			t.Errorf("%+v: got %d lines", o, got)
		}
	}
}

func TestLinesOfJSON(t *testing.T) {
	last := ""
	for line := range strings.Lines(generate(t, Options{Lines: 3000, JSON: true})) {
		var fields struct{ Time, Client, Path, Plan string }
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if fields.Time < last || fields.Client == "" || !strings.HasPrefix(fields.Path, "/") {
			t.Fatalf("got %s after %s", line, last)
		}
		last = fields.Time
	}
}

// What makes the log worth looking at is in it.
func TestWhoIsThere(t *testing.T) {
	log := generate(t, Options{Lines: 50_000})
	night, day := strings.Count(log, "/2026:04:"), strings.Count(log, "/2026:15:")
	crawler, attack := strings.Count(log, "shelfbot/2"), strings.Count(log, "POST /login")
	if night == 0 || day < 2*night {
		t.Errorf("got %d lines at night and %d by day", night, day)
	}
	if crawler != 2000 || attack != 1500 {
		t.Errorf("got %d lines of the crawler and %d of the attack", crawler, attack)
	}
	most := strings.Count(log, " user-0 ") + strings.Count(log, " user-1 ") + strings.Count(log, " user-2 ")
	least := strings.Count(log, " user-1997 ") + strings.Count(log, " user-1998 ") + strings.Count(log, " user-1999 ")
	if most < 20*(least+1) {
		t.Errorf("got %d lines of the first users and %d of the last", most, least)
	}
}

func TestWrongOptions(t *testing.T) {
	for _, o := range []Options{{Lines: -1}, {Span: time.Second}, {Span: 90 * time.Second}, {Users: -1}} {
		if err := Generate(io.Discard, o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
}

func generate(t *testing.T, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Generate(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

package accesslog

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

func TestDetect(t *testing.T) {
	const common = `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`
	const combined = common + ` "-" "curl/8.5.0"`
	for _, test := range []struct {
		want  string
		lines []string
	}{
		{"combined", []string{combined}},
		{"combined", []string{common}},
		{"combined", []string{"# a comment", `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "-" 408 0 "-" "-"`, combined}},
		{"caddy", []string{`{"level":"info","ts":1646861401,"msg":"serving"}`, caddyLine}},
		{"caddy", []string{`{"level":"info","ts":1646861401,"path":"/etc/caddy"}`, caddyLine}},
		{"envoy", []string{istioLine}},
		{"envoy", []string{gatewayLine}},
		{"envoy", []string{"[2020-11-25 21:26:18.409][1][info] starting", envoyTextLine}},
		{"envoy", []string{istioTextLine}},
		{"traefik", []string{traefikLine}},
		{"combined", []string{traefikLine, combined + ` 1 "web@file" "http://10.0.0.1" 2ms`}},
		{"traefik", []string{common, traefikLine}},
		{"json", []string{nginxLine}},
	} {
		d := mustDetect(t, test.lines...)
		if got := detected[d.last]; !d.found || d.unknown() != nil || got != test.want &&
			!(got == "traefik" && test.want == "combined") {
			t.Errorf("%s: got %v, %v, want %s", test.lines, got, d.unknown(), test.want)
		}
	}
}

// mustDetect returns a detector that has read these lines.
func mustDetect(t *testing.T, lines ...string) *detector {
	t.Helper()
	d := testkit.Must(newDetector())(t)
	for _, line := range lines {
		_ = d.Parse([]byte(line), new(Record)) // malformed lines are part of the tests
	}
	return d
}

func TestDetectMistakes(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"hello", `unknown format; if this is an access log, specify its format with --format (combined, common, envoy, ` +
			`traefik, caddy, json); not combined: no time in brackets after client, identity and user; the first line is: hello`},
		{`{"when":1}`, `JSON with unknown keys (no valid time at time, timestamp, @timestamp, ts, time_iso8601, time_local, msec); ` +
			`want --map with the keys of the fields, such as --map time=ts,client=ip,path=url; the first line is: {"when":1}`},
	} {
		if err := mustDetect(t, test.line, "more").unknown(); err == nil || err.Error() != test.want {
			t.Errorf("got\n%v, want\n%s", err, test.want)
		}
	}
}

// TestDetectLate: the format is found after thousands of other lines, and may change later.
func TestDetectLate(t *testing.T) {
	banner := strings.Repeat("# this log was copied on a Monday\n", 5000)
	got, stats := readAll(t, []string{banner + logOf(100) + "what?\n" + traefikLine + "\n" + logOf(1606339579)},
		Options{})
	if want := "100/0 1606339578/a 1606339579/0"; strings.Join(got, " ") != want || stats.Malformed != 5001 {
		t.Errorf("got %v, %d malformed; want %s", got, stats.Malformed, want)
	}
	_, err := Open(writeLogs(t, []string{strings.Repeat(banner, 3) + logOf(100)}), Options{})
	if err == nil || !strings.Contains(err.Error(), "if this is an access log, specify its format with --format") {
		t.Errorf("got %v; want that the format is unknown", err)
	}
}

// TestExcerpt: an excerpt is part of the line, and can be printed.
func TestExcerpt(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"hello", "hello"},
		{"a\tlonger part\x00 b", "longer part"},
		{"\x16\x03\x01 \\x16 \"caf\u00e9\"\xff", `\x16 "café"`},
		{"\u202edlrow", "dlrow"},
		{strings.Repeat("é", 1000), strings.Repeat("é", 80)},
		{"\x00", ""},
	} {
		if got := excerpt([]byte(test.line)); got != test.want {
			t.Errorf("%q: got %q, want %q", test.line, got, test.want)
		}
	}
}

func TestNewFormat(t *testing.T) {
	for _, name := range formats {
		if _, err := NewFormat(name, Mapping{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := testkit.Must(ParseMapping("time=t"))(t)
	for _, test := range []struct {
		name    string
		mapping Mapping
		want    string
	}{
		{"combned", Mapping{}, `accesslog: unknown format "combned" (did you mean "combined"?); want combined, common, envoy, traefik, caddy, json`},
		{"common", m, "accesslog: a mapping applies only to JSON lines; the common format has none"},
	} {
		if _, err := NewFormat(test.name, test.mapping); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
}

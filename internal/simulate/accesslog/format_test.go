package accesslog

import (
	"strings"
	"testing"
)

func TestDetect(t *testing.T) {
	const common = `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`
	const combined = common + ` "-" "curl/8.5.0"`
	for _, test := range []struct {
		want  string
		lines []string
	}{
		{"combined", []string{combined}},
		{"common", []string{common}},
		{"common", []string{common, common, combined}},
		{"combined", []string{"# a comment", `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "-" 408 0 "-" "-"`, combined}},
		{"caddy", []string{`{"level":"info","ts":1646861401,"msg":"serving"}`, caddyLine}},
		{"envoy", []string{istioLine}},
		{"envoy", []string{gatewayLine}},
		{"json", []string{nginxLine}},
	} {
		format, err := detect(linesOf(test.lines...))
		if err != nil || format.String() != test.want {
			t.Errorf("%s: got %v, %v, want %s", test.lines, format, err, test.want)
		}
	}
}

func TestDetectMistakes(t *testing.T) {
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{[]string{"hello"}, `unknown format (not common: no time in brackets after client, identity and user); ` +
			`want combined, common, caddy, envoy, json; the first line is "hello"`},
		{[]string{`{"when":1}`}, `JSON with unknown keys (no valid time at time, timestamp, @timestamp, ts, time_iso8601, time_local, msec); ` +
			`want a mapping that says where the fields are; the first line is "{\"when\":1}"`},
		{[]string{strings.Repeat("é", 1000)}, "éé…\""},
	} {
		if _, err := detect(linesOf(test.lines...)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got\n%v, want\n%s", err, test.want)
		}
	}
}

func TestNewFormat(t *testing.T) {
	for _, name := range formats {
		if format, err := NewFormat(name, Mapping{}); err != nil || format.String() != name {
			t.Errorf("%s: got %v, %v", name, format, err)
		}
	}
	m, err := ParseMapping("time=t")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		mapping Mapping
		want    string
	}{
		{"combned", Mapping{}, `accesslog: there is no format "combned" (did you mean "combined"?); want combined, common, caddy, envoy, json`},
		{"common", m, "accesslog: a mapping is for lines of JSON; the common format has none"},
	} {
		if _, err := NewFormat(test.name, test.mapping); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
}

func linesOf(lines ...string) [][]byte {
	var list [][]byte
	for _, line := range lines {
		list = append(list, []byte(line))
	}
	return list
}

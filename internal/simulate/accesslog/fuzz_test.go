package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/clientip"
)

// FuzzLine reads any line.
func FuzzLine(f *testing.F) {
	for _, test := range lineTests {
		f.Add([]byte(test.line))
	}
	for _, test := range brokenLines {
		f.Add([]byte(test.line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var r Record
		for _, format := range []Format{lineFormat{}, envoyText{}} {
			if err := format.Parse(line, &r); err == nil {
				check(t, &r)
			}
		}
	})
}

// FuzzWritten writes a record like a server and reads it back.
func FuzzWritten(f *testing.F) {
	f.Add(int64(1646861401), []byte{192, 0, 2, 1}, "ann", "a b/é%2F", uint16(200), int64(7), "https://shop.example",
		`say "hi" \ `)
	f.Add(int64(0), []byte{0x20, 1, 0xd, 0xb8, 11: 1, 15: 9}, "Ann of Green", "", uint16(0), int64(-1), "\xff\n",
		"\\x41")
	f.Add(int64(1<<33), []byte{}, " - [", "?#", uint16(999), int64(1)<<60, "-", "")
	f.Fuzz(func(t *testing.T, second int64, client []byte, user, path string, status uint16, size int64, referrer,
		agent string) {
		addr, _ := netip.AddrFromSlice(client)
		if addr.IsValid() {
			addr = clientip.ParsePeer(addr.String())
		}
		want := Record{
			At: int64(uint64(second)%9e9) * 1e9, Client: addr, User: strings.ReplaceAll(user, "[", ""), Method: "GET",
			Path: "/" + path, Status: int(status % 1000), Bytes: int64(uint64(size) % 1e18),
		}
		want.addHeader("Referer", referrer)
		want.addHeader("User-Agent", agent)
		if want.User == "-" {
			want.User = ""
		}
		var r Record
		line := writeLine(&want)
		if err := (lineFormat{}).Parse([]byte(line), &r); err != nil {
			t.Errorf("%q: %v", line, err)
		} else if got := plain(r); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got\n%+v, want\n%+v", line, got, want)
		}
		if !utf8.ValidString(want.User) || !utf8.ValidString(referrer) || !utf8.ValidString(agent) {
			return // no text of JSON
		}
		line = writeJSON(t, &want)
		caddy, err := NewFormat("caddy", Mapping{})
		if err != nil {
			t.Fatal(err)
		}
		if err := caddy.Parse([]byte(line), &r); err != nil {
			t.Errorf("%q: %v", line, err)
		} else if got := plain(r); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got\n%+v, want\n%+v", line, got, want)
		}
	})
}

// writeLine writes a record like Apache and nginx.
func writeLine(r *Record) string {
	client, user := "-", "-"
	if r.Client.IsValid() {
		client = r.Client.String()
	}
	if r.User != "" {
		user = escape(r.User)
	}
	return fmt.Sprintf(`%s - %s [%s] "%s %s HTTP/1.1" %d %d "%s" "%s"`, client, user,
		time.Unix(0, r.At).UTC().Format("02/Jan/2006:15:04:05 -0700"), r.Method,
		escape((&url.URL{Path: r.Path}).EscapedPath()),
		r.Status, r.Bytes, escape(header(r, "Referer")), escape(header(r, "User-Agent")))
}

func header(r *Record, name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return "-"
}

// writeJSON writes a record like Caddy.
func writeJSON(t *testing.T, r *Record) string {
	client := ""
	if r.Client.IsValid() {
		client = r.Client.String()
	}
	line, err := json.Marshal(map[string]any{
		"ts": r.At / 1e9, "user_id": r.User, "status": r.Status, "size": r.Bytes,
		"request": map[string]any{
			"client_ip": client, "method": r.Method, "uri": (&url.URL{Path: r.Path}).EscapedPath(),
			"headers": map[string][]string{"Referer": {header(r, "Referer")}, "User-Agent": {header(r, "User-Agent")}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// escape escapes bytes that would break a line, like servers do.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c == '"' || c == '\\' || c < ' ' || c > '~' {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// FuzzJSON reads any line twice in each JSON format. The first time must not affect the second.
func FuzzJSON(f *testing.F) {
	for _, test := range jsonTests {
		f.Add([]byte(test.line))
	}
	formats := []Format{mustFormat(f, "caddy", "claim:plan=plan"), mustFormat(f, "envoy", ""),
		mustFormat(f, "json", "headers=h,claim:x=a.b")}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, format := range formats {
			var r, again Record
			err := format.Parse(line, &r)
			if errAgain := format.Parse(line, &again); errAgain != err || !reflect.DeepEqual(plain(r), plain(again)) {
				t.Fatalf("%v: got %+v, %v, then %+v, %v", format, r, err, again, errAgain)
			}
			if err != nil {
				continue
			}
			check(t, &r)
			if !json.Valid(line) && (format != formats[1] || bytes.HasPrefix(line, []byte("{"))) {
				t.Errorf("%v: %q was read", format, line)
			}
		}
	})
}

// FuzzValues splits any valid array like package encoding/json.
func FuzzValues(f *testing.F) {
	f.Add([]byte(`[1, "a]\"", [], {"b":[{}]}, null,-1.5e3 ]`))
	f.Add([]byte(`["a"]`))
	f.Fuzz(func(t *testing.T, array []byte) {
		var want []json.RawMessage
		if len(array) == 0 || array[0] != '[' || json.Unmarshal(array, &want) != nil {
			return
		}
		value, rest := cutValue(array[1:])
		for i := range want {
			if string(value) != string(want[i]) {
				t.Errorf("%q: value %d: got %q, want %q", array, i, value, want[i])
			}
			value, rest = cutValue(rest)
		}
		if len(value) > 0 {
			t.Errorf("%q: got %q after the last one", array, value)
		}
	})
}

// FuzzTarget reads any target like package net/url.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "/a%2fb", "/a%20b", "/a b?c", "/%e9", "/%C3%A9", "/é", "/a(b)*'!", "//a", "/a?b?c",
		"/?", "/#", "http://a/b", "*", "/%", "/\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		var r Record
		err := r.readTarget(target)
		u, errURL := url.ParseRequestURI(target)
		if (err == nil) != (errURL == nil) {
			t.Fatalf("%q: got %v, net/url says %v", target, err, errURL)
		}
		if err == nil && (r.Path != u.Path || r.RawPath != u.RawPath) {
			t.Errorf("%q: got %q, %q, want %q, %q", target, r.Path, r.RawPath, u.Path, u.RawPath)
		}
	})
}

// FuzzTime reads any text. The result agrees with package time if that can read it too.
func FuzzTime(f *testing.F) {
	for _, test := range times {
		f.Add(test.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, ok := parseTime(text)
		if ok && at < 0 {
			t.Errorf("%q: got %d", text, at)
		}
		if want, err := time.Parse("02/Jan/2006:15:04:05 -0700", text); ok && err == nil && at != want.UnixNano() {
			t.Errorf("%q: got %d, want %d", text, at, want.UnixNano())
		}
	})
}

// FuzzClient reads IPv4 addresses like package netip.
func FuzzClient(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "0.0.0.0", "255.255.255.255", "256.0.0.1", "01.2.3.4", "1.2.3", "1.2.3.4.5",
		"1..2.3", "1.2.3.4:5", "::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseIPv4(s)
		want, err := netip.ParseAddr(s)
		if (err == nil && want.Is4()) != ok || ok && got != want {
			t.Errorf("%q: got %v, %v, want %v, %v", s, got, ok, want, err)
		}
	})
}

// check fails the test if a record is impossible.
func check(t *testing.T, r *Record) {
	t.Helper()
	if r.At < 0 || r.Status < 0 || r.Status > 999 || r.Bytes < 0 || r.Client.IsValid() &&
		clientip.ParsePeer(r.Client.String()) != r.Client {
		t.Errorf("got %+v", r)
	}
	for _, h := range r.Headers {
		if h.Name == "" || h.Value == "" {
			t.Errorf("a header without a name or a value: %+v", r)
		}
	}
}

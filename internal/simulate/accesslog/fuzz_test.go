package accesslog

import (
	"bytes"
	"encoding/json"
	"net/url"
	"reflect"
	"testing"

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

package accesslog

import (
	"cmp"
	"fmt"
	"testing"
	"time"
)

// lineTests are lines in the common or the combined format.
var lineTests = []struct{ name, line, want string }{
	{"common", `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`,
		`127.0.0.1 GET /apache_pb.gif 200 2326 user="frank"`},
	{"no size", `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "HEAD / HTTP/1.1" 304 -`, `192.0.2.1 HEAD / 304 0`},
	{"combined", `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "POST /a?b=c HTTP/2.0" 201 7 "https://shop.example/?a" "curl/8.5.0"`,
		`192.0.2.1 POST /a 201 7 Referer="https://shop.example/?a" User-Agent="curl/8.5.0"`},
	{"IPv6 client", `2001:db8::7 - - [11/Oct/2000:02:25:36 +0530] "GET / HTTP/1.1" 200 1 "-" "curl/8.5.0"`,
		`2001:db8::7 GET / 200 1 User-Agent="curl/8.5.0"`},
	{"a host before it", `shop.example:443 192.0.2.1 - ann [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`,
		`192.0.2.1 GET / 200 1 user="ann" host="shop.example:443"`},
	{"a host that is an address", `[2001:db8::1]:443 192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`,
		`192.0.2.1 GET / 200 1 host="[2001:db8::1]:443"`},
	{"a host that could be a client", `198.51.100.1 192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`,
		`192.0.2.1 GET / 200 1 host="198.51.100.1"`},
	{"an unknown host", `- 192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`, `192.0.2.1 GET / 200 1`},
	{"a user with spaces", `192.0.2.1 - Ann of Green [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`,
		`192.0.2.1 GET / 200 1 user="Ann of Green"`},
	{"an unknown client", `- - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`, `- GET / 200 1`},
	{"a client by its name", `Dialup-7.example.com - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`,
		`fc01:371c:4685:4f9c:: GET / 200 1 name="Dialup-7.example.com"`},
	{"a host and a client by its name", `shop.example dialup-7.example.com - ann [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`,
		`fc01:371c:4685:4f9c:: GET / 200 1 name="dialup-7.example.com" user="ann" host="shop.example"`},
	{"a client by its name, and a user with spaces", `dialup-7.example.com - Ann of Green [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`,
		`fc01:371c:4685:4f9c:: GET / 200 1 name="dialup-7.example.com" user="Ann of Green"`},
	{"a Unix socket", `unix: - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`, `- GET / 200 1`},
	{"quotes and backslashes", `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET /\"\x22\\ HTTP/1.1" 200 1 "\t" "a \"b\" \q\x4"`,
		`192.0.2.1 GET /""\ 200 1 raw="/\"\"\\" Referer="\t" User-Agent="a \"b\" \\q\\x4"`},
	{"bytes that nginx escapes", `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET /caf\xC3\xA9 HTTP/1.1" 200 1 "-" "-"`,
		`192.0.2.1 GET /café 200 1 raw="/café"`},
	{"the client behind a proxy, as nginx's main format has it", `10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-" "192.0.2.1, 10.0.0.2"`,
		`10.0.0.1 GET / 200 1 X-Forwarded-For="192.0.2.1, 10.0.0.2"`},
	{"something else at the end", `10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-" "gzip" 0.004 0.003`,
		`10.0.0.1 GET / 200 1`},
	{"half a user agent", `10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "Moz`, `10.0.0.1 GET / 200 1`},
	{"Traefik, which escapes nothing", `192.0.2.7 - - [10/Oct/2000:20:55:36 +0000] "GET /a\b"c HTTP/1.1" 404 19 "-" "evil\" 42 "web@docker" "http://10.0.0.1:80" 12ms`,
		`192.0.2.7 GET /a\b"c 404 19 raw="/a\\b\"c" User-Agent="evil\\"`},
	{"Traefik, with quotes in a user agent", `192.0.2.7 - ann [10/Oct/2000:20:55:36 +0000] "GET / HTTP/2.0" 200 19 "https://a/\x" "say "hi", \"you\"" 42 "-" "-" 0ms`,
		`192.0.2.7 GET / 200 19 user="ann" Referer="https://a/\\x" User-Agent="say \"hi\", \\\"you\\\""`},
	{"a whole URL", `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET http://shop.example:8080/a%2fb?q HTTP/1.1" 200 1`,
		`192.0.2.1 GET /a/b 200 1 host="shop.example:8080" raw="/a%2fb"`},
	{"an authority", `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "CONNECT shop.example:443 HTTP/1.1" 200 1`,
		`192.0.2.1 CONNECT - 200 1 host="shop.example:443"`},
	{"the server as a whole", `192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "OPTIONS * HTTP/1.1" 200 1`, `192.0.2.1 OPTIONS * 200 1`},
}

var brokenLines = []struct {
	line string
	want reason
}{
	{``, noTime},
	{`hello`, noTime},
	{`[10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`, noTime},
	{`192.0.2.1 [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`, noTime},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000`, noTime},
	{`192.0.2.1 - - [yesterday] "GET / HTTP/1.1" 200 1`, brokenTime},
	{`300.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`, brokenClient},
	{`web1 nginx 192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`, brokenClient},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] GET / HTTP/1.1 200 1`, unquoted},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1 200 1`, unquoted},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "-" 408 0 "-" "-"`, noRequest},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "" 400 0 "-" "-"`, noRequest},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET /" 200 1 "-" "-"`, brokenRequest},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET /a b HTTP/1.1" 200 1 "-" "-"`, brokenRequest},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "\x16\x03\x01 \x00 \xFF" 400 1 "-" "-"`, brokenRequest},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "G(T / HTTP/1.1" 400 1 "-" "-"`, brokenMethod},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET /%zz HTTP/1.1" 400 1 "-" "-"`, brokenTarget},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET /%2 HTTP/1.1" 400 1 "-" "-"`, brokenTarget},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET /?\n HTTP/1.1" 400 1 "-" "-"`, brokenTarget},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET a HTTP/1.1" 400 1 "-" "-"`, brokenTarget},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1"`, noStatus},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 2000 1 "-" "-"`, noStatus},
	{`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 one "-" "-"`, noStatus},
}

func TestLineFormat(t *testing.T) {
	at := time.Date(2000, time.October, 10, 20, 55, 36, 0, time.UTC).UnixNano()
	var r Record // used again and again
	for _, test := range lineTests {
		if err := (lineFormat{}).Parse([]byte(test.line), &r); err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else if got := describe(&r); got != test.want || r.At != at {
			t.Errorf("%s: got\n%s at %d, want\n%s", test.name, got, r.At, test.want)
		}
	}
}

func TestBrokenLines(t *testing.T) {
	var r Record
	for _, test := range brokenLines {
		if got := (lineFormat{}).Parse([]byte(test.line), &r); got != error(test.want) {
			t.Errorf("%s: got %v, want %v", test.line, got, test.want)
		}
	}
}

// describe tells what a record has: the client, the method, the path, the status, the length, and whatever else.
func describe(r *Record) string {
	client := "-"
	if r.Client.IsValid() {
		client = r.Client.String()
	}
	text := fmt.Sprint(client, " ", cmp.Or(r.Method, "-"), " ", cmp.Or(r.Path, "-"), " ", r.Status, " ", r.Bytes)
	more := []Field{{"name", r.ClientName}, {"user", r.User}, {"host", r.Host}, {"raw", r.RawPath}}
	more = append(more, r.Headers...)
	for _, c := range r.Claims {
		more = append(more, Field{"claim:" + c.Name, c.Value})
	}
	for _, f := range more {
		if f.Value != "" {
			text += fmt.Sprintf(" %s=%q", f.Name, f.Value)
		}
	}
	return text
}

// plain returns a record without its memory, and with nil for empty lists.
func plain(r Record) Record {
	r.memory = nil
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	if len(r.Claims) == 0 {
		r.Claims = nil
	}
	return r
}

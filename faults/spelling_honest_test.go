package faults

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// oddity is an honest request that looks like none, and reaches the application as it is.
type oddity struct {
	method, target string
	host           string // "" is the usual one
	field          string // a line of the header, or ""
	body           string
	refused        []string // by these proxies, whatever stint says
	changed        []string // by these proxies, or answered by themselves
}

var oddities = slices.Concat(
	get(
		// joined URLs
		"//a/b", "//a//b", "/a//b", "/a///", "//", "///a", "//a", "//a:b/c", "//@a/b",
		// addresses of other servers
		"/https://example.com/x", "/https:/example.com/x", "/http://user@example.com:8080/a?b=c",
		"/proxy/https%3A%2F%2Fexample.com%2Fx", "/fetch/https://example.com/a;b?c=d",
		// keys of objects
		"/bucket/my%20file.txt", "/bucket/a%2Fb%2Fc.txt", "/bucket/a%2fb", "/bucket/%2Fa", "/bucket/a%2F",
		"/bucket/a%5Cb", "/bucket/a%23b", "/bucket/a%3Fb", "/bucket/a%3Bb", "/bucket/100%25", "/bucket/a+b",
		"/bucket/a,b", "/bucket/a:b", "/bucket/a@b", "/bucket/~a", "/bucket/(1)!.txt", "/bucket/'a'", "/bucket/a=b&c",
		"/bucket/a$b*c", "/bucket/[1].txt", "/bucket/a%7Cb", "/bucket/%22a%22", "/bucket/a%0Ab", "/bucket/a%09b",
		"/bucket/a%2Fb%20c", "/bucket/%E2%82%AC", "/bucket/%F0%9F%98%80", "/bucket/%FF%FE", "/bucket/a%2F%2Fb",
		// dots
		"/a/..b", "/a/b..", "/a/...", "/a/....", "/a/.hidden", "/a/b.", "/a/..b/c", "/.well-known/acme-challenge/x",
		"/a/.../b", "/a/v1..v2", "/a/b.c/", "/...",
		// parameters
		"/a;v=1/b", "/a;v=1?x=y", "/cars;color=red;year=2012", "/a;", "/a/;b/c", "/a,b;c/d",
		// queries
		"/?", "/a?", "/a??b", "/a?q=a%20b&q=%23", "/a?q=a+b", "/a?next=//x/login", "/a?next=https://x/y?z",
		"/a?a[]=1&b={x}", "/a?q=a|b", "/a?q=^", "/a?q='\"'", "/a?a;b", "/a?q=%zz", "/a?q=%", "/a?q=..%2f..", "/a?/../b",
		`/a?q=a\b`, "/a?jwt=a.b-c_d~e",
		// long
		"/"+strings.Repeat("a/", 2000), "/a?q="+strings.Repeat("b", 4000), "/"+strings.Repeat("%20", 1000),
	),
	asked("patch", "get", "Delete").unless("nginx"), // which knows capitals only
	asked("HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "PROPPATCH", "MKCOL", "REPORT", "PURGE", "QUERY",
		"LINK", "M-SEARCH", "SUBSCRIBE", "ACL", "FOO"),
	[]oddity{
		{method: "POST", target: "/a", field: "X-HTTP-Method-Override: PATCH"},
		{method: "POST", target: "/a", field: "X-Method-Override: delete", body: "a=b"},
		{method: "POST", target: "/login", body: "name=a&password=b"}, // the first one
		{method: "POST", target: "/a", field: "Transfer-Encoding: chunked", body: "a=b"},
		{method: "GET", target: "/a", host: "APP.example.com"},
		{method: "GET", target: "/a", host: "app.example.com."},
		{method: "GET", target: "/a", host: "app.example.com:8000"},
		{method: "GET", target: "/a", host: "app.example.com.:8000"},
		{method: "GET", target: "/a", host: "my_app"},
		{method: "GET", target: "/a", host: "127.0.0.1:8000"},
		{method: "GET", target: "/a", host: "[::1]:8000"},
		{method: "GET", target: "/a", host: "xn--bcher-kva.example"},
		{method: "GET", target: "/events", field: "Accept: text/event-stream"},
		{method: "GET", target: "//events", field: "Accept: text/event-stream"},
		// Not quite URLs, and sent by many clients all the same. What is built on net/url encodes
		// them.
		{method: "GET", target: "/bucket/a|b"},
		{method: "GET", target: "/bucket/{a}"},
		{method: "GET", target: "/bucket/a^b"},
		{method: "GET", target: "/bucket/\"a\""},
		{method: "GET", target: "/bucket/<a>"},
		{method: "GET", target: "/bucket/`a`"},
		{method: "GET", target: "/bucket/a%2Fb|c", changed: []string{"caddy"}}, // to two segments
		{method: "GET", target: "/b\xc3\xbccher", refused: []string{"haproxy"}},
		{method: "GET", target: "/b\xc3\xbccher/a%2Fb", refused: []string{"haproxy"}, changed: []string{"caddy"}},
		{method: "GET", target: "/a?q=\xc3\xbc", refused: []string{"haproxy"}},
		// which answer it
		{method: "OPTIONS", target: "*", refused: []string{"nginx"}, changed: []string{"gateway", "caddy"}},
		{method: "GET", target: "http://app.example.com/a", changed: []string{"gateway", "nginx", "haproxy", "caddy"}},
	},
)

type oddityList []oddity

func get(targets ...string) oddityList {
	var list oddityList
	for _, target := range targets {
		list = append(list, oddity{method: http.MethodGet, target: target})
	}
	return list
}

func asked(methods ...string) oddityList {
	var list oddityList
	for _, method := range methods {
		list = append(list, oddity{method: method, target: "/a"})
	}
	return list
}

func (list oddityList) unless(proxies ...string) oddityList {
	for i := range list {
		list[i].refused = proxies
	}
	return list
}

// request is the oddity as it is sent.
func (o *oddity) request() string {
	host := o.host
	if host == "" {
		host = anyHost
	}
	fields := []string{"X-Honest: yes"}
	if o.field != "" {
		fields = append(fields, o.field)
	}
	head := spelledTo(host, o.method, o.target, fields...)
	if strings.HasPrefix(o.field, "Transfer-Encoding") {
		return strings.Replace(head, "Content-Length: 0\r\n", "", 1) +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(o.body), o.body)
	}
	return strings.Replace(head, "Content-Length: 0", fmt.Sprintf("Content-Length: %d", len(o.body)), 1) + o.body
}

// arrivesAs reports whether a request is the oddity, whole and unchanged.
func (o *oddity) arrivesAs(in *arrival) bool {
	return in.method == o.method && (in.target == o.target || in.target == encodePath(o.target)) && in.body == o.body &&
		len(in.header["x-honest"]) == 1
}

// beHonest has clients make odd requests, which are not limited.
func (f *front) beHonest(r *report) {
	inParallel(workers, len(oddities), func(_, i int) {
		o := &oddities[i]
		client, status, err := f.patiently(3, o.request())
		if refused := slices.Contains(o.refused, f.name); refused != (status != http.StatusOK) || err != nil {
			r.Errorf("%s: %s %.100q of %q: got %d, %v", f.name, o.method, o.target, o.host, status, err)
			return
		}
		if slices.Contains(o.refused, f.name) || slices.Contains(o.changed, f.name) {
			return
		}
		if got := f.tap.of(client); len(got) != 1 || !o.arrivesAs(got[0]) {
			r.Errorf("%s: %s %.100q arrives %d times, or as something else: %.200v", f.name, o.method, o.target, len(got), got)
		}
	})
	if f.name == "nginx" {
		return // which passes no upgrades as shipped
	}
	var err error
	for range tries {
		if err = f.upgrade(); err == nil {
			return
		}
	}
	r.Errorf("%s: a websocket: %v", f.name, err)
}

// encodePath encodes what a path has that no URL has.
func encodePath(target string) string {
	path, query, ok := strings.Cut(target, "?")
	var b strings.Builder
	for _, c := range []byte(path) {
		if c >= 0x80 || strings.IndexByte("|{}^\"<>`", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if ok {
		b.WriteString("?" + query)
	}
	return b.String()
}

// upgrade speaks through a websocket.
func (f *front) upgrade() error {
	const hello = "hello"
	conn, err := f.dial("127.3.200.1")
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET //socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"); err != nil {
		return err
	}
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("got %s", resp.Status)
	}
	if _, err := io.WriteString(conn, hello); err != nil {
		return err
	}
	echo := make([]byte, len(hello))
	if _, err := io.ReadFull(answers, echo); err != nil {
		return err
	}
	if string(echo) != hello {
		return fmt.Errorf("got %q", echo)
	}
	return nil
}

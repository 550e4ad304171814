package faults

import (
	"bufio"
	"strings"
	"sync"
	"testing"
)

// absoluteTargets are targets in absolute form, and what looks like it, that some application takes
// for /login: schemes by slashes by authorities.
func absoluteTargets() []string {
	var list []string
	for _, scheme := range []string{"http", "HTTP", "https", "ws", "x", "file", "1", ""} {
		for _, slashes := range []string{":", ":/", "://", ":///", ":////", `:\`, `:\\`, `:/\`, `://\`, "//"} {
			for _, authority := range []string{
				"", "x7", "app.example.com", "u@x7", "u:p@x7", "@", "x7:80", "x7:", ":80",
				"[::1]", "[::1]:80", "..", "x7;y", "x7%2f", "%2f", "x7,y", "x7?y", "x7#y",
			} {
				for _, path := range []string{
					"/login", "/x7/login", "//login", `\login`, "/static/../login", "/login/", "/login?z",
				} {
					target := scheme + slashes + authority + path
					if runsLogin(target) {
						list = append(list, target)
					}
				}
			}
		}
	}
	return list
}

func runsLogin(target string) bool {
	in, err := readArrival(bufio.NewReader(strings.NewReader(spelled("POST", target))))
	return err == nil && in.runs(login.resource) != ""
}

// absoluteHosts are requests that hide the host in a target in absolute form, or between it and the
// field of that name.
func absoluteHosts() []string {
	var list []string
	for _, target := range []string{
		"http:///", "http://", "http:/", "http:", "http:////", "HTTP:///", "https:///", "x:///", "http:///x", "http:/x",
		"http:x", "http://x", "http://x/", "http://:80/", "http://u@/", "http://@/", "http://x:80/", "http://?",
		"http://#", "http:///?y", "http://admin.example.com/", "http://admin.example.com",
		"http:///admin.example.com/", "http:/admin.example.com/", "http:admin.example.com/",
		`http:\\admin.example.com/`, "//admin.example.com/", "*", "admin.example.com:80", "x",
	} {
		for _, host := range []string{"admin.example.com", "x", "", "admin.example.com:80", "ADMIN.example.com."} {
			request := spelledTo(host, "GET", target)
			list = append(list, request, strings.Replace(request, "/1.1", "/1.0", 1))
		}
		list = append(list, "GET "+target+" HTTP/1.0\r\nConnection: close\r\n\r\n")
	}
	return list
}

// Whatever a target in absolute form says, the application runs what was decided on.
func TestF47AbsoluteTargets(t *testing.T) {
	r := &report{T: t}
	var list []spelling
	for _, target := range absoluteTargets() {
		list = append(list, spelling{login, spelled("POST", target)})
	}
	for _, request := range absoluteHosts() {
		list = append(list, spelling{admin, request})
	}
	if len(list) < 1000 {
		t.Fatalf("%d spellings, want 1000 or more", len(list))
	}
	var group sync.WaitGroup
	for i, f := range startFronts(r) {
		tried := everyNth(list, pick(1, 5))
		if i > 0 { // a proxy, which is slower, and in front of the same decisions
			tried = everyNth(list, pick(1, 31))
		}
		group.Go(func() { f.try(r, tried) })
	}
	group.Wait()
	t.Logf("%d spellings", len(list))
}

// everyNth returns every nth spelling.
func everyNth(list []spelling, n int) (some []spelling) {
	for i := 0; i < len(list); i += n {
		some = append(some, list[i])
	}
	return some
}

// try has a client use up each limit, and then try the spellings.
func (f *front) try(r *report, list []spelling) {
	clients := map[string]string{} // who has used up a limit, by the honest request
	for _, s := range list {
		if clients[s.of.honest] != "" {
			continue
		}
		client, err := f.useUp(1, len(clients), s.of)
		if err != nil {
			r.Errorf("%s: %q: %v", f.name, s.of.honest, err)
			return
		}
		clients[s.of.honest] = client
	}
	for _, s := range list {
		client := clients[s.of.honest]
		ran := len(f.application.of(client))
		_, _ = f.send(client, s.request) // whatever it is answered with, or not at all
		for _, in := range f.application.of(client)[ran:] {
			if how := in.runs(s.of.resource); how != "" {
				r.Errorf("%s: %q arrives as %q to %q and runs the handler for %s %s: %s", f.name, s.request,
					in.method+" "+in.target, in.hostFields(), s.of.method, s.of.host+s.of.path, how)
			}
		}
	}
	for _, in := range f.application.of("nobody") {
		r.Errorf("%s: %s %s arrives without the client's address", f.name, in.method, in.target)
	}
}

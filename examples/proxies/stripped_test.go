package proxies

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint/internal/testkit"
)

// notForClients are header fields that clients may not send.
var notForClients = strings.Fields(`
	Forwarded X-Forwarded X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto
	X-Forwarded-Access-Token X-Forwarded-By X-Forwarded-Client-Cert X-Forwarded-Email X-Forwarded-Groups X-Forwarded-Method
	X-Forwarded-Path X-Forwarded-Port X-Forwarded-Preferred-Username X-Forwarded-Prefix X-Forwarded-Protocol X-Forwarded-Scheme
	X-Forwarded-Server X-Forwarded-Ssl X-Forwarded-Tls-Client-Cert X-Forwarded-Tls-Client-Cert-Info X-Forwarded-Uri
	X-Forwarded-Url X-Forwarded-User
	CF-Connecting-IP CF-Connecting-IPv6 CF-Pseudo-IPv4 Client-IP Fastly-Client-IP Fly-Client-IP Proxy-Client-IP True-Client-IP
	WL-Proxy-Client-IP X-Appengine-User-IP X-Azure-ClientIP X-Azure-SocketIP X-Client-IP X-Cluster-Client-IP X-Originating-IP
	X-Real-IP X-Remote-Addr X-Remote-IP X-Envoy-External-Address X-Envoy-Internal
	X-Envoy-Original-Host X-Envoy-Original-Path X-Original-Forwarded-For X-Original-Host X-Original-Method X-Original-Proto
	X-Original-Path X-Original-URI X-Original-URL X-Rewrite-URL X-Override-URL X-Replaced-Path X-WAWS-Unencoded-URL
	X-Script-Name Script-Name Path-Info X-Host X-HTTP-Host-Override X-HTTP-Method X-HTTP-Method-Override X-Method-Override
	Proxy X-User-ID
`)

// The value that a client gives to fields that it may not send, and to those that it may.
const (
	forged = "forged"
	honest = "honest"
)

// testStripped has a client send what it may not, in every spelling that an application may take
// for the same, and some fields that it may. Neither stint nor the application gets any of the
// first, and both get the others. asked is what was sent in the place of stint; nil says that there
// is none.
func testStripped(t *testing.T, s *site, asked *application) {
	c := client{s, "127.0.0.13"}
	spellings := map[string]func(string) string{
		"plain":       func(name string) string { return name },
		"lower case":  strings.ToLower,
		"underscores": func(name string) string { return strings.ReplaceAll(name, "-", "_") },
		"upper case":  func(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) },
		"mixed":       func(name string) string { return strings.Replace(name, "-", "_", 1) },
	}
	for _, other := range "!#$%&'*+.^`|~" {
		spellings[string(other)] = func(name string) string { return strings.ReplaceAll(name, "-", string(other)) }
	}
	for spelling, spell := range spellings {
		args := []string{
			"--header", "X-Request-ID: " + honest, "--header", "traceparent: " + honest, "--header", "Cookie: a=" + honest,
			"--header", "Idempotency-Key: " + honest, "--header", "X-Requested-With: " + honest,
		}
		for _, name := range notForClients {
			args = append(args, "--header", spell(name)+": "+forged)
		}
		// Keys that no policy counts are not for the application, either.
		if alias := spell("X-API-Key"); !strings.EqualFold(alias, "X-API-Key") {
			args = append(args, "--header", alias+": "+forged)
		}
		// A careless proxy removes one line of two, or what it has written itself.
		args = append(args, "--header", spell("X-User-ID")+": "+forged, "--header", spell("X-Forwarded-For")+": "+forged,
			"--header", "Connection: close, X-Forwarded-For, X-Forwarded-Proto, X-Real-IP")
		s.application.take()
		wantStatus(t, c.curl(t, "/things", args...), http.StatusOK)
		got := map[string][]request{"the application": s.application.take()}
		if asked != nil {
			got["stint"] = asked.take()
		}
		for who, requests := range got {
			if len(requests) != 1 {
				t.Fatalf("%s: %s got %d requests, want 1", spelling, who, len(requests))
			}
			wantStripped(t, spelling+": "+who, requests[0].header)
			if got, want := requests[0].header.Values("X-Forwarded-For"), []string{c.address}; !slices.Equal(got, want) {
				t.Errorf("%s: %s: X-Forwarded-For: got %q, want %q", spelling, who, got, want)
			}
		}
		wantHonest(t, got["the application"][0].header)
	}
}

func wantStripped(t *testing.T, who string, h http.Header) {
	t.Helper()
	for name, values := range h {
		if slices.ContainsFunc(values, func(value string) bool { return strings.Contains(value, forged) }) {
			t.Errorf("%s got %s: %q from a client", who, name, values)
		}
	}
}

func wantHonest(t *testing.T, h http.Header) {
	t.Helper()
	for _, name := range []string{"X-Request-ID", "Traceparent", "Cookie", "Idempotency-Key", "X-Requested-With"} {
		if got := h.Values(name); len(got) != 1 || !strings.HasSuffix(got[0], honest) {
			t.Errorf("%s: the application got %q, want what the client sent", name, got)
		}
	}
}

// TestTraefikFiles holds the files for Traefik to what the tests of the others show: Traefik is not
// run.
func TestTraefikFiles(t *testing.T) {
	var static struct {
		EntryPoints map[string]struct {
			Address string
			HTTP    struct {
				Alias string `yaml:"aliasHeadersStrategy"`
			}
		} `yaml:"entryPoints"`
		Providers struct{ File struct{ Filename string } }
	}
	readStrictly(t, "traefik/traefik.yaml", &static)
	if got := static.EntryPoints["web"].HTTP.Alias; got != "delete" {
		t.Errorf("aliasHeadersStrategy: got %q, want delete", got)
	}

	var dynamic struct {
		HTTP struct {
			Routers map[string]struct {
				Rule, Service string
				EntryPoints   []string `yaml:"entryPoints"`
				Middlewares   []string
			}
			Middlewares map[string]struct {
				Headers struct {
					Request  map[string]string `yaml:"customRequestHeaders"`
					Response map[string]string `yaml:"customResponseHeaders"`
				}
				ForwardAuth struct {
					Address string
					Trust   bool `yaml:"trustForwardHeader"`
				} `yaml:"forwardAuth"`
			}
			Services map[string]any
		}
	}
	readStrictly(t, "traefik/"+static.Providers.File.Filename, &dynamic)
	if got, want := dynamic.HTTP.Routers["web"].Middlewares, []string{"unclaimed", "stint"}; !slices.Equal(got, want) {
		t.Errorf("middlewares: got %q, want %q", got, want)
	}
	if dynamic.HTTP.Middlewares["stint"].ForwardAuth.Trust {
		t.Error("trustForwardHeader: got true, want false")
	}
	// What the entry point writes, over what the client has sent.
	written := []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto",
		"X-Forwarded-Server", "X-Real-IP"}
	removed := dynamic.HTTP.Middlewares["unclaimed"].Headers.Request
	for _, name := range notForClients {
		if value, ok := removed[name]; (!ok || value != "") && !slices.Contains(written, name) {
			t.Errorf("%s: got %q, want it removed", name, value)
		}
	}
}

func readStrictly(t *testing.T, file string, into any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(testkit.ReadFile(t, file)))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

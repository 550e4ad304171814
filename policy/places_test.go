package policy_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/policy"
)

func parse(t *testing.T, text string) *policy.Set {
	t.Helper()
	conf, err := config.Parse("stint.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return conf.Set
}

// placesText tells places in a word each: tier/policy@scope, with a mark for costs, divisions and
// shadow.
func placesText(places []setinfo.Count) []string {
	var words []string
	for _, p := range places {
		word := p.Rule.Tier + "/" + p.Rule.Policy + "@" + p.Scope
		if p.Rule.Costs {
			word += "$"
		}
		if p.Divided {
			word += "*"
		}
		if p.Shadow {
			word += "?"
		}
		words = append(words, word)
	}
	return words
}

func TestPlacesOfTheExample(t *testing.T) {
	set := parse(t, string(tiers.YAML))
	member := func(tier string, policies ...string) []string {
		words := []string{tier + "/@api"}
		for _, p := range policies {
			words = append(words, tier+"/"+p)
		}
		return words
	}
	fetch, simulation, work := "pdb-fetch@pdb-fetch", "simulation@simulation", "work@work$"
	const address = "login-address@login-address"
	signedIn := slices.Concat(member("enterprise", fetch, simulation), member("pro", fetch, simulation, work),
		member("free", fetch, simulation, work), []string{"anonymous/" + simulation})
	login := []string{"internal/login@login", "enterprise/login@login", "pro/login@login", "free/login@login",
		"anonymous/login@login"}
	for subject, want := range map[string][]string{
		"user:42":    signedIn,
		"apikey:a:b": signedIn,
		"session:x": slices.Concat([]string{"enterprise/" + simulation, "pro/" + simulation},
			member("free", fetch, simulation, work), []string{"anonymous/" + simulation}),
		"internal:cron": {"internal/@"},
		"device:x":      login,
		"ip:192.0.2.1": {"internal/login@login", "internal/" + address,
			"enterprise/" + simulation, "enterprise/login@login", "enterprise/" + address,
			"pro/" + simulation, "pro/login@login", "pro/" + address,
			"free/" + simulation, "free/login@login", "free/" + address,
			"anonymous/@global", "anonymous/" + fetch, "anonymous/" + simulation, "anonymous/" + work,
			"anonymous/login@login", "anonymous/" + address},
		"user:":    nil,
		"user":     nil,
		"nobody:1": nil,
		"":         nil,
		"everyone": nil, // it limits nobody there
	} {
		if got := placesText(setinfo.Counts(set, subject)); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", subject, got, want)
		}
	}
	want := []string{"internal", "user", "apikey", "session", "ip", "device"}
	if got := setinfo.Kinds(set); !slices.Equal(got, want) {
		t.Errorf("kinds are %q, want %q", got, want)
	}
}

const dividedConfig = `
identities:
  tenant: {header: X-Tenant, plain: true}
tiers:
  - {name: all, identity: ip, limits: 10/1m}
policies:
  - {name: ceiling, identity: everyone, limits: 1000/1s}
  - {name: verbs, per: method, limits: 5/1m}
  - {name: reads, match: {method: [GET, BREW]}, per: [method, route], limits: 5/1m}
  - {name: sites, match: {host: [a.example, b.example]}, per: host, limits: 5/1m}
  - {name: wild, match: {host: "*.example"}, per: host, limits: 5/1m}
  - {name: item, match: {path: "/items/{id}"}, per: [id], limits: 5/1m}
  - {name: trial, shadow: true, limits: 5/1m}
  - {name: half, rollout: 50%, identity: [tenant, ip], limits: 5/1m}
`

func TestPlacesThatAreDivided(t *testing.T) {
	set := parse(t, dividedConfig)
	want := strings.Fields(`all/@global
		all/verbs@verbs:GET all/verbs@verbs:HEAD all/verbs@verbs:POST all/verbs@verbs:PUT all/verbs@verbs:PATCH
		all/verbs@verbs:DELETE all/verbs@verbs:OPTIONS all/verbs@verbs:CONNECT all/verbs@verbs:TRACE all/verbs@verbs:other
		all/reads@reads:GET:reads all/reads@reads:HEAD:reads all/reads@reads:other:reads
		all/sites@sites:a.example all/sites@sites:b.example
		all/wild@wild* all/item@item* all/trial@trial?`)
	got := placesText(setinfo.Counts(set, "ip:192.0.2.1"))
	if last := len(got) - 1; !slices.Equal(got[:last], want) || !strings.HasPrefix(got[last], "all/half@half") {
		t.Errorf("got %q\nwant %q and half", got, want)
	}
	if got, want := placesText(setinfo.Counts(set, "everyone")), []string{
		"all/ceiling@ceiling"}; !slices.Equal(got, want) {
		t.Errorf("everyone: got %q, want %q", got, want)
	}
	shadowed := 0
	for i := range 1000 {
		places := setinfo.Counts(set, fmt.Sprint("tenant:", i))
		if len(places) != 1 || places[0].Rule.Policy != "half" {
			t.Fatalf("tenant: got %q, want half alone", placesText(places))
		}
		if places[0].Shadow {
			shadowed++
		}
	}
	if shadowed < 400 || shadowed > 600 {
		t.Errorf("half is in shadow for %d of 1000 tenants, want about half", shadowed)
	}
}

// TestPlacesAreWhereRequestsAreCounted: whatever a request is charged to is among its subject's
// places.
func TestPlacesAreWhereRequestsAreCounted(t *testing.T) {
	for name, config := range map[string]string{"example": string(tiers.YAML), "divided": dividedConfig} {
		w := newWorld(t, config)
		for _, method := range []string{"GET", "HEAD", "POST", "BREW", "MILK"} {
			for _, path := range []string{"/", "/login", "/api/simulation/start", "/api/simulation/7/frames",
				"/api/pdb/1", "/items/9"} {
				for _, host := range []string{"a.example", "b.example:8080", "elsewhere"} {
					for _, header := range []http.Header{
						{}, {"X-User-Id": {"42"}}, {"X-User-Id": {"42"}, "X-User-Plan": {"pro"}},
						{"X-Service": {"cron"}}, {"X-Session-Id": {"s"}}, {"X-Fingerprint": {"f"}},
						{"X-Tenant": {"t"}}} {
						in := policy.Input{Method: method, Host: host, Path: path,
							Peer: netip.MustParseAddr("127.0.0.1"), Header: header}
						w.wantPlaces(t, name, &in)
					}
				}
			}
		}
	}
}

// wantPlaces wants every claim of a request at one of the places of its subject, or where that is
// divided.
func (w *world) wantPlaces(t *testing.T, name string, in *policy.Input) {
	t.Helper()
	var v policy.Verdict
	var r stint.Request
	if err := w.Ask(in, &v, &r); err != nil {
		t.Fatal(err)
	}
	for _, result := range v.Results {
		if result.Shadow {
			break
		}
		rule, c := result.Rule, &result.Claim
		found := slices.ContainsFunc(setinfo.Counts(w.Set(), c.Subject), func(p setinfo.Count) bool {
			return p.Rule == rule && !p.Shadow &&
				(p.Scope == c.Scope || p.Divided && strings.HasPrefix(c.Scope, p.Scope+":"))
		})
		if !found {
			t.Errorf("%s: %s %s%s: no place for %q under %s", name, in.Method, in.Host, in.Path, c.Key(), rule.Name())
		}
	}
}

package policy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/pathpattern"
	"github.com/stint-limiter/stint/internal/syntax"
)

func (c *compiler) clause(key string, match, unless *Match) clause {
	return clause{when: c.condition(key+".match", match), unless: c.condition(key+".unless", unless)}
}

func (c *compiler) condition(key string, from *Match) *condition {
	if from == nil {
		return nil
	}
	cond := &condition{}
	for i, text := range from.Path {
		p, err := pathpattern.Parse(text)
		if err != nil {
			c.mistake(at(key+".path", i, from.Path), "%v", err)
		}
		cond.paths = append(cond.paths, p)
		c.set.upper = c.set.upper || text != pathpattern.Fold(text)
	}
	for i, host := range from.Host {
		if bad := strings.TrimPrefix(host, "*."); bad == "" || strings.ContainsAny(bad, "*/ :") {
			c.mistake(at(key+".host", i, from.Host), "%q is not a host; want something like api.example.com or *.example.com, without port", host)
		}
		cond.hosts = append(cond.hosts, strings.ToLower(strings.TrimSuffix(host, ".")))
	}
	for i, method := range from.Method {
		if !syntax.IsToken(method) || method != strings.ToUpper(method) {
			c.mistake(at(key+".method", i, from.Method), "%q; methods are in upper case, such as GET", method)
		}
		cond.methods = append(cond.methods, method)
		c.knowMethods(method)
		if method == http.MethodGet {
			c.knowMethods(http.MethodHead)
		}
	}
	for _, name := range sorted(from.Header) {
		field := c.field(key+".header."+name, name)
		cond.headers = append(cond.headers, requirement{field, c.values(key+".header."+name, from.Header[name])})
	}
	for _, name := range sorted(from.Claim) {
		cond.claims = append(cond.claims, requirement{name, c.values(key+".claim."+name, from.Claim[name])})
	}
	if len(from.Network) > 0 {
		networks, unix := c.networks(key+".network", from.Network)
		if unix {
			c.mistake(key+".network", `"unix" is not a network`)
		}
		cond.networks = networks
	}
	if len(cond.parts()) == 0 && len(from.Network) == 0 {
		c.mistake(key, "is empty; want host, path, method, header, claim or network, or leave it out")
	}
	return cond
}

func (c *compiler) patterns() {
	add := func(cond *condition, limits bool, per []string) {
		if cond == nil {
			return
		}
		for i := range cond.paths {
			p := &cond.paths[i]
			c.set.patterns = append(c.set.patterns, patternUse{p, per})
			if limits && p.Ends() {
				c.set.endings = append(c.set.endings, p)
			}
		}
	}
	for _, t := range c.set.tiers {
		add(t.when, true, nil)
		add(t.unless, false, nil)
	}
	for _, p := range c.set.all {
		add(p.when, !p.skips, p.per)
		add(p.unless, false, nil)
	}
}

func (c *compiler) knowMethods(methods ...string) {
	for _, method := range methods {
		if !slices.Contains(c.set.methods, method) {
			c.set.methods = append(c.set.methods, method)
		}
	}
}

// values checks the accepted values of a header or claim and returns them. It returns nil for "*",
// which accepts all values.
func (c *compiler) values(key string, values []string) []string {
	for i, v := range values {
		if v == "*" {
			if len(values) > 1 {
				c.mistake(at(key, i, values), `"*" matches any value, so the others have no effect`)
			}
			return nil
		}
		if v == "" {
			c.mistake(at(key, i, values), `an empty value counts as missing, so it matches nothing; want a value, or "*" for any`)
		}
	}
	if len(values) == 0 {
		c.mistake(key, `no values; want some, or "*" for any`)
	}
	return values
}

// at returns the key of element i of a list. If the list has one element, at returns the key of the
// list, because a single element may be written without a list.
func at[E any](key string, i int, of []E) string {
	if len(of) == 1 {
		return key
	}
	return fmt.Sprintf("%s[%d]", key, i)
}

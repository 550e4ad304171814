package api

import (
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/syntax"
)

func (r *reader) mode() stint.Mode {
	name := r.text(1, maxName)
	if i := slices.Index(modeNames[:], name); i >= 0 {
		return stint.Mode(i)
	}
	if name != "" {
		r.wrong("is %q; want %s", shown(name), strings.Join(modeNames[:], ", "))
	}
	return stint.ModeTake
}

func (r *reader) method() string {
	s := r.text(1, maxMethod)
	if s != "" && !syntax.IsToken(s) {
		r.wrong("is %q; want a method such as GET", s)
	}
	return s
}

func (r *reader) target() (path, raw string) {
	s := r.text(1, maxPath)
	if s == "" {
		return "", ""
	}
	u, ok := parseTarget(s)
	if !ok {
		r.wrong("is not a path; want the path of the request line, which begins with / and has no bare %%")
		return "", ""
	}
	return u.Path, u.RawPath
}

// parseTarget parses the target of a request line: a path, with or without a query, or *.
func parseTarget(s string) (u *url.URL, ok bool) {
	if !strings.HasPrefix(s, "/") && s != "*" {
		return nil, false
	}
	u, err := url.ParseRequestURI(s)
	return u, err == nil
}

func (r *reader) address() netip.Addr {
	s := r.text(1, maxName)
	if s == "" {
		return netip.Addr{}
	}
	addr := clientip.ParsePeer(s)
	if !addr.IsValid() {
		r.wrong("is %q; want an address such as 203.0.113.9 or 2001:db8::1", s)
	}
	return addr
}

func (r *reader) headers() http.Header {
	h := http.Header{}
	r.members(maxHeaders, "headers", func(name string) {
		key := http.CanonicalHeaderKey(name)
		switch _, twice := h[key]; {
		case !syntax.IsToken(name) || len(name) > maxHost:
			r.wrong("is not the name of a header")
			r.skip()
		case twice:
			r.wrong("duplicate header field; names ignore case")
			r.skip()
		default:
			h[key] = []string{r.text(0, maxValue)}
		}
	})
	return h
}

func (r *reader) claims() claims {
	c := claims{}
	r.members(maxClaims, "claims", func(name string) { c[name] = r.text(0, maxValue) })
	return c
}

func (r *reader) costs() stint.Costs {
	c := stint.Costs{}
	before := r.count
	r.members(math.MaxInt, "costs", func(name string) {
		if len(c) == stint.MaxLimits {
			r.wrong("is one too many; want at most %d names", stint.MaxLimits)
			r.skip()
			return
		}
		c[name] = r.whole(0, stint.MaxUnits)
	})
	if len(c) == 0 && r.count == before {
		r.wrong("is empty; want costs by the names of limits, or leave it out")
	}
	return c
}

func (r *reader) limits() []stint.Limit {
	var limits []stint.Limit
	n := 0
	r.array(stint.MaxLimits, "limits", func(int) {
		n++
		text := r.text(1, maxHost)
		if text == "" {
			return
		}
		l, err := stint.ParseLimit(text)
		if err != nil {
			r.wrong("%v", contract.Mistakes(err))
			return
		}
		limits = append(limits, l)
	})
	if n == 0 && r.ok() {
		r.wrong("has no limits; want at least one, such as 100/1m")
	}
	return limits
}

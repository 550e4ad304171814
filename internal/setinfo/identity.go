package setinfo

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/stint-limiter/stint/policy"
)

// identity is a way to tell who is asking, as far as that shows in subjects.
type identity struct {
	name, typ string
	kind      identityKind
	key       string // the name of the claim, header or cookie
	plain     bool
	parts     []*identity // of byAll
}

type identityKind uint8

const (
	byAddress identityKind = iota
	byClaim
	byHeader
	byCookie
	byAll
	byNothing // everyone
)

// Identities that are always there.
const (
	identityIP       = "ip"
	identityUser     = "user"
	identityEveryone = "everyone"
)

// unknownClient stands for the address of clients that have none that is known.
const unknownClient = "unknown"

// identityNamed returns an identity of a set that was found good.
func identityNamed(spec *policy.Spec, name string) *identity {
	from, ok := spec.Identities[name]
	if !ok {
		kinds := map[string]identityKind{identityIP: byAddress, identityUser: byClaim, identityEveryone: byNothing}
		return &identity{name: name, typ: name, kind: kinds[name], key: name}
	}
	id := &identity{
		name: name, typ: cmp.Or(from.Type, name), plain: from.Plain,
		key: cmp.Or(from.Claim, http.CanonicalHeaderKey(from.Header), from.Cookie),
	}
	switch {
	case from.Claim != "":
		id.kind = byClaim
	case from.Header != "":
		id.kind = byHeader
	case from.Cookie != "":
		id.kind = byCookie
	default:
		id.kind = byAll
	}
	for _, part := range from.All {
		id.parts = append(id.parts, identityNamed(spec, part))
	}
	return id
}

// counted returns the identities that tiers and policies count by, each once.
func counted(spec *policy.Spec) []*identity {
	var names []string
	for _, t := range spec.Tiers {
		names = append(names, t.Identity...)
	}
	for _, p := range spec.Policies {
		names = append(names, p.Identity...)
	}
	var all []*identity
	for i, name := range names {
		if !slices.Contains(names[:i], name) {
			all = append(all, identityNamed(spec, name))
		}
	}
	return all
}

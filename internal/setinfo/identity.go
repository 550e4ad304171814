package setinfo

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint/policy"
)

// Identities that are always there and are not claims.
const (
	identityIP       = "ip"
	identityEveryone = "everyone"
)

// unknownClient stands for the address of clients that have none that is known.
const unknownClient = "unknown"

// identityNamed returns an identity of a set that was found good, with its type. Those that are
// always there have nothing else.
func identityNamed(spec *policy.Spec, name string) policy.Identity {
	id := spec.Identities[name]
	id.Type = cmp.Or(id.Type, name)
	return id
}

// counted returns the identities that tiers and policies count by, each once.
func counted(spec *policy.Spec) []policy.Identity {
	var names []string
	for _, t := range spec.Tiers {
		names = append(names, t.Identity...)
	}
	for _, p := range spec.Policies {
		names = append(names, p.Identity...)
	}
	var all []policy.Identity
	for i, name := range names {
		if !slices.Contains(names[:i], name) {
			all = append(all, identityNamed(spec, name))
		}
	}
	return all
}

package setinfo

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint/policy"
)

// The predefined identities. Everyone stands for all callers together, and cannot be banned. User
// is the claim "user" unless it is defined otherwise.
const (
	IP       = "ip"
	User     = "user"
	Everyone = "everyone"
)

// UnknownClient stands for an unknown address of a client.
const UnknownClient = "unknown"

// identityNamed returns an identity of a valid set, with its type. A predefined identity has no
// other fields.
func identityNamed(spec *policy.Spec, name string) policy.Identity {
	id := spec.Identities[name]
	id.Type = cmp.Or(id.Type, name)
	return id
}

// counted returns the identities that tiers and policies count by, without duplicates.
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

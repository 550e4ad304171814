package setinfo

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint/policy"
)

// These constants are the predefined identities. Everyone stands for all callers together, and
// cannot be banned. User is the claim "user", unless the configuration defines it otherwise.
const (
	IP       = "ip"
	User     = "user"
	Everyone = "everyone"
)

// UnknownClient takes the place of an unknown client address in a subject.
const UnknownClient = "unknown"

// identityNamed returns the identity with the given name, with its Type filled in. If the spec does
// not define the identity, all other fields are empty.
func identityNamed(spec *policy.Spec, name string) policy.Identity {
	id := spec.Identities[name]
	id.Type = cmp.Or(id.Type, name)
	return id
}

// counted returns the identities by which tiers and policies count requests, without duplicates.
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

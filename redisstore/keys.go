package redisstore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/keypart"
)

// keys collects the keys of one call in one buffer: they share a prefix and end up as substrings of
// one string.
type keys struct {
	prefix string
	names  *names // nil if names are written as they are
	shown  bool   // names as lists show them are taken as they are
	buf    []byte
	ends   []int
}

// newKeys returns an empty list of the keys of a call. The error says why nothing may be sent.
func (s *Store) newKeys() (keys, error) {
	k := keys{prefix: s.prefix, names: s.names.Load()}
	if k.names != nil {
		return k, k.names.err
	}
	return k, nil
}

// newShownKeys is newKeys for people, who may name a subject or a scope as lists show it. Requests
// may not: whose subject is "user#" and somebody's hash would reach that one's counts.
func (s *Store) newShownKeys() (keys, error) {
	k, err := s.newKeys()
	k.shown = true
	return k, err
}

func (k *keys) end() { k.ends = append(k.ends, len(k.buf)) }

// tag begins a key: prefix and hash tag.
func (k *keys) tag(subject string) {
	k.buf = append(k.buf, k.prefix...)
	k.buf = append(k.buf, ":{"...)
	switch {
	case k.names == nil:
		k.buf = keypart.Append(k.buf, subject, true)
	case k.shown && keypart.IsHashed(subject):
		k.buf = append(k.buf, subject...)
	default:
		k.buf = k.names.appendSubject(k.buf, subject)
	}
	k.buf = append(k.buf, "}:"...)
}

// scope adds a scope.
func (k *keys) scope(scope string) {
	if k.names == nil {
		k.buf = keypart.Append(k.buf, scope, false)
		return
	}
	if before, sum, ok := keypart.SumIn(scope); k.shown && ok {
		k.buf = keypart.AppendSum(keypart.Append(k.buf, before, false), sum)
		return
	}
	k.buf = k.names.appendScope(k.buf, scope)
}

// inScope adds a key of the subject in one scope, or without one of the subject as a whole.
func (k *keys) inScope(subject, scope, what string) {
	k.tag(subject)
	if scope != "" {
		k.scope(scope)
		k.buf = append(k.buf, ':')
	}
	k.buf = append(k.buf, what...)
	k.end()
}

// ofPart adds the key of a part: a state, or the holders of a limit.
func (k *keys) ofPart(p *part) {
	if p.holders() {
		k.inScope(p.subject, p.scope, p.limits[0].ID())
		return
	}
	k.inScope(p.subject, p.scope, stateKey)
	if p.name != "" {
		k.buf = append(append(k.buf, '/'), p.name...)
		k.ends[len(k.ends)-1] = len(k.buf)
	}
}

// shape hashes the shape of claims, with subjects and scopes as keys have them.
func (k keys) shape(claims []stint.Claim) uint32 {
	k.buf, k.ends = nil, nil
	for i := range claims {
		k.inScope(claims[i].Subject, claims[i].Scope, "")
	}
	return contract.Shape(claims, k.buf)
}

// end is how the key of a part ends.
func (p *part) end() string {
	switch {
	case p.holders():
		return p.limits[0].ID()
	case p.name != "":
		return stateKey + "/" + p.name
	}
	return stateKey
}

// stateKey is how the key of a state ends, but for the name of its limits.
const stateKey = "limits"

// seenKey is how the key of a scope's request ids ends.
const seenKey = "seen"

// ofRequest adds the keys that take.lua wants for a request of such parts.
func (k *keys) ofRequest(r *stint.Request, parts []part) {
	for i := range parts {
		k.ofPart(&parts[i])
	}
	if contract.AppliesBans(r) {
		for _, what := range [...]string{"ban", "strikes"} {
			for i := range r.Claims {
				k.inScope(r.Claims[i].Subject, "", what)
			}
		}
	}
	if r.ID != "" {
		k.inScope(r.Claims[0].Subject, r.Claims[0].Scope, seenKey)
	}
}

func (k *keys) strings() []string {
	text := string(k.buf)
	out := make([]string, len(k.ends))
	start := 0
	for i, end := range k.ends {
		out[i] = text[start:end]
		start = end
	}
	return out
}

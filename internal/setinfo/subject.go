package setinfo

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/policy"
)

// ErrUnknownSubject is the error for a subject of a type that no tier or policy counts.
var ErrUnknownSubject = errors.New("the configuration does not count subjects of this kind")

// Subject converts text entered by an operator into the subject that is counted: "ip:2001:db8::7"
// into "ip:2001:db8::/64", and "apikey:" with a key into "apikey:" with the key's hash. A subject
// that Subject has returned stays unchanged. The note explains the conversion and can be shown
// after the subject, as in "ip:2001:db8::/64: 2001:db8::7 is counted under it". The note is "" if
// there is nothing to explain.
//
// The error is [ErrUnknownSubject], or a [*stint.InvalidError] that says how to fix the text.
//
// If the program has no configuration, the set is nil. Subject then converts addresses with the
// default prefix lengths, and leaves all other subjects unchanged.
func Subject(set *policy.Set, text string) (subject, note string, err error) {
	kind, identifier, found := strings.Cut(text, ":")
	spec, known := &policy.Spec{}, []policy.Identity{{Type: kind}}
	if set != nil {
		spec, known = set.Spec(), counted(set.Spec())
	} else if kind != IP {
		return text, "", nil
	}
	i := slices.IndexFunc(known, func(id policy.Identity) bool { return id.Type == kind })
	switch {
	case i < 0 && clientip.ParsePeer(text).IsValid():
		return "", "", mistaken("the address has no kind; want ip: before it")
	case i < 0, kind == Everyone && found:
		return "", "", ErrUnknownSubject
	case kind == Everyone:
		return text, "", nil
	case identifier == "":
		like := "42"
		if kind == IP {
			like = "203.0.113.9"
		}
		return "", "", mistaken("no name after %s:; want a subject such as %s:%s", kind, kind, like)
	}
	b, note, err := read(append([]byte(kind), ':'), spec, &known[i], identifier)
	return string(b), note, err
}

// read appends to b the identifier under which requests are counted, given the text that an
// operator has entered.
func read(b []byte, spec *policy.Spec, id *policy.Identity, text string) (_ []byte, note string, err error) {
	switch {
	case len(id.All) > 0:
		return readTogether(b, spec, id, text)
	case id.Type == IP:
		return readAddress(b, text, resolverOf(spec))
	case (id.Header != "" || id.Cookie != "") && !id.Plain:
		return readSecret(b, text, cmp.Or(http.CanonicalHeaderKey(id.Header), id.Cookie))
	}
	if len(text) > keypart.MaxIdentifier {
		note = fmt.Sprintf("names of more than %d bytes are counted under a hash", keypart.MaxIdentifier)
	}
	b, _ = keypart.AppendIdentifier(b, text, true)
	return b, note, nil
}

// readAddress reads the address of a client, in any form that [clientip.ParsePeer] accepts, or a
// network that counts as one client.
func readAddress(b []byte, text string, r *clientip.Resolver) (_ []byte, note string, err error) {
	text = strings.TrimSpace(text)
	if text == UnknownClient {
		return append(b, text...), "", nil
	}
	begin := len(b)
	if a := clientip.ParsePeer(text); a.IsValid() {
		b = r.AppendSubject(b, a)
	} else if network, err := netip.ParsePrefix(text); err != nil {
		return nil, "", mistaken(`invalid address "%s"; want one such as ip:203.0.113.9 or ip:2001:db8::7`, label.Short(text)) // shortened: the text may be a misplaced secret
	} else if !r.IsOneSubject(network) {
		example := network.Addr()
		if network == network.Masked() {
			example = example.Next()
		}
		return nil, "", mistaken("%s is a network of many subjects; want a single address, such as ip:%s. "+
			"If a list showed the network, it is a shortened address: use the ref next to it. "+
			"To deny a whole network, write a policy with match: {network: %s} and limits: 0/1m", text, example, network.Masked())
	} else {
		b = r.AppendSubject(b, network.Addr())
	}
	if string(b[begin:]) != text {
		note = label.Line(text) + " is counted under it"
	}
	return b, note, nil
}

// readSecret reads the value of a header or cookie that is counted under its hash. The text may
// also be the hash itself.
func readSecret(b []byte, text, field string) (_ []byte, note string, err error) {
	if hash, _ := keypart.AppendIdentifier(nil, text, false); keypart.IsIdentifierHash(text) {
		return append(b, text...), fmt.Sprintf("taken as the hash of a value of %s; if it is the value itself, its hash is %s", field, hash), nil
	}
	b, _ = keypart.AppendIdentifier(b, text, false)
	return b, "it is the hash of the given value of " + field, nil
}

// readTogether reads the identifiers of a combined identity: one for each part, in order, with plus
// signs between them.
func readTogether(b []byte, spec *policy.Spec, id *policy.Identity, text string) (_ []byte, note string, err error) {
	texts := strings.Split(text, "+")
	if len(texts) != len(id.All) || slices.Contains(texts, "") {
		return nil, "", mistaken("%s has %d parts, none of them empty; want %s:%s, with %%2b for a plus sign within a part", id.Type, len(id.All), id.Type, strings.Join(id.All, "+"))
	}
	var notes []string
	for i, name := range id.All {
		part := identityNamed(spec, name)
		value, note, err := read(nil, spec, &part, unescaped.Replace(texts[i]))
		if err != nil {
			return nil, "", err
		}
		if note != "" {
			notes = append(notes, note)
		}
		if i > 0 {
			b = append(b, '+')
		}
		b = keypart.AppendEscaped(b, value, '+')
	}
	return b, strings.Join(notes, ", "), nil
}

// unescaped reverses [keypart.AppendEscaped] with a plus sign as the separator.
var unescaped = strings.NewReplacer("%2b", "+", "%2B", "+", "%25", "%")

// resolverOf returns a resolver with the prefix lengths of a set. It ignores the error, because the
// prefix lengths of a valid set are valid.
func resolverOf(spec *policy.Spec) *clientip.Resolver {
	r, _ := clientip.New(clientip.Config{IPv4Prefix: spec.IPv4Prefix, IPv6Prefix: spec.IPv6Prefix})
	return r
}

func mistaken(format string, args ...any) error {
	return &stint.InvalidError{Err: fmt.Errorf(format, args...)}
}

package envoyrls

import (
	"bytes"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// matches reports whether a composite key matches the wildcard. An asterisk matches any text,
// including the empty string.
func (w *wildcard) matches(composite []byte) bool {
	first, middle, last := w.parts[0], w.parts[1:len(w.parts)-1], w.parts[len(w.parts)-1]
	if len(composite) < len(first)+len(last) || !bytes.HasPrefix(composite, first) ||
		!bytes.HasSuffix(composite, last) {
		return false
	}
	rest := composite[len(first) : len(composite)-len(last)]
	for _, part := range middle {
		i := bytes.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}

// step returns the child of n for an entry, or nil if there is none. It prefers the child with the
// entry's value, then the first child with a matching wildcard, then the child without a value.
// wild reports whether a wildcard matched. scratch is a buffer for the composite key.
func (n *node) step(e *commonv3.RateLimitDescriptor_Entry, scratch *[]byte) (child *node, wild bool) {
	composite := append((*scratch)[:0], e.GetKey()...)
	composite = append(composite, '_')
	composite = append(composite, e.GetValue()...)
	*scratch = composite
	if child = n.children[string(composite)]; child != nil {
		return child, false
	}
	for i := range n.wildcards {
		if n.wildcards[i].matches(composite) {
			return n.wildcards[i].next, true
		}
	}
	return n.children[e.GetKey()], false
}

// match returns the limit for a descriptor, or nil if there is none. It appends the subject of the
// limit's counter to the given slice. This subject consists of the domain and the descriptor's
// entries; if all values that match a wildcard share one counter, it contains the wildcard instead
// of the value. The limit must be for all entries of the descriptor: a limit for the first two
// entries does not apply to a descriptor with three.
func (d *domain) match(descriptor *commonv3.RateLimitDescriptor, subject []byte, scratch *[]byte) (*rule, []byte) {
	subject = append(subject, d.subject...)
	at := &d.node
	for i, e := range descriptor.GetEntries() {
		next, wild := at.step(e, scratch)
		if next == nil {
			return nil, subject
		}
		value := e.GetValue()
		if wild && next.pattern != "" {
			value = next.pattern
			if rest, ok := strings.CutPrefix(value, e.GetKey()); ok && strings.HasPrefix(rest, "_") {
				value = rest[1:]
			}
		}
		subject = appendEntry(subject, i, e.GetKey(), value)
		at = next
	}
	return at.rule, subject
}

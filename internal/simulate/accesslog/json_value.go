package accesslog

import (
	"bytes"
	"encoding/json"
	"strings"
)

// node is an element of a JSON object that can be reached by a path of keys. It is a wanted value,
// or an object that contains wanted values.
type node struct {
	below  map[string]*node // by key; nil for a value
	folded map[string]*node // by key in lower case; the first one if keys differ only in case
	raw    []byte           // the value as written in the line
}

// at returns the node that a path of keys leads to. It adds the nodes that are missing on this
// path.
func (n *node) at(keys []string) *node {
	for _, key := range keys {
		if n.below == nil {
			n.below, n.folded = map[string]*node{}, map[string]*node{}
		}
		next := n.below[key]
		if next == nil {
			next = &node{}
			n.below[key] = next
			if lower := strings.ToLower(key); n.folded[lower] == nil {
				n.folded[lower] = next
			}
		}
		n = next
	}
	return n
}

// read stores the wanted values of an object. It ignores a value that is not an object.
func (n *node) read(object []byte) {
	if object[0] != '{' {
		return
	}
	key, rest := cutValue(object[1:])
	for len(key) > 0 {
		var value []byte
		value, rest = cutValue(rest)
		if next := n.find(key); next != nil && next.below != nil {
			next.read(value)
		} else if next != nil {
			next.raw = value
		}
		key, rest = cutValue(rest)
	}
}

// find returns the child node for a quoted key, or nil if there is none. Like package
// encoding/json, it prefers an exact match, but also accepts a key that differs only in case.
func (n *node) find(key []byte) *node {
	name := key[1 : len(key)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		var text string
		_ = json.Unmarshal(key, &text) // the key is known to be valid
		name = []byte(text)
	}
	if next := n.below[string(name)]; next != nil {
		return next
	}
	return n.folded[string(bytes.ToLower(name))]
}

// text returns the first value that is not empty, or "" if all are.
func (p *part) text(r *Record) string {
	for _, v := range p.values {
		if text := r.textOf(v.raw); text != "" {
			return text
		}
	}
	return ""
}

// textOf returns a value as text, or the first element of an array. It returns "" for null,
// objects, and the "-" that servers write for missing values.
func (r *Record) textOf(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		inner := raw[1 : len(raw)-1]
		if len(inner) == 1 && inner[0] == '-' {
			return ""
		}
		if bytes.IndexByte(inner, '\\') < 0 {
			return r.keep(inner)
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return ""
		}
		return text
	case '[':
		if first, _ := cutValue(raw[1:]); len(first) > 0 && first[0] != '[' {
			return r.textOf(first)
		}
		return ""
	case '{', 'n':
		return ""
	}
	return r.keep(raw)
}

// cutValue returns the first value or key in the content of an array or an object, and the rest of
// the content. If there is none, the value is empty. The input must be valid. Unlike a
// json.Decoder, cutValue allocates nothing.
func cutValue(s []byte) (value, rest []byte) {
	for len(s) > 0 && strings.IndexByte(" \t\r\n,:", s[0]) >= 0 {
		s = s[1:]
	}
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			for i++; s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return s[:i], s[i:]
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s[:i], s[i:]
			}
		}
	}
	return nil, nil
}

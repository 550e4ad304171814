package tokens

import (
	"bytes"
	"errors"
	"strings"
)

// maxPointer is the maximum length of a JSON pointer in bytes. It bounds the size of a Scanner's
// memory.
const maxPointer = 256

// node is the document, or a member of an object or array that a pointer leads to or through.
type node struct {
	children map[string]*node
	leaf     int // the index of the pointer that ends here, or -1
}

// Pointers is a set of JSON pointers (RFC 6901) to look for.
type Pointers struct {
	root   *node
	depth  int    // depth of the deepest pointer
	maxKey int    // length of the longest key in bytes, with every character escaped
	common []byte // a substring of the last name of every pointer, or empty
	rare   int    // the index of the rarest letter of common
	folded bool   // whether case is ignored
}

// child returns the node for the member of n with the given key, or nil if no pointer leads there.
func (p *Pointers) child(n *node, key []byte) *node {
	if next := n.children[string(key)]; next != nil || !p.folded {
		return next
	}
	return n.children[fold(string(key))]
}

// fold folds the case of a name the way package encoding/json does when it compares names: servers
// written in Go accept "Max_Tokens" for "max_tokens".
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// NewFolded is like [NewPointers], but ignores the case of names.
func NewFolded(texts ...string) (*Pointers, error) {
	folded := make([]string, len(texts))
	for i, text := range texts {
		folded[i] = fold(text)
	}
	p, err := NewPointers(folded...)
	if err == nil {
		p.folded, p.common = true, nil
	}
	return p, err
}

// before returns the length of a prefix of text that cannot contain the last name of any pointer.
// The check is cheap. The prefix ends before any letter that is written as an escape, such as
// \u0061, because a name may be written with such escapes.
func (p *Pointers) before(text []byte) int {
	if len(p.common) == 0 {
		return 0
	}
	for at := 0; at < len(text); {
		i := bytes.IndexByte(text[at:], p.common[p.rare])
		if i < 0 {
			break
		}
		if i += at; i >= p.rare && bytes.HasPrefix(text[i-p.rare:], p.common) {
			text = text[:i-p.rare]
			break
		}
		at = i + 1
	}
	if i := bytes.Index(text, escapedLetter); i >= 0 {
		text = text[:i]
	}
	return len(text)
}

var escapedLetter = []byte(`\u00`)

// commonPart returns the longest common substring of a and b.
func commonPart(a, b string) (longest string) {
	for i := range len(a) {
		for j := i + len(longest) + 1; j <= len(a) && strings.Contains(b, a[i:j]); j++ {
			longest = a[i:j]
		}
	}
	return longest
}

// rarest returns the index of the letter of text that is rarest in English.
func rarest(text string) int {
	const letters = "zjqxkvbpygwfmucldrhsnioate" // from rarest to most frequent in English
	for _, c := range letters {
		if i := strings.IndexRune(text, c); i >= 0 {
			return i
		}
	}
	return 0
}

// NewPointers returns a set of pointers. A [Scanner] reports them by their index in texts. The
// empty pointer refers to the whole document.
func NewPointers(texts ...string) (*Pointers, error) {
	p := &Pointers{root: &node{leaf: -1}}
	common := ""
	for i, text := range texts {
		if err := CheckPointer(text); err != nil {
			return nil, err
		}
		at := p.root
		if text != "" {
			parts := strings.Split(text[1:], "/")
			if last := parts[len(parts)-1]; i == 0 {
				common = last
			} else {
				common = commonPart(common, last)
			}
			p.depth = max(p.depth, len(parts))
			for _, part := range parts {
				part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
				p.maxKey = max(p.maxKey, 6*len(part))
				if at.children == nil {
					at.children = map[string]*node{}
				}
				if at.children[part] == nil {
					at.children[part] = &node{leaf: -1}
				}
				at = at.children[part]
			}
		}
		if at.leaf >= 0 {
			return nil, errors.New("duplicate pointer " + text + "; use each pointer once")
		}
		at.leaf = i
		if text == "" {
			common = ""
		}
	}
	if !strings.ContainsFunc(common, func(c rune) bool { return c > 'z' || strings.ContainsRune(`~/\"`, c) }) {
		p.common = []byte(common) // JSON has several ways to write the excluded characters
		p.rare = rarest(common)
	}
	return p, nil
}

// CheckPointer returns an error if text is not a valid JSON pointer.
func CheckPointer(text string) error {
	switch {
	case text == "":
		return nil
	case text[0] != '/':
		return errors.New("a JSON pointer begins with a slash, as in /usage/total_tokens")
	case len(text) > maxPointer:
		return errors.New("the JSON pointer is too long")
	}
	for i := range len(text) {
		if text[i] == '~' && (i+1 == len(text) || text[i+1] != '0' && text[i+1] != '1') {
			return errors.New("in a JSON pointer ~ is written ~0")
		}
	}
	return nil
}

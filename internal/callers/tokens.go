// Package callers identifies callers of restricted listeners: holders of a token, and callers on
// this host.
package callers

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/syntax"
)

// minToken is the minimum length of a token in bytes.
const minToken = 16

// Role determines what the holder of a token may do.
type Role string

const (
	// Read allows reading everything, but no changes.
	Read Role = "read"
	// Operate also allows changes. It is the default.
	Operate Role = "operate"
)

// Holder is the owner of a token.
type Holder struct {
	// Name is the name of the holder in the file. A holder without a name is named after its line,
	// as in "line 3 of tokens".
	Name string
	Role Role
}

// Tokens is a set of hashed bearer tokens. It is immutable and safe for concurrent use.
type Tokens struct{ list []token }

type token struct {
	holder Holder
	hash   [sha256.Size]byte
}

// ParseTokens parses the text of a file of tokens, with one token per line. Before the token, a
// line may have the holder's name, optionally a role in parentheses, and then a colon and a space.
// The default role is [Operate]. A holder may have several tokens, so that a new token can be
// introduced before the old one is removed. Empty lines and lines that begin with # are ignored.
// The error lists all mistakes, and contains no token.
//
//	# openssl rand -hex 24
//	alice: 8a9f7d1be0c24b5f93d6a1e27c40b8f51d3e6a97c2b4f081
//	prometheus (read): 51d3e6a97c2b4f0818a9f7d1be0c24b5f93d6a1e27c40b8f
//	3be97d1ba0824b5f93d6a1e27c40b8f51d3e6a97c2b4f0d2
//
// If roles is false, a line with a role is a mistake.
func ParseTokens(file string, text []byte, roles bool) (*Tokens, error) {
	t := &Tokens{}
	lines := map[[sha256.Size]byte]int{}
	var errs []error
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		holder, secret := Holder{"line " + strconv.Itoa(n) + " of " + filepath.Base(file), Operate}, line
		if before, rest, ok := bytes.Cut(line, []byte(": ")); ok {
			var err error
			if holder, err = parseHolder(string(before), roles); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %w", file, n, err))
			}
			secret = bytes.TrimSpace(rest)
		}
		hash := sha256.Sum256(secret)
		switch first, twice := lines[hash]; {
		case bytes.ContainsFunc(secret, func(c rune) bool { return c <= ' ' || c > '~' }):
			errs = append(errs, fmt.Errorf("%s:%d: not a token; want one per line, of printable ASCII without spaces",
				file, n))
		case len(secret) < minToken:
			errs = append(errs, fmt.Errorf("%s:%d: a token of %d bytes can be guessed; want at least %d, such as the output of openssl rand -hex 24",
				file, n, len(secret), minToken))
		case twice:
			errs = append(errs, fmt.Errorf("%s:%d: duplicate token, first set in line %d", file, n, first))
		}
		lines[hash] = n
		t.list = append(t.list, token{holder, hash})
	}
	if len(t.list) == 0 {
		errs = append(errs, fmt.Errorf("%s: no tokens; want one per line", file))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return t, nil
}

// parseHolder parses "alice" or "alice (read)". Its error does not contain the text, which may be a
// token.
func parseHolder(text string, roles bool) (Holder, error) {
	h := Holder{text, Operate}
	if name, role, ok := strings.Cut(strings.TrimSuffix(text, ")"), " ("); ok && strings.HasSuffix(text, ")") {
		h = Holder{name, Role(role)}
		switch {
		case !roles:
			return h, errors.New("these tokens have no roles; want only the name of the holder before the colon")
		case h.Role != Read && h.Role != Operate:
			return h, fmt.Errorf("unknown role; want (%s) or (%s)", Read, Operate)
		}
	}
	if !syntax.IsShortName(h.Name) {
		return h, fmt.Errorf("the text before the colon is not a name; want at most %d letters, digits and _-.",
			syntax.MaxName)
	}
	return h, nil
}

// Holder returns the owner of the token in the Authorization fields of a request. There must be one
// field with one token. Holder takes the same time for all wrong tokens, even if they begin like a
// valid one.
func (t *Tokens) Holder(authorization []string) (h Holder, ok bool) {
	if len(authorization) != 1 {
		return h, false
	}
	scheme, shown, _ := strings.Cut(authorization[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return h, false
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(shown)))
	for i := range t.list {
		if subtle.ConstantTimeCompare(hash[:], t.list[i].hash[:]) == 1 {
			h, ok = t.list[i].holder, true
		}
	}
	return h, ok
}

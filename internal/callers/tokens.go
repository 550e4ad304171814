// Package callers tells who is asking, for listeners that not everybody may ask: holders of a token, and those on this
// host.
package callers

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/words"
)

// Bounds on tokens and the names of their holders, in bytes.
const (
	minToken  = 16
	maxHolder = 64
)

// Tokens are bearer tokens, of which only hashes are kept. They are immutable and safe for concurrent use.
type Tokens struct{ list []token }

type token struct {
	holder string
	hash   [sha256.Size]byte
}

// ParseTokens reads the tokens of a file, one to a line: the token alone, or the name of its holder, a colon, a space and the
// token. A holder may have several, so that one can be replaced by another without a gap. Empty lines and lines that begin
// with # do not count. The error has all mistakes, and shows no token.
//
//	# openssl rand -hex 24
//	alice: 8a9f7d1be0c24b5f93d6a1e27c40b8f51d3e6a97c2b4f081
//	3be97d1ba0824b5f93d6a1e27c40b8f51d3e6a97c2b4f0d2
func ParseTokens(file string, text []byte) (*Tokens, error) {
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
		holder, secret := "line "+strconv.Itoa(n), line
		if name, rest, ok := bytes.Cut(line, []byte(": ")); ok {
			holder, secret = string(name), bytes.TrimSpace(rest)
			if !words.IsName(holder) || len(holder) > maxHolder {
				errs = append(errs, fmt.Errorf("%s:%d: what is before the colon is no name; want at most %d letters, digits and _-.", file, n, maxHolder))
			}
		}
		hash := sha256.Sum256(secret)
		switch first, twice := lines[hash]; {
		case bytes.ContainsFunc(secret, func(c rune) bool { return c <= ' ' || c > '~' }):
			errs = append(errs, fmt.Errorf("%s:%d: not a token; want one to a line, of printable ASCII without spaces", file, n))
		case len(secret) < minToken:
			errs = append(errs, fmt.Errorf("%s:%d: a token of %d bytes can be guessed; want at least %d, such as openssl rand -hex 24 prints", file, n, len(secret), minToken))
		case twice:
			errs = append(errs, fmt.Errorf("%s:%d: the token stands in line %d already", file, n, first))
		}
		lines[hash] = n
		t.list = append(t.list, token{holder, hash})
	}
	if len(t.list) == 0 {
		errs = append(errs, fmt.Errorf("%s: no tokens; want one to a line", file))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return t, nil
}

// Holder returns whose token the Authorization fields of a request hold: the name, or the line of a token without one. There
// must be one field with one token. It takes as long for one that is almost right as for any other.
func (t *Tokens) Holder(authorization []string) (name string, ok bool) {
	if len(authorization) != 1 {
		return "", false
	}
	scheme, shown, _ := strings.Cut(authorization[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(shown)))
	for i := range t.list {
		if subtle.ConstantTimeCompare(hash[:], t.list[i].hash[:]) == 1 {
			name, ok = t.list[i].holder, true
		}
	}
	return name, ok
}

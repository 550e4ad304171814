package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/internal/reload"
)

// maxTokens is the largest file of tokens in bytes.
const maxTokens = 64 << 10

// tokens are the bearer tokens that open a listener, as hashes. They are those of a file, one to a line; empty lines
// and lines that begin with # do not count. A nil *tokens is open to everybody.
type tokens struct {
	name   string
	path   string
	hashes atomic.Pointer[[][sha256.Size]byte]
	file   *reload.Watcher
}

// newTokens reads the tokens of a file; without one it returns nil.
func newTokens(name, path string, logger *slog.Logger) (*tokens, error) {
	if path == "" {
		return nil, nil
	}
	t := &tokens{name: name, path: path}
	var err error
	t.file, err = reload.New(reload.Config{
		Name:   "server: the list of " + name,
		Paths:  []string{path},
		Open:   func() ([]reload.File, error) { return reload.ReadFiles(maxTokens, path) },
		Logger: logger,
		Read: func(files []reload.File) (func(), error) {
			hashes, err := readTokens(files[0])
			return func() { t.hashes.Store(&hashes) }, err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("server: %s: %w", name, err)
	}
	return t, nil
}

// readTokens reads a file of tokens. One without any is refused: it would open the listener to nobody.
func readTokens(file reload.File) ([][sha256.Size]byte, error) {
	if len(file.Text) > maxTokens {
		return nil, fmt.Errorf("%s: larger than %d bytes", file.Name, maxTokens)
	}
	var hashes [][sha256.Size]byte
	n := 0
	for line := range bytes.Lines(file.Text) {
		n++
		token := bytes.TrimSpace(line)
		if len(token) == 0 || token[0] == '#' {
			continue
		}
		if bytes.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return nil, fmt.Errorf("%s:%d: not a token; want one to a line, of printable ASCII without spaces", file.Name, n)
		}
		hashes = append(hashes, sha256.Sum256(token))
	}
	if len(hashes) == 0 {
		return nil, fmt.Errorf("%s: no tokens; want one to a line", file.Name)
	}
	return hashes, nil
}

// accept reports whether the value of an Authorization field has one of the tokens. It takes as long for one that is
// almost right as for any other.
func (t *tokens) accept(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	found := 0
	for _, want := range *t.hashes.Load() {
		found |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return found == 1
}

// guard serves those who have a token.
func (t *tokens) guard(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fields := r.Header["Authorization"]; len(fields) != 1 || !t.accept(fields[0]) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "unauthorized", "This needs a token: Authorization: Bearer <token>.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check returns the error of a call without a token.
func (t *tokens) check(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) != 1 || !t.accept(values[0]) {
		return status.Error(codes.Unauthenticated, "this needs a token: authorization: Bearer <token>")
	}
	return nil
}

package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/internal/reload"
)

const (
	maxTokens = 64 << 10
	// adminTokenName is the name of the admin tokens. Only admin tokens have roles.
	adminTokenName = "admin tokens"
)

// tokens are the bearer tokens from a file, in the format of [callers.ParseTokens]. They grant
// access to a listener or to some of its paths. A nil *tokens admits every caller.
type tokens struct {
	name    string
	path    string
	list    atomic.Pointer[callers.Tokens]
	file    *reload.Watcher
	logger  *slog.Logger
	refused logsample.Sampler
}

// newTokens reads the tokens of a file. It returns nil if path is empty.
func newTokens(name, path string, logger *slog.Logger, reloaded func(reload.Result)) (*tokens, error) {
	if path == "" {
		return nil, nil
	}
	t := &tokens{name: name, path: path, logger: logger}
	t.file = reload.New(reload.Config{
		Name:     "server: the file of " + name,
		Paths:    []string{path},
		Open:     func() ([]reload.File, error) { return reload.ReadFiles(maxTokens, path) },
		Logger:   logger,
		Reloaded: reloaded,
		Read: func(files []reload.File) (func() reload.InForce, error) {
			list, err := t.read(files[0])
			return func() reload.InForce { t.list.Store(list); return reload.InForce{} }, err
		},
	})
	if err := t.file.Reload().Err; err != nil {
		return nil, fmt.Errorf("server: %s: %w", name, err)
	}
	return t, nil
}

// read parses the file. A file without tokens is an error, because it would lock everyone out.
func (t *tokens) read(file reload.File) (*callers.Tokens, error) {
	if len(file.Text) > maxTokens {
		return nil, fmt.Errorf("%s: larger than %d bytes", file.Name, maxTokens)
	}
	callers.WarnReadable(t.logger, t.name, t.path)
	return callers.ParseTokens(file.Name, file.Text, t.name == adminTokenName)
}

// admit reports whether the Authorization fields of a request contain one of the tokens, and logs
// the result. The function from returns the caller's address, which is logged if the caller is
// refused.
func (t *tokens) admit(ctx context.Context, authorization []string, from func() string) bool {
	holder, ok := t.list.Load().Holder(authorization)
	if ok {
		t.logger.LogAttrs(ctx, slog.LevelDebug, "server: accepted a token", slog.String("of", t.name),
			slog.String("holder", holder.Name))
		return true
	}
	if n, ok := t.refused.Allow(1, time.Second); ok {
		t.logger.Warn("server: refused a caller without a valid token", "want", t.name, "peer", from(), "unlogged", n)
	}
	return false
}

func (t *tokens) guard(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.admit(r.Context(), r.Header["Authorization"], func() string { return callers.Peer(r) }) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer.Refuse(w, http.StatusUnauthorized, "unauthorized",
				"A token is required: Authorization: Bearer <token>.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (t *tokens) check(ctx context.Context) error {
	if t == nil || t.admit(ctx, metadata.ValueFromIncomingContext(ctx, "authorization"),
		func() string { return connectionOf(ctx).RemoteAddr().String() }) {
		return nil
	}
	return status.Error(codes.Unauthenticated, "a token is required: authorization: Bearer <token>")
}

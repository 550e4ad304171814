package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/server"
	"github.com/stint-limiter/stint/server/control"
)

// desk is where commands act on subjects: a running server, or a store.
type desk interface {
	Subject(ctx context.Context, subject string) (control.Subject, error)
	Reset(ctx context.Context, subject string) error
	Ban(ctx context.Context, subject string, length time.Duration) error
	Unban(ctx context.Context, subject string) error
	Bans(ctx context.Context, n int) ([]control.Ban, error)
	Take(ctx context.Context, a control.Ask) (control.Answer, error)
}

var (
	_ desk = (*control.Client)(nil)
	_ desk = (*control.Desk)(nil)
)

// serverFlags say which running server to ask.
type serverFlags struct {
	Server    string `name:"server" placeholder:"URL" env:"STINT_SERVER" help:"The admin listener of a running server. Default: ${admin}."`
	Token     string `name:"token" placeholder:"TOKEN" env:"STINT_TOKEN" help:"The bearer token for it. Others on this machine can see it in a command line, and in the environment they cannot."`
	TokenFile string `name:"token-file" placeholder:"FILE" help:"A file with the token, such as the server's own --admin-token-file: the first one in it."`
}

// localAdmin is where servers are that nobody names.
const localAdmin = "http://127.0.0.1:6070"

// client returns a client of the server.
func (f *serverFlags) client() (*control.Client, error) {
	token := f.Token
	if f.TokenFile != "" {
		var err error
		if token, err = firstToken(f.TokenFile); err != nil {
			return nil, wrongUse(err)
		}
	}
	c, err := control.NewClient(cmp.Or(f.Server, localAdmin), token)
	if err != nil {
		return nil, wrongUse(withoutPackage(err))
	}
	return c, nil
}

// maxTokenFile is the largest file of tokens in bytes.
const maxTokenFile = 64 << 10

// firstToken returns the first token of a file in the form of --admin-token-file.
func firstToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	if len(text) > maxTokenFile {
		return "", fmt.Errorf("--token-file: %s has %d bytes; want a token", path, len(text))
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			if _, token, ok := strings.Cut(line, ": "); ok {
				return strings.TrimSpace(token), nil
			}
			return line, nil
		}
	}
	return "", fmt.Errorf("--token-file: there is no token in %s", path)
}

// deskFlags say where to act on subjects.
type deskFlags struct {
	serverFlags
	Store  string        `name:"store" placeholder:"URL" help:"Act on a Redis, not on a server: redis, or a URL such as redis://localhost:6379/0."`
	Config string        `name:"config" placeholder:"FILE" help:"The policies, with --store: a file or a directory, as serve has it."`
	Limit  []stint.Limit `name:"limit" sep:"none" placeholder:"LIMIT" help:"A limit, with --store and without --config, such as 10/1m; as often as needed."`
	JSON   bool          `name:"json" help:"Print JSON."`
}

// Validate is called when the flags have been read.
func (f *deskFlags) Validate(k *kong.Context) error {
	switch {
	case f.Store != "" && given(k.Path, "server"):
		return errors.New("--store and --server; want one of them")
	case f.Store == "" && f.Config != "":
		return errors.New("--config goes with --store; a server has its own")
	case f.Store == "" && len(f.Limit) > 0:
		return errors.New("--limit goes with --store; a server has its own")
	case f.Config != "" && len(f.Limit) > 0:
		return errors.New("--limit and --config; want one of them")
	}
	return checkRedis(f.Store)
}

// checkRedis reports a --store that is no Redis. "" is none.
func checkRedis(store string) error {
	switch {
	case store == server.MemoryStore:
		return errors.New("--store: memory is in the process of a server; name that with --server")
	case store != "" && store != redisStore && !strings.Contains(store, "://"):
		return fmt.Errorf("--store: %q; want redis, or a URL such as %s", store, localRedis)
	}
	return nil
}

// open returns where to act, and how to close it. Scope is that of ad hoc limits.
func (f *deskFlags) open(ctx context.Context, s *system, scope string) (desk, func(), error) {
	if f.Store == "" {
		c, err := f.client()
		return c, func() {}, err
	}
	var set *policy.Set
	prefix := ""
	if f.Config != "" {
		var err error
		if set, err = s.load(f.Config); err != nil {
			return nil, nil, wrongUse(err)
		}
		prefix = set.Store().Prefix
	}
	store, err := openRedis(ctx, f.Store, prefix, s)
	if err != nil {
		return nil, nil, err
	}
	c := control.Config{Store: store, Inspector: store, Limits: f.Limit, Scope: scope}
	if set != nil {
		c.Set = func() *policy.Set { return set }
	}
	return control.New(c), func() { _ = store.Close() }, nil
}

// openRedis connects to a Redis. An empty prefix is the usual one.
func openRedis(ctx context.Context, store, prefix string, s *system) (*redisstore.Store, error) {
	where := redisURL(store)
	options := []redisstore.Option{redisstore.WithLogger(slog.New(slog.NewTextHandler(s.Stderr, nil)))}
	if prefix != "" {
		options = append(options, redisstore.WithPrefix(prefix))
	}
	opened, err := redisstore.Open(ctx, where, options...)
	if _, unreadable := rueidis.ParseURL(where); unreadable != nil {
		return nil, wrongUse(err)
	}
	if err != nil {
		return nil, &exitError{exitUnreachable, redisProblem(err, where)}
	}
	return opened, nil
}

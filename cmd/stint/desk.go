package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/server"
	"github.com/stint-limiter/stint/server/control"
)

// desk is where commands act on subjects: a running server, or a store.
type desk interface {
	Subject(ctx context.Context, t control.Target) (control.Subject, error)
	Reset(ctx context.Context, t control.Target) (control.Named, error)
	Ban(ctx context.Context, t control.Target, length time.Duration) (control.Named, error)
	Unban(ctx context.Context, t control.Target) (control.Named, error)
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
	Token     string `name:"token" placeholder:"TOKEN" env:"STINT_TOKEN" help:"The bearer token for it. Others on this machine can see it in a command line, and in the environment they cannot. Default: for a server on this machine, the one that it has made."`
	TokenFile string `name:"token-file" placeholder:"FILE" help:"A file with the token, such as the server's own --admin-token-file: the first one in it."`

	tried string // what to say of the token if the server refuses it
}

// localAdmin is where servers are that nobody names.
const localAdmin = "http://127.0.0.1:6070"

// client returns a client of the server. The token that a server on this machine has made is sent to this machine only.
func (f *serverFlags) client() (*control.Client, error) {
	where, token := cmp.Or(f.Server, localAdmin), f.Token
	switch {
	case f.TokenFile != "":
		var err error
		if token, err = firstToken(f.TokenFile); err != nil {
			return nil, wrongUse(fmt.Errorf("--token-file: %w", err))
		}
		f.tried = "it does not know that of " + f.TokenFile
	case token != "":
		f.tried = "it does not know the one that it was given"
	case onThisMachine(where):
		found, path, err := localToken()
		if token = found; err != nil {
			f.tried = err.Error()
		} else {
			f.tried = "it does not know that of " + path + "; its log says in which file its own is"
		}
	default:
		f.tried = "it was given none"
	}
	c, err := control.NewClient(where, token)
	if err != nil {
		return nil, wrongUse(withoutPackage(err))
	}
	return c, nil
}

// problem returns an error of the server, or of a desk, for people at a command line: with what to do about it, and with its exit
// code.
func (f *serverFlags) problem(err error) error {
	var refused *control.RefusedError
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		return &exitError{exitUnreachable, fmt.Errorf("the server wants one of its tokens: %s; give one with --token-file or in STINT_TOKEN", f.tried)}
	}
	return problem(err)
}

// subjectFlags say whom a command is about.
type subjectFlags struct {
	Subject string `arg:"" help:"Who, such as user:42 or ip:203.0.113.9."`
	Raw     bool   `name:"raw" help:"Take the subject as it is. By default it is read as the configuration has subjects: an address becomes what it is counted under."`
}

func (f *subjectFlags) target() control.Target { return control.TargetOf(f.Subject, f.Raw) }

// noteText is a note on a subject, after all else on a line.
func noteText(note string) string {
	if note == "" {
		return ""
	}
	return " (" + oneLine(note) + ")"
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
		return fmt.Errorf("--store: want redis, or a URL such as %s%s", localRedis, nearest.Hint(store, []string{redisStore})) // it may hold a password
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
	var where policy.Store
	if f.Config != "" {
		var err error
		if set, err = s.load(f.Config); err != nil {
			return nil, nil, wrongUse(err)
		}
		where = set.Store()
	}
	where.URL = redisURL(f.Store)
	store, err := openRedis(ctx, where, s)
	if err != nil {
		return nil, nil, err
	}
	c := control.Config{Store: store, Inspector: store, Limits: f.Limit, Scope: scope}
	if set != nil {
		c.Set = func() *policy.Set { return set }
	}
	return control.New(c), func() { _ = store.Close() }, nil
}

// openRedis connects to a Redis, in the way that a configuration has it. It leaves the name key to servers.
func openRedis(ctx context.Context, where policy.Store, s *system) (*redisstore.Store, error) {
	options, err := server.StoreOptions(where, slog.New(slog.NewTextHandler(s.errors(), nil)))
	if err != nil {
		return nil, wrongUse(err)
	}
	opened, err := redisstore.Open(ctx, where.URL, append(options, redisstore.WithExistingNames())...)
	if mistake, ok := errors.AsType[*stint.InvalidError](err); ok {
		return nil, wrongUse(mistake.Err)
	}
	if errors.Is(err, redisstore.ErrNameKey) {
		return nil, wrongUse(err)
	}
	if err != nil {
		return nil, &exitError{exitUnreachable, redisProblem(err, where.URL)}
	}
	return opened, nil
}

package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

// admin inspects and changes subjects, through a running server or directly in a store.
type admin interface {
	Subject(ctx context.Context, t control.Target) (control.Subject, error)
	Reset(ctx context.Context, t control.Target) (control.Named, error)
	Ban(ctx context.Context, t control.Target, length time.Duration) (control.Named, error)
	Unban(ctx context.Context, t control.Target) (control.Named, error)
	Bans(ctx context.Context, n int) ([]control.Ban, error)
	Take(ctx context.Context, a control.TakeRequest) (control.TakeResult, error)
}

type subjectFlags struct {
	Subject string `arg:"" help:"The subject, such as user:42 or ip:203.0.113.9."`
	Raw     bool   `name:"raw" help:"Take the subject literally. By default, the configuration determines how it is read: an address becomes the subject that it is counted under."`
}

func (f *subjectFlags) target() control.Target { return control.TargetOf(f.Subject, f.Raw) }

// noteText returns note in parentheses, to append to a line, or "" if there is no note.
func noteText(note string) string {
	if note == "" {
		return ""
	}
	return " (" + oneLine(note) + ")"
}

type adminFlags struct {
	serverFlags
	Store string `name:"store" placeholder:"URL" help:"Act on Redis instead of a server: redis, or a URL such as redis://localhost:6379/0."`
	storeTLSFlags
	Config string        `name:"config" placeholder:"FILE" help:"The policies, with --store: a file or a directory, as for serve."`
	Limit  []stint.Limit `name:"limit" sep:"none" placeholder:"LIMIT" help:"A limit, with --store and without --config, such as 10/1m. Can be repeated."`
	JSON   bool          `name:"json" help:"Print JSON."`
}

func (f *adminFlags) Validate(k *kong.Context) error {
	switch {
	case f.Store != "" && isGiven(k.Path, "server"):
		return errors.New("--store and --server cannot be used together")
	case f.Store == "" && f.Config != "":
		return errors.New("--config needs --store; a server has its own")
	case f.Store == "" && len(f.Limit) > 0:
		return errors.New("--limit needs --store; a server has its own")
	case f.Config != "" && len(f.Limit) > 0:
		return errors.New("--limit and --config cannot be used together")
	case f.Store == "" && f.storeTLSFlags != (storeTLSFlags{}):
		return errors.New("--store-ca, --store-cert and --store-key need --store; a server has its own, and --ca, --cert and --key are for the connection to it")
	}
	return checkRedis(f.Store)
}

// act calls do with an admin for the server or, with --store, for the store. scope is the scope in
// which the limits of --limit count.
func (f *adminFlags) act(ctx context.Context, s *system, scope string, do func(admin) error) error {
	if f.Store == "" {
		return f.call(func(c *control.Client) error { return do(c) })
	}
	c := control.Config{Limits: f.Limit, Scope: scope}
	var where config.Store
	if f.Config != "" {
		conf, err := s.load(f.Config)
		if err != nil {
			return usageMistake(err)
		}
		where = conf.Store
		c.Set = func() *policy.Set { return conf.Set }
	}
	var err error
	if where.URL, err = f.addTo(redisURL(f.Store)); err != nil {
		return usageMistake(err)
	}
	store, err := openRedis(ctx, where, s)
	if err != nil {
		return err
	}
	defer store.Close()
	c.Store = store
	if c.Set != nil {
		logger := slog.New(slog.NewTextHandler(s.errors(), nil))
		if c.Overrides, err = overrides.Open(ctx, store, overrides.Config{Logger: logger}); err != nil {
			return err
		}
		defer c.Overrides.Close()
	}
	return f.problem(do(control.New(c)))
}

// direct configures a store to send every request to Redis. If Redis cannot be used, requests fail:
// they are not decided in memory, because a command has just started and does not know the usage.
var direct = resilience.Config{
	NoDenyCache: true, NoLeases: true, Logger: slog.New(slog.DiscardHandler),
	Failure: stint.FailurePolicy{Mode: stint.FailError, Budget: 10 * time.Second},
}

// openDirect connects to Redis with the settings of direct. It returns an error if Redis does not
// answer a ping.
func openDirect(ctx context.Context, where config.Store, redis redisstore.Config) (stores.Store, error) {
	store, err := (&config.Config{Store: where}).OpenStore(ctx, stores.Config{Redis: redis, Resilience: direct})
	if err != nil {
		return nil, err
	}
	if err = store.Ping(ctx); err != nil {
		_ = store.Close()
	}
	return store, err
}

// openRedis connects to Redis with the settings in where. If names in Redis are hashed, it uses the
// name key that is in use, but never sets or replaces it; only servers do.
func openRedis(ctx context.Context, where config.Store, s *system) (stores.Store, error) {
	store, err := openDirect(ctx, where, redisstore.Config{
		ExistingNames: true, Logger: slog.New(slog.NewTextHandler(s.errors(), nil)),
	})
	if mistake, ok := errors.AsType[*stint.InvalidError](err); ok {
		return nil, usageMistake(mistake.Err)
	}
	if errors.Is(err, redisstore.ErrNameKey) {
		return nil, usageMistake(err)
	}
	if err != nil {
		return nil, unreachable(redisProblem(err, where.URL))
	}
	return store, nil
}

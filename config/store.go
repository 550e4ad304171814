package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/tlsfiles"
	"github.com/stint-limiter/stint/stores"
)

// memory is the URL of a store in memory.
const memory = "memory"

// Store holds the store settings of a configuration.
type Store struct {
	// URL is "memory" or the URL of a Redis server.
	URL string
	// Prefix is the prefix of all keys; "" means the store's default.
	Prefix string
	// CAFile is a file with the CA certificates for Redis over TLS. CertFile is a file with a
	// client certificate, and KeyFile is a file with its private key. If the configuration sets the
	// URL of a Redis server, the parameters in URL also name these files.
	CAFile, CertFile, KeyFile string
	// Memory is the maximum size of an in-memory store, in bytes; 0 means the store's default.
	Memory int64
	// NameKeyFile is the file with the key for hashing subjects in Redis; "" means none.
	// PreviousNameKeyFile is the file with the key that was used before the one in NameKeyFile; ""
	// means none.
	NameKeyFile, PreviousNameKeyFile string
}

// OpenStore opens the store of the configuration, with all its settings: prefix, memory, name keys,
// TLS files, failure policy, instances and breaker. Settings in the [stores.Config] take
// precedence. They can also add an observer or a logger, or select another store (Redis.URL or
// Redis.Client).
//
//	store, err := c.OpenStore(ctx, stores.Config{})
//
// See [stores.Config.Open] for the errors, and for how long OpenStore waits for Redis.
func (c *Config) OpenStore(ctx context.Context, with stores.Config) (stores.Store, error) {
	where, named, r := c.Store, with.Redis.URL != "", &with.Resilience
	where.URL = cmp.Or(with.Redis.URL, where.URL)
	switch own := with.Redis.Client != nil || with.Redis.AdjustClient != nil; {
	case own && !named && where.URL == memory: // the program's client replaces the default store.url
		where.URL = ""
	case !own && where.URL == "":
		where.URL = memory
	}
	with.Memory.MaxBytes = cmp.Or(with.Memory.MaxBytes, where.Memory)
	if c.Set != nil {
		r.Failure = cmp.Or(r.Failure, c.Set.Spec().Failure)
	}
	r.Instances, r.LocalBytes = cmp.Or(r.Instances, c.Instances), cmp.Or(r.LocalBytes, c.LocalBytes)
	r.BreakerFailures = cmp.Or(r.BreakerFailures, c.BreakerFailures)
	r.BreakerProbe, r.BreakerRetry = cmp.Or(r.BreakerProbe, c.BreakerProbe), cmp.Or(r.BreakerRetry, c.BreakerRetry)
	if where.URL == memory {
		const inMemory = " Redis, but the store is in memory; set the URL of a Redis server in store.url (or for a server in --store or REDIS_URL)"
		switch { // no error if the program itself asks for memory: it is probably a test
		case !named && where.NameKeyFile != "":
			return nil, &stint.InvalidError{Err: errors.New("store.name_key_file needs" + inMemory)}
		case !named && where.CAFile+where.CertFile != "":
			return nil, &stint.InvalidError{Err: errors.New("store.ca_file and store.cert_file need" + inMemory)}
		}
		return with.Open(ctx, memory)
	}
	with.Redis.Prefix = cmp.Or(with.Redis.Prefix, where.Prefix)
	if with.Redis.NameKeys == nil {
		var err error
		if with.Redis.NameKeys, err = where.nameKeys(cmp.Or(with.Redis.Logger, r.Logger, slog.Default())); err != nil {
			return nil, &stint.InvalidError{Err: err}
		}
	}
	files := tlsfiles.Files{CA: where.CAFile, Cert: where.CertFile, Key: where.KeyFile}
	if where.URL == "" && files != (tlsfiles.Files{}) {
		return nil, &stint.InvalidError{Err: errors.New("store.ca_file and store.cert_file need store.url; the program's client has no URL")}
	}
	return with.Open(ctx, files.AddTo(where.URL, false))
}

// nameKeys reads the files with name keys. It warns about files that any user of this machine can
// read.
func (s *Store) nameKeys(logger *slog.Logger) (keys [][]byte, err error) {
	for _, file := range []struct{ key, path string }{
		{"name_key_file", s.NameKeyFile}, {"previous_name_key_file", s.PreviousNameKeyFile},
	} {
		if file.path == "" {
			break
		}
		secret, err := callers.ReadSecret(file.path)
		if err != nil {
			return nil, fmt.Errorf("store.%s: %w", file.key, err)
		}
		callers.WarnReadable(logger, "name key", file.path)
		keys = append(keys, secret)
	}
	return keys, nil
}

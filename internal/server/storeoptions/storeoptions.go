// Package storeoptions turns the store section of a configuration into the settings of a store, for
// the server and for commands that open the store themselves.
package storeoptions

import (
	"fmt"
	"log/slog"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/tlsfiles"
	"github.com/stint-limiter/stint/redisstore"
)

// URL returns the URL of a Redis. It names the certificates of the configuration, unless it named
// others itself.
func URL(where config.Store) string {
	return tlsfiles.Files{CA: where.CAFile, Cert: where.CertFile, Key: where.KeyFile}.AddTo(where.URL, false)
}

// Redis returns the settings of a store over Redis. It reads the files with name keys, and warns
// about those that everyone on the machine can read.
func Redis(where config.Store, logger *slog.Logger) (redisstore.Config, error) {
	c := redisstore.Config{URL: URL(where), Prefix: where.Prefix, Logger: logger}
	for _, file := range []struct{ key, path string }{
		{"name_key_file", where.NameKeyFile}, {"previous_name_key_file", where.PreviousNameKeyFile},
	} {
		if file.path == "" {
			break
		}
		secret, err := callers.ReadSecret(file.path)
		if err != nil {
			return c, fmt.Errorf("store.%s: %w", file.key, err)
		}
		callers.WarnReadable(logger, "name key", file.path)
		c.NameKeys = append(c.NameKeys, secret)
	}
	return c, nil
}

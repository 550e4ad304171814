package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/tlsfiles"
)

const redisEnv = "REDIS_URL"

// Names that --store accepts besides URLs. redisStore means the URL in REDIS_URL, or urlExample if
// REDIS_URL is not set.
const (
	memoryStore = "memory"
	redisStore  = "redis"
	urlExample  = "redis://localhost:6379/0"
)

// redisURL replaces redisStore with the URL that it means. It returns other values unchanged.
func redisURL(store string) string {
	if store == redisStore {
		return cmp.Or(envURL(), urlExample)
	}
	return store
}

// envURL returns the URL in the environment, or "". It removes the line break at the end of a URL
// that comes from a file.
func envURL() string { return strings.TrimSpace(os.Getenv(redisEnv)) }

// checkStore returns an error for a --store that is neither "", a URL nor one of the names. The
// error does not contain the value, which may hold a password.
func checkStore(store string, names ...string) error {
	if store == "" || slices.Contains(names, store) || strings.Contains(store, "://") {
		return nil
	}
	return fmt.Errorf("--store: want %s, or a URL such as %s%s", strings.Join(names, ", "), urlExample,
		messages.Hint(store, names))
}

// checkRedis returns an error for a --store that is not Redis. It accepts "".
func checkRedis(store string) error {
	if store == memoryStore {
		return errors.New("--store: a memory store exists only in a server's process; specify the server with --server")
	}
	return checkStore(store, redisStore)
}

type storeTLSFlags struct {
	StoreCA   string `name:"store-ca" placeholder:"FILE" help:"CA certificates that the certificate of a Redis server with rediss:// is checked against, in PEM form. Default: as set in the policies, else the system's."`
	StoreCert string `name:"store-cert" placeholder:"FILE" help:"A client certificate for Redis, with its chain, in PEM form."`
	StoreKey  string `name:"store-key" placeholder:"FILE" help:"The private key of --store-cert."`
}

// addTo adds the TLS files from the flags to the URL of a store, replacing files that the URL
// names. Without such flags, it returns store unchanged.
func (f *storeTLSFlags) addTo(store string) (string, error) {
	files := tlsfiles.Files{CA: f.StoreCA, Cert: f.StoreCert, Key: f.StoreKey}
	if files == (tlsfiles.Files{}) {
		return store, nil
	}
	if err := files.Check("--store-cert", "--store-key"); err != nil {
		return "", err
	}
	if store == "" || store == memoryStore {
		return "", errors.New("--store-ca, --store-cert and --store-key need a Redis URL in --store or " + redisEnv +
			"; for the Redis URL of the policies, set store.ca_file, store.cert_file and store.key_file there")
	}
	return files.AddTo(store, true), nil
}

package main

import (
	"errors"

	"github.com/stint-limiter/stint/internal/tlsfiles"
)

type storeTLSFlags struct {
	StoreCA   string `name:"store-ca" placeholder:"FILE" help:"CA certificates that the certificate of a Redis server with rediss:// is checked against, in PEM form. Default: as set in the policies, else the system's."`
	StoreCert string `name:"store-cert" placeholder:"FILE" help:"A client certificate for Redis, with its chain, in PEM form."`
	StoreKey  string `name:"store-key" placeholder:"FILE" help:"The private key of --store-cert."`
}

// addTo adds the files that the flags name to the URL of a store, in place of files in the URL.
// Without such flags, it returns store unchanged.
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

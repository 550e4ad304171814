package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/stint-limiter/stint/internal/reload"
)

// TLS are the files that make all listeners speak TLS. They are read again when they change.
type TLS struct {
	// Cert and Key are PEM files: the certificate with its chain, and its key. Both or neither.
	Cert, Key string
	// ClientCA is a PEM file with authorities. If it is set, clients need a certificate of one of them.
	ClientCA string
}

func (t *TLS) validate() error {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return errors.New("TLS needs both a certificate and a key (--tls-cert and --tls-key)")
	case t.ClientCA != "" && t.Cert == "":
		return errors.New("client certificates need TLS: a certificate and a key (--tls-cert and --tls-key)")
	}
	return nil
}

// maxPEM is the largest size of all files together in bytes.
const maxPEM = 4 << 20

// certificates are what listeners prove themselves by. They can change at any time: the next connection has
// the new ones.
type certificates struct {
	config atomic.Pointer[tls.Config]
	files  *reload.Watcher
}

// newCertificates reads certificates; if there are none to read it returns nil.
func newCertificates(t TLS, logger *slog.Logger, reloaded func(reload.Result)) (*certificates, error) {
	if t.Cert == "" {
		return nil, nil
	}
	paths := []string{t.Cert, t.Key}
	if t.ClientCA != "" {
		paths = append(paths, t.ClientCA)
	}
	c := &certificates{}
	var err error
	c.files, err = reload.New(reload.Config{
		Name:     "server: the certificate",
		Paths:    paths,
		Open:     func() ([]reload.File, error) { return reload.ReadFiles(maxPEM, paths...) },
		Logger:   logger,
		Reloaded: reloaded,
		Read: func(files []reload.File) (func(), error) {
			warnReadable(logger, "TLS key", t.Key)
			config, err := readCertificates(files, len(paths))
			return func() { c.config.Store(config) }, err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("server: TLS: %w", err)
	}
	return c, nil
}

// readCertificates makes a configuration of a certificate, its key and, if want is three, the authorities of clients.
func readCertificates(files []reload.File, want int) (*tls.Config, error) {
	size := 0
	for _, f := range files {
		size += len(f.Text)
	}
	if len(files) < want || size > maxPEM {
		return nil, fmt.Errorf("%s: the files are larger than %d bytes", files[len(files)-1].Name, maxPEM)
	}
	pair, err := tls.X509KeyPair(files[0].Text, files[1].Text)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", files[0].Name, files[1].Name, err)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{pair},
	}
	if want > 2 {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(files[2].Text) {
			return nil, fmt.Errorf("%s: no certificate of an authority in PEM form", files[2].Name)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.SessionTicketsDisabled = true // a client is held against the authorities of today
	}
	return config, nil
}

// listen returns the configuration of a listener, which looks up the certificates for every connection.
func (c *certificates) listen() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config.Load(), nil },
	}
}

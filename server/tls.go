package server

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/tlsfiles"
)

func (c *Config) validateTLS() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("Config.TLSCert and Config.TLSKey: want both or neither")
	case c.ClientCA != "" && c.TLSCert == "":
		return errors.New("Config.ClientCA needs Config.TLSCert and Config.TLSKey")
	}
	return nil
}

// maxPEM is the maximum total size, in bytes, of a certificate, its key and the CA certificates.
const maxPEM = 4 << 20

// certificates holds the certificates of the listeners. When they change, new connections use the
// new certificates.
type certificates struct {
	config atomic.Pointer[tls.Config]
	files  *reload.Watcher
}

// newCertificates reads the certificates. It returns nil if none are configured.
func newCertificates(config *Config, reloaded func(reload.Result)) (*certificates, error) {
	if config.TLSCert == "" {
		return nil, nil
	}
	paths := []string{config.TLSCert, config.TLSKey}
	if config.ClientCA != "" {
		paths = append(paths, config.ClientCA)
	}
	c := &certificates{}
	c.files = reload.New(reload.Config{
		Name:     "server: the certificate",
		Paths:    paths,
		Open:     func() ([]reload.File, error) { return reload.ReadFiles(maxPEM, paths...) },
		Logger:   config.Logger,
		Reloaded: reloaded,
		Read: func(files []reload.File) (func() reload.InForce, error) {
			callers.WarnReadable(config.Logger, "TLS key", config.TLSKey)
			read, err := readCertificates(files)
			if err != nil {
				return nil, err
			}
			return func() reload.InForce {
				c.config.Store(read)
				return reload.InForce{Expires: read.Certificates[0].Leaf.NotAfter}
			}, tlsfiles.Replaces(config.TLSCert, c.config.Load(), read, time.Now())
		},
	})
	if err := c.files.Reload().Err; err != nil {
		return nil, fmt.Errorf("server: TLS: %w", err)
	}
	return c, nil
}

// readCertificates parses a certificate, its key and, if there is a third file, the CA certificates
// for clients. It refuses files with more than maxPEM bytes in total, because they may have been
// read only in part.
func readCertificates(files []reload.File) (*tls.Config, error) {
	size := 0
	for _, f := range files {
		size += len(f.Text)
	}
	if size > maxPEM {
		return nil, fmt.Errorf("%s: the files are larger than %d bytes", files[len(files)-1].Name, maxPEM)
	}
	pair, err := tlsfiles.Pair(files[0].Name, files[0].Text, files[1].Name, files[1].Text)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{pair},
	}
	if len(files) > 2 {
		if config.ClientCAs, err = tlsfiles.Authorities(files[2].Name, files[2].Text); err != nil {
			return nil, err
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		// Without tickets, every certificate is checked against the current authorities.
		config.SessionTicketsDisabled = true
	}
	return config, nil
}

// watchStoreFiles returns a source that watches the TLS files for Redis, or nil if there are none.
// Redis connections read these files themselves. The watcher only reports changes to the files and
// the expiry of the certificate.
func (s *Server) watchStoreFiles() *source {
	where := s.config.Store
	files := tlsfiles.Files{CA: where.CAFile, Cert: where.CertFile, Key: where.KeyFile}
	u, err := url.Parse(files.AddTo(cmp.Or(s.c.Store, where.URL), false))
	if err != nil {
		return nil
	}
	files = tlsfiles.FromQuery(u.Query())
	paths := slices.DeleteFunc([]string{files.CA, files.Cert, files.Key}, func(path string) bool { return path == "" })
	if len(paths) == 0 {
		return nil
	}
	var good *tls.Config
	const name = "certificate for Redis"
	return &source{name, strings.Join(paths, ", "), reload.New(reload.Config{
		Name:     "server: the " + name,
		Paths:    paths,
		Open:     func() ([]reload.File, error) { return reload.ReadFiles(maxPEM, paths...) },
		Logger:   s.c.Logger,
		Reloaded: s.reloaded(name),
		Read: func([]reload.File) (func() reload.InForce, error) {
			read, err := files.Again(&tls.Config{}, good)
			return func() (in reload.InForce) {
				if good = read; len(read.Certificates) > 0 {
					in.Expires = read.Certificates[0].Leaf.NotAfter
				}
				return in
			}, err
		},
	})}
}

// listen returns a TLS configuration that uses the current certificates for every new connection.
func (c *certificates) listen() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config.Load(), nil },
	}
}

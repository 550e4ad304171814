// Package tlsfiles reads CA certificates, certificates and keys in PEM form. Its errors name the
// file and what is wrong with it.
package tlsfiles

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"
)

// Files are what a client of a server with TLS reads. What is "" is not used.
type Files struct {
	// CA has the CA certificates that the server's certificate is checked against, instead of the
	// system's.
	CA string
	// Cert has the client's own certificate with its chain, and Key its key.
	Cert, Key string
}

// Check reports whether one half of the client's certificate is missing. Names are what the caller
// calls the certificate and the key.
func (f Files) Check(cert, key string) error {
	switch {
	case f.Cert != "" && f.Key == "":
		return fmt.Errorf("%s needs %s, the key of the certificate", cert, key)
	case f.Cert == "" && f.Key != "":
		return fmt.Errorf("%s needs %s, the certificate of the key", key, cert)
	}
	return nil
}

// Apply reads the files into the configuration of a client.
func (f Files) Apply(c *tls.Config) error {
	if f.CA != "" {
		text, err := read(f.CA)
		if err != nil {
			return err
		}
		if c.RootCAs, err = Authorities(f.CA, text); err != nil {
			return err
		}
	}
	if f.Cert == "" {
		return nil
	}
	cert, err := read(f.Cert)
	if err != nil {
		return err
	}
	key, err := read(f.Key)
	if err != nil {
		return err
	}
	pair, err := Pair(f.Cert, cert, f.Key, key)
	if err != nil {
		return err
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}

// Again reads the files into a copy of the configuration of a client, given the one that was read
// before; nil is none.
func (f Files) Again(c, before *tls.Config) (*tls.Config, error) {
	c = c.Clone()
	if err := f.Apply(c); err != nil {
		return nil, err
	}
	return c, Replaces(f.Cert, before, c, time.Now())
}

func read(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("%s: %w", path, wrong.Err)
	}
	return text, err
}

// Authorities reads the text of a file with CA certificates.
func Authorities(name string, text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no CA certificate in PEM form", name)
	}
	return pool, nil
}

// Pair reads the texts of a file with a certificate and its chain, and of one with its key.
func Pair(certName string, cert []byte, keyName string, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("%s and %s: %w", certName, keyName, err)
	}
	return pair, nil
}

// Valid reports why a certificate is not valid at a time; nil if it is.
func Valid(name string, leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%s: the certificate expired on %s", name, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%s: the certificate is not valid before %s", name, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// Replaces reports why the certificate of a configuration does not replace that of another, nil if
// it does: one that is not valid replaces none that is. Either may have none.
func Replaces(name string, was, is *tls.Config, now time.Time) error {
	if was == nil || len(was.Certificates) == 0 || len(is.Certificates) == 0 {
		return nil
	}
	old := was.Certificates[0].Leaf
	err := Valid(name, is.Certificates[0].Leaf, now)
	if err == nil || Valid(name, old, now) != nil {
		return nil
	}
	return fmt.Errorf("%w; the one in force is valid until %s", err, old.NotAfter.UTC().Format(time.RFC3339))
}

// The parameters of a URL that name files.
const (
	CAParameter   = "ca_file"
	CertParameter = "cert_file"
	KeyParameter  = "key_file"
)

// FromQuery returns the files that the parameters of a URL name.
func FromQuery(q url.Values) Files {
	return Files{CA: q.Get(CAParameter), Cert: q.Get(CertParameter), Key: q.Get(KeyParameter)}
}

// AddTo adds the files to the parameters of a URL. Files that the URL names already are replaced if
// override is true, a certificate together with its key. A URL that cannot be read stays as it is.
func (f Files) AddTo(text string, override bool) string {
	u, err := url.Parse(text)
	if err != nil || f == (Files{}) {
		return text
	}
	q := u.Query()
	own := FromQuery(q)
	if !override {
		f, own = own, f
	}
	if f.Cert == "" && f.Key == "" {
		f.Cert, f.Key = own.Cert, own.Key
	}
	f.CA = cmp.Or(f.CA, own.CA)
	for name, path := range map[string]string{CAParameter: f.CA, CertParameter: f.Cert, KeyParameter: f.Key} {
		if path != "" {
			q.Set(name, path)
		} else {
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

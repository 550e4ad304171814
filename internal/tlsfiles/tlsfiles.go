// Package tlsfiles reads CA certificates, certificates and keys in PEM form. Its errors name the
// file and the problem.
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

// Files names the files that a TLS client reads. An empty name means no file.
type Files struct {
	// CA is the file with the CA certificates that verify the server's certificate. They replace
	// the system's CA certificates.
	CA string
	// Cert is the file with the client's own certificate and its chain. Key is the file with the
	// private key.
	Cert, Key string
}

// Check returns an error if only one of Cert and Key is set. cert and key are the names of the two
// settings, for the error message.
func (f Files) Check(cert, key string) error {
	switch {
	case f.Cert != "" && f.Key == "":
		return fmt.Errorf("%s needs %s, the key of the certificate", cert, key)
	case f.Cert == "" && f.Key != "":
		return fmt.Errorf("%s needs %s, the certificate of the key", key, cert)
	}
	return nil
}

// Apply reads the files into c, the TLS configuration of a client.
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

// Again returns a copy of c, the TLS configuration of a client, after reading the files into it.
// before is the last good configuration, or nil. Again also returns an error if the new certificate
// must not replace that of the last good configuration; see [Replaces].
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

// Authorities parses CA certificates in PEM form. name is the name of their file, for errors.
func Authorities(name string, text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no CA certificate in PEM form", name)
	}
	return pool, nil
}

// Pair parses a certificate with its chain, and its key. certName and keyName are the names of
// their files, for errors.
func Pair(certName string, cert []byte, keyName string, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("%s and %s: %w", certName, keyName, err)
	}
	return pair, nil
}

// Valid returns an error that explains why a certificate is not valid at the time now, or nil if it
// is valid. name is the name of its file.
func Valid(name string, leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%s: the certificate expired on %s", name, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%s: the certificate is not valid before %s", name, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// Replaces returns an error if the old certificate, in was, is valid at the time now but the new
// certificate is not. It returns nil if there is no old configuration, or if one of the
// configurations has no certificate. name is the name of the new certificate's file.
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

// URL parameters that name files.
const (
	CAParameter   = "ca_file"
	CertParameter = "cert_file"
	KeyParameter  = "key_file"
)

// FromQuery returns the files that are named in the parameters of a URL.
func FromQuery(q url.Values) Files {
	return Files{CA: q.Get(CAParameter), Cert: q.Get(CertParameter), Key: q.Get(KeyParameter)}
}

// AddTo returns text, a URL, with the files added to its parameters. If override is true, the files
// replace those that the URL already names; otherwise, those stay. A certificate is always replaced
// together with its key. If text is not a URL, AddTo returns it unchanged.
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

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartTLS runs a server that uses only TLS, with a certificate made for this test. A client
// certificate is optional; pass "--tls-auth-clients", "yes" to require it.
func StartTLS(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t)
	var err error
	if s.tls, err = writeCertificate(s.dir, longValid); err != nil {
		t.Fatalf("redistest: certificate: %v", err)
	}
	s.portFlag = "--tls-port"
	cert, key := s.CertificateFiles()
	s.args = append(s.args,
		"--port", "0",
		"--tls-ca-cert-file", cert,
		"--tls-cert-file", cert,
		"--tls-key-file", key,
		"--tls-auth-clients", "optional",
	)
	s.args = append(s.args, args...)
	s.mustStart(t)
	return s
}

// CertificateFiles returns the paths of the self-signed certificate and its key, which a server
// from [StartTLS] and its clients share.
func (s *Server) CertificateFiles() (cert, key string) {
	return filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
}

// NewCertificate writes a self-signed certificate for 127.0.0.1 and localhost, and its key, for
// servers and clients other than Redis. It returns the paths of both files.
func NewCertificate(t testing.TB) (cert, key string) { return CertificateFor(t, longValid) }

// longValid is how long certificates are valid by default. It is longer than the time before expiry
// at which stint starts to warn.
const longValid = 90 * 24 * time.Hour

// CertificateFor is like [NewCertificate], but the certificate expires after the given time. If the
// time is negative, the certificate has already expired.
func CertificateFor(t testing.TB, valid time.Duration) (cert, key string) {
	t.Helper()
	directory := t.TempDir()
	if _, err := writeCertificate(directory, valid); err != nil {
		t.Fatalf("redistest: certificate: %v", err)
	}
	return (&Server{dir: directory}).CertificateFiles()
}

// writeCertificate creates a certificate for 127.0.0.1 and localhost that servers and clients use
// and trust. It writes the certificate and its key to a directory, and returns the TLS
// configuration for clients.
func writeCertificate(dir string, valid time.Duration) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "localhost"},
		NotBefore:             time.Now().Add(-48 * time.Hour),
		NotAfter:              time.Now().Add(valid),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	for name, data := range map[string][]byte{"cert.pem": certPEM, "key.pem": keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}}, nil
}

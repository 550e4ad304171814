package server

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  crypto.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	cert, key := redistest.NewCertificate(t)
	pair := testkit.Must(tls.LoadX509KeyPair(cert, key))(t)
	return &authority{t: t, cert: pair.Leaf, key: pair.PrivateKey, pem: testkit.ReadFile(t, cert)}
}

// sign returns a certificate for 127.0.0.1 and its key.
func (a *authority) sign(name string) (cert, key string) {
	a.t.Helper()
	private := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := testkit.Must(x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key))(a.t)
	keyDER := testkit.Must(x509.MarshalPKCS8PrivateKey(private))(a.t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// secure has the listeners of a server speak TLS, with a certificate of the authority.
func (a *authority) secure(c *Config) {
	directory := a.t.TempDir()
	c.TLSCert, c.TLSKey = filepath.Join(directory, "cert.pem"), filepath.Join(directory, "key.pem")
	a.swap(c, "server")
}

// swap replaces the certificate of the listeners.
func (a *authority) swap(c *Config, name string) {
	cert, key := a.sign(name)
	testkit.WriteFile(a.t, c.TLSCert, cert)
	testkit.WriteFile(a.t, c.TLSKey, key)
}

// client returns the configuration of a client that believes the authority and, if it has a name,
// shows a certificate.
func (a *authority) client(name string) *tls.Config {
	a.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.cert)
	if name != "" {
		cert, key := a.sign(name)
		pair := testkit.Must(tls.X509KeyPair([]byte(cert), []byte(key)))(a.t)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// served returns the name in the certificate of a listener, as a client sees it that asks something
// of it.
func servedBy(t *testing.T, r *running, listener Listener, config *tls.Config) (string, error) {
	t.Helper()
	config = config.Clone()
	name := ""
	config.VerifyConnection = func(state tls.ConnectionState) error {
		name = state.PeerCertificates[0].Subject.CommonName
		return nil
	}
	if listener == GRPC {
		conn := r.dial(grpc.WithTransportCredentials(credentials.NewTLS(config)))
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := ask(ctx, conn, "a")
		return name, err
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("https://" + r.Addr(listener).String() + "/livez")
	if err != nil {
		return name, err
	}
	_ = response.Body.Close()
	if response.ProtoMajor != 2 {
		t.Errorf("%s: got %s, want HTTP/2", listener, response.Proto)
	}
	return name, nil
}

// TestTLS has every listener speak TLS, and show a new certificate when there is one, but not a
// broken one.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	c := everywhere(t)
	a.secure(&c)
	r := start(t, c)
	all := func(want string) {
		t.Helper()
		for _, listener := range []Listener{HTTP, GRPC, Admin} {
			if name, err := servedBy(t, r, listener, a.client("")); name != want || err != nil {
				t.Errorf("%s: got %q, %v; want %q", listener, name, err, want)
			}
		}
	}
	all("server")
	if response, err := http.Get(r.url(HTTP, "/livez")); err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: got %s", response.Status)
		}
	}
	a.swap(&c, "second")
	testkit.Eventually(t, "the second certificate", func() bool {
		name, _ := servedBy(t, r, HTTP, a.client(""))
		return name == "second"
	})
	all("second")
	cert, _ := a.sign("third")
	testkit.WriteFile(t, c.TLSCert, cert) // with the key of the second
	r.wantReload("private key does not match public key")
	all("second")
	valid := a.cert.NotAfter
	a.cert.NotAfter = time.Now().Add(-time.Minute) // of what it signs
	a.swap(&c, "expired")
	a.cert.NotAfter = valid
	r.wantReload("the certificate expired on")
	all("second")
}

// TestStoreCertificates: a change of the files for Redis is reported, and an expired certificate
// refused.
func TestStoreCertificates(t *testing.T) {
	redis := redistest.StartTLS(t)
	cert, key := redis.CertificateFiles() // which it accepts from clients, too
	mine, secret := testkit.TempFile(t, "cert.pem", testkit.ReadFile(t, cert)), testkit.TempFile(t, "key.pem", testkit.ReadFile(t, key))
	swap := func(cert, key string) {
		testkit.WriteFile(t, mine, testkit.ReadFile(t, cert))
		testkit.WriteFile(t, secret, testkit.ReadFile(t, key))
	}
	c := everywhere(t)
	c.Store = "rediss://" + redis.Addr() + "?ca_file=" + cert + "&cert_file=" + mine + "&key_file=" + secret
	r := start(t, c)
	swap(redistest.CertificateFor(t, -time.Minute))
	r.wantReload(mine + ": the certificate expired on")
	swap(cert, key)
	r.wantReload("")
}

// TestMutualTLS has clients prove themselves, on every listener, to the authorities of today.
func TestMutualTLS(t *testing.T) {
	a, clients, others := newAuthority(t), newAuthority(t), newAuthority(t)
	c := everywhere(t)
	a.secure(&c)
	c.ClientCA = testkit.TempFile(t, "ca.pem", clients.pem)
	r := start(t, c)
	by := func(signer *authority) *tls.Config {
		config := a.client("")
		if signer != nil {
			config.Certificates = signer.client("client").Certificates
		}
		return config
	}
	check := func(signer *authority, good bool) {
		t.Helper()
		for _, listener := range []Listener{HTTP, GRPC, Admin} {
			if _, err := servedBy(t, r, listener, by(signer)); (err == nil) != good {
				t.Errorf("%s: got %v, want good %v", listener, err, good)
			}
		}
	}
	check(nil, false)
	check(others, false)
	check(clients, true)
	testkit.WriteFile(t, c.ClientCA, others.pem)
	r.wantReload("")
	check(clients, false)
	check(others, true)
	testkit.WriteFile(t, c.ClientCA, "none\n")
	r.wantReload("no CA certificate")
	check(nil, false)
	check(others, true)
}

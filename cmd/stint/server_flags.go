package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/tlsfiles"
)

type serverFlags struct {
	Server    string `name:"server" placeholder:"URL" env:"STINT_SERVER" help:"The admin listener of a running server. Default: ${admin}."`
	Token     string `name:"token" placeholder:"TOKEN" env:"STINT_TOKEN" help:"The bearer token for the server. Other users of this machine can see it on the command line, but not in the environment. Default: for a server on this machine, the token that it created."`
	TokenFile string `name:"token-file" placeholder:"FILE" help:"A file whose first token is sent, such as the server's --admin-token-file."`
	CA        string `name:"ca" placeholder:"FILE" env:"STINT_CA" help:"CA certificates that the server's certificate is checked against, in PEM form, such as its own --tls-cert. Default: the system's."`
	Cert      string `name:"cert" placeholder:"FILE" env:"STINT_CERT" help:"A client certificate, with its chain, in PEM form, for a server with --tls-client-ca."`
	Key       string `name:"key" placeholder:"FILE" env:"STINT_KEY" help:"The private key of --cert."`

	tried string       // why the server may reject the token, such as "none was given"
	asked *atomic.Bool // whether the server has asked for a client certificate
}

// localAdmin is the default address of a server. localTLSAdmin is the default if flags name
// certificates.
const (
	localAdmin    = "http://127.0.0.1:6070"
	localTLSAdmin = "https://127.0.0.1:6070"
)

// client returns a client for the server. By default, the client sends the token that a server on
// this machine created, but only to this machine.
func (f *serverFlags) client() (*control.Client, error) {
	where, token := cmp.Or(f.Server, localAdmin), f.Token
	files := tlsfiles.Files{CA: f.CA, Cert: f.Cert, Key: f.Key}
	if files != (tlsfiles.Files{}) {
		where = cmp.Or(f.Server, localTLSAdmin)
		if strings.HasPrefix(where, "http://") {
			return nil, usageMistake(errors.New("--ca, --cert and --key (STINT_CA, STINT_CERT, STINT_KEY) are for TLS, but the address says http; want --server https://" +
				strings.TrimPrefix(label.URL(where), "http://") + ", or none of these flags"))
		}
	}
	switch {
	case f.TokenFile != "":
		var err error
		if token, err = firstToken(f.TokenFile); err != nil {
			return nil, usageMistake(fmt.Errorf("--token-file: %w", err))
		}
		f.tried = "it rejected the one from " + f.TokenFile
	case token != "":
		f.tried = "it rejected the given one"
	case onThisMachine(where):
		found, path, err := localToken()
		if token = found; err != nil {
			f.tried = err.Error()
		} else {
			f.tried = "it rejected the one from " + path + "; the server's log has the path of its token file"
		}
	default:
		f.tried = "none was given"
	}
	c, err := control.NewClient(where, token)
	if err != nil {
		return nil, usageMistake(withoutPrefix(err))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if err := cmp.Or(files.Check("--cert", "--key"), files.Apply(config)); err != nil {
		return nil, usageMistake(err)
	}
	asked := &atomic.Bool{}
	f.asked = asked
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked.Store(true)
		if len(config.Certificates) == 0 {
			return &tls.Certificate{}, nil // an empty certificate means that there is none
		}
		return &config.Certificates[0], nil
	}
	c.UseTLS(config)
	return c, nil
}

// call calls do with a client for the server, and adds advice and an exit code to the error that do
// returns.
func (f *serverFlags) call(do func(*control.Client) error) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	return f.problem(do(client))
}

// tlsProblem describes a TLS problem between a command and a server, and returns the flags that
// would fix it. It returns "" for both if the error has another cause.
func (f *serverFlags) tlsProblem(err error) (what, flags string) {
	silent, ok := errors.AsType[*control.UnreachableError](err)
	if !ok {
		return "", ""
	}
	_, host, _ := strings.Cut(silent.Server, "://")
	with := func(host, ca, cert, key string) string {
		flags := "--server https://" + host
		for _, flag := range [][2]string{{"--ca", ca}, {"--cert", cert}, {"--key", key},
			{"--token-file", f.TokenFile}} {
			if flag[1] != "" {
				flags += " " + flag[0] + " " + flag[1]
			}
		}
		return flags
	}
	var (
		name      x509.HostnameError
		untrusted *tls.CertificateVerificationError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, control.ErrSpeaksTLS):
		return fmt.Sprintf("the server at %s speaks TLS, but the address says http", host), with(host, "FILE", "", "")
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return fmt.Sprintf("the server at %s does not speak TLS, but the address says https", host),
			"--server http://" + host
	case errors.As(err, &name):
		_, port, _ := net.SplitHostPort(host) // "" if the host has no port
		return fmt.Sprintf("the server at %s: %v; NAME must be one that the certificate is valid for", host, name),
			with(strings.TrimSuffix("NAME:"+port, ":"), f.CA, f.Cert, f.Key)
	case errors.As(err, &untrusted):
		return fmt.Sprintf("the server at %s: %v; the file of --ca must contain the CA of its certificate", host,
			untrusted.Err), with(host, "FILE", f.Cert, f.Key)
	case f.asked.Load() && f.Cert != "":
		// The type of this error is not checked: it depends on when the server closes the
		// connection.
		return fmt.Sprintf("the server at %s refuses the client certificate: %v; a CA of its --tls-client-ca must sign it",
			host, silent.Err), with(host, f.CA, "FILE", "FILE")
	case f.asked.Load():
		return fmt.Sprintf("the server at %s requires a client certificate", host), with(host, f.CA, "FILE", "FILE")
	}
	return "", ""
}

// Package redisurl reads the URLs of Redis servers.
package redisurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/tlsfiles"
)

// Begin is the part of an error message that lists the usual schemes of a URL.
const Begin = "does not begin with redis://, rediss:// or unix://"

const urlForms = `want redis://user:password@host:6379/0, rediss:// for TLS, ` +
	`?addr=host:port for more nodes and ?master_set=name for Sentinel`

// passwordParameter is the URL parameter that names the file with the password.
const passwordParameter = "password_file"

var parameters = []string{
	"addr", tlsfiles.CAParameter, tlsfiles.CertParameter, "client_cache", "client_name", "db", "dial_timeout",
	tlsfiles.KeyParameter, "master_set", "max_retries", passwordParameter, "protocol", "skip_verify", "write_timeout",
}

// Is reports whether text begins like the URL of a Redis server.
func Is(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && slices.Contains([]string{"redis", "rediss", "valkey", "valkeys", "unix"}, strings.ToLower(scheme))
}

// IsTLS reports whether text begins like the URL of a Redis server with TLS.
func IsTLS(text string) bool {
	scheme, _, _ := strings.Cut(text, "://")
	return slices.Contains([]string{"rediss", "valkeys"}, strings.ToLower(scheme))
}

// Check checks a URL in the same way as [Parse], but reads no files.
func Check(text string) error {
	if _, _, err := parse(text); err != nil {
		return &stint.InvalidError{Err: fmt.Errorf("the URL of Redis: %w; %s", err, urlForms)}
	}
	return nil
}

// Parse reads a URL, and the files that its parameters ca_file, cert_file, key_file and
// password_file name. New connections read these files again, so that they can be replaced. The
// error is a [*stint.InvalidError] that shows no part of the URL except the names of these files:
// any part of a malformed URL may belong to the password.
func Parse(text string) (rueidis.ClientOption, error) {
	if err := Check(text); err != nil {
		return rueidis.ClientOption{}, err
	}
	option, query, _ := parse(text)
	if err := useFiles(&option, tlsfiles.FromQuery(query)); err != nil {
		return option, &stint.InvalidError{Err: fmt.Errorf("TLS to Redis: %w", err)}
	}
	if err := usePassword(&option, query.Get(passwordParameter)); err != nil {
		return option, &stint.InvalidError{Err: fmt.Errorf("the password of Redis: %w", err)}
	}
	return option, nil
}

// useFiles makes the client use the certificate authorities and the client certificate in the given
// files, for Sentinels as well. Every new connection reads the files again.
func useFiles(option *rueidis.ClientOption, files tlsfiles.Files) error {
	if option.TLSConfig == nil {
		if files != (tlsfiles.Files{}) {
			return errors.New("certificates are set, but the URL does not use TLS; want a URL that begins with rediss://")
		}
		return nil
	}
	if err := files.Check(tlsfiles.CertParameter, tlsfiles.KeyParameter); err != nil {
		return err
	}
	option.Sentinel.TLSConfig = option.TLSConfig
	if err := files.Apply(option.TLSConfig); err != nil || files == (tlsfiles.Files{}) {
		return err
	}
	var good atomic.Pointer[tls.Config]
	good.Store(option.TLSConfig)
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		now, err := files.Again(c, good.Load())
		if err != nil { // keep the last good configuration
			now = c.Clone()
			now.RootCAs, now.Certificates = good.Load().RootCAs, good.Load().Certificates
		} else {
			good.Store(now)
		}
		return (&tls.Dialer{NetDialer: d, Config: now}).DialContext(ctx, "tcp", addr)
	}
	return nil
}

// usePassword makes every connection read the password from a file. While the file cannot be read,
// or is empty because it is being written, connections use the last password.
func usePassword(option *rueidis.ClientOption, path string) error {
	if path == "" {
		return nil
	}
	var good atomic.Pointer[string]
	read := func() error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		password := strings.TrimRight(string(text), "\r\n")
		if password == "" {
			return fmt.Errorf("%s is empty; want the password in its first line", path)
		}
		good.Store(&password)
		return nil
	}
	user := option.Username
	option.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		_ = read() // on an error, the last password stays in use
		return rueidis.AuthCredentials{Username: user, Password: *good.Load()}, nil
	}
	return read()
}

// parse reads a URL and its parameters, but no files.
func parse(text string) (option rueidis.ClientOption, query url.Values, err error) {
	if !Is(text) {
		return option, nil, errors.New("it " + Begin)
	}
	u, err := url.Parse(text)
	if err != nil || misread(u) {
		return option, nil, unreadable(text)
	}
	if err := check(u); err != nil {
		return option, nil, err
	}
	if option, err = rueidis.ParseURL(text); err != nil {
		// Errors of ParseURL have the form "redis: what is wrong: the value".
		if parts := strings.SplitN(err.Error(), ": ", 3); len(parts) == 3 {
			return option, nil, errors.New(parts[1])
		}
		return option, nil, unreadable(text)
	}
	return option, u.Query(), nil
}

// unreadable returns the error for a URL that cannot be parsed. If the URL has a password, the
// password is the usual reason.
func unreadable(text string) error {
	if !strings.Contains(text, "@") {
		return errors.New("it cannot be parsed")
	}
	return errors.New("it cannot be parsed; in a user name or a password " +
		"write % as %25, / as %2F, ? as %3F, # as %23 and a space as %20")
}

// check reports mistakes that rueidis ignores, or detects only when it connects.
func check(u *url.URL) error {
	if u.Hostname() == "" && u.Scheme != "unix" {
		return errors.New("it has no host")
	}
	q := u.Query()
	for name := range q {
		if !slices.Contains(parameters, name) {
			return fmt.Errorf("unknown parameter; want %s%s", strings.Join(parameters, ", "),
				messages.Hint(name, parameters))
		}
	}
	ports := []string{u.Port()}
	for _, addr := range q["addr"] {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return errors.New("an addr is not host:port")
		}
		ports = append(ports, port)
	}
	for _, port := range ports {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil && port != "" {
			return errors.New("a port is not a number up to 65535")
		}
	}
	return nil
}

// misread reports whether a URL has an @ or a fragment after its host. In that case, a slash, a
// question mark or a number sign in the password has probably ended the host too early, and the
// user name was taken for the host. The URL of a Unix socket must have no host, and its path may
// contain an @.
func misread(u *url.URL) bool {
	if u.Scheme == "unix" {
		return u.Host != "" || u.Fragment != ""
	}
	return u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@")
}

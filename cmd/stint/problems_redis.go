package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redisurl"
	"github.com/stint-limiter/stint/internal/tlsfiles"
)

type noRedis int

const (
	redisOther     noRedis = iota
	redisAbsent            // no connection
	redisSilent            // connected, but no answer
	redisLocked            // Redis requires a password, and the URL has none
	redisRefused           // Redis rejects the user or the password
	redisForbids           // Redis accepts the user, but denies a permission that stint needs
	redisUntrusted         // the certificate of Redis is not from a known authority, or not for this host
	redisHungUp            // Redis closed the connection, or refused the TLS handshake
)

const doctorHint = `"stint doctor" with the same --store shows what the user lacks`

// redisFailure classifies an error from connecting to Redis at the URL where. Redis gives its
// reasons only as text, so redisFailure searches the text of the error for them.
func redisFailure(err error, where string) noRedis {
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) })
	}
	var dialling *net.OpError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return redisUntrusted
	case errors.As(err, &dialling) && dialling.Op == "dial":
		return redisAbsent
	case errors.Is(err, context.DeadlineExceeded):
		return redisSilent
	case says("NOAUTH") && !hasPassword(where):
		return redisLocked
	case says("NOAUTH", "WRONGPASS", "invalid password"):
		return redisRefused
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		says("remote error: tls: "): // the server refused the TLS handshake
		return redisHungUp
	case says("NOPERM"), errkind.Of(err) == stint.KindAuth: // errkind also knows errors from scripts
		return redisForbids
	}
	return redisOther
}

func hasPassword(where string) bool {
	u, err := url.Parse(where)
	if err != nil {
		return false
	}
	_, ok := u.User.Password()
	return ok
}

// withPassword returns a URL that shows where the password belongs. PASSWORD replaces a password
// that the URL already has.
func withPassword(where string) string {
	u, err := url.Parse(where)
	if err != nil {
		return "redis://:PASSWORD@host:6379/0"
	}
	u.User = url.UserPassword(userOf(u), "PASSWORD")
	return u.String()
}

// userOf returns the user of a URL that has a password, and "" for any other URL. If a URL has only
// a user, that is most likely a password in the wrong place.
func userOf(u *url.URL) string {
	if _, ok := u.User.Password(); ok {
		return u.User.Username()
	}
	return ""
}

// withOrWithoutTLS returns advice for a connection that may fail because only one side uses TLS.
func withOrWithoutTLS(where string) string {
	if !redisurl.IsTLS(where) {
		return "if the server speaks TLS, begin the URL with rediss://"
	}
	if !strings.Contains(where, tlsfiles.CertParameter+"=") {
		return "if the server does not speak TLS, begin the URL with redis://; if it requires a client certificate, pass --store-cert FILE --store-key FILE"
	}
	return "if the server does not speak TLS, begin the URL with redis://; if it refuses the client certificate, its log says why"
}

const trustAuthority = "pass the CA of its certificate with --store-ca FILE, and use a host name that the certificate is valid for"

// redisProblem adds advice to an error from connecting to Redis.
func redisProblem(err error, where string) error {
	advice := ""
	switch redisFailure(err, where) {
	case redisAbsent:
		advice = "start Redis there, or specify another server with --store"
	case redisSilent:
		advice = "check that it is a Redis server; " + withOrWithoutTLS(where)
	case redisHungUp:
		advice = withOrWithoutTLS(where)
	case redisUntrusted:
		advice = trustAuthority
	case redisLocked:
		advice = "pass the password in the environment, " + redisEnv + "=" + withPassword(where) +
			", with --store redis"
	case redisRefused:
		advice = "fix the user or the password in " + withPassword(where)
	case redisForbids:
		advice = doctorHint
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, advice)
}

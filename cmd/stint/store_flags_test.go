package main

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// patient is the query of a Redis URL for tests, because connecting may take long on a busy
// machine.
const patient = "?dial_timeout=1m"

// TestStoreTLS uses a Redis that requires a client certificate of a private authority. Flags, the
// parameters of a URL, or a configuration name the files.
func TestStoreTLS(t *testing.T) {
	redis := redistest.StartTLS(t, "--tls-auth-clients", "yes")
	cert, key := redis.CertificateFiles()
	missing := filepath.Join(t.TempDir(), "none.pem")
	inURL := redis.URL() + "?" + url.Values{"ca_file": {cert}, "cert_file": {cert}, "key_file": {key}}.Encode()
	file := testkit.TempFile(t, "stint.yaml", fmt.Sprintf("store: {ca_file: %q, cert_file: %q, key_file: %q}\n"+
		"tiers:\n  - {name: all, identity: ip, limits: 10/1m}\n", cert, cert, key))
	limit := []string{"--limit", "10/1m"}
	flags := []string{"--store-ca", cert, "--store-cert", cert, "--store-key", key}
	for name, test := range map[string]struct {
		store  string
		args   []string
		code   int
		stderr string
	}{
		"flags":         {redis.URL() + patient, append(flags, limit...), exitGood, ""},
		"URL":           {inURL + "&dial_timeout=1m", limit, exitGood, ""},
		"configuration": {redis.URL() + patient, []string{"--config", file}, exitGood, ""},
		"flags before URL": {inURL, append([]string{"--store-ca", missing}, limit...), exitUsage,
			"TLS to Redis: " + missing + ": no such file or directory"},
		"URL before file": {redis.URL() + "?ca_file=" + url.QueryEscape(missing), []string{"--config", file},
			exitUsage, missing},
		"unknown authority": {redis.URL() + patient, limit, exitUnreachable, "pass the CA of its certificate with --store-ca FILE"},
		"no certificate":    {redis.URL() + patient, append([]string{"--store-ca", cert}, limit...), exitUnreachable, "if it requires a client certificate, pass --store-cert FILE --store-key FILE"},
		"no key": {redis.URL(), append([]string{"--store-cert", cert}, limit...), exitUsage,
			"--store-cert needs --store-key"},
		"without TLS": {strings.Replace(redis.URL(), "rediss", "redis", 1), limit, exitUnreachable, "if the server speaks TLS, begin the URL with rediss://"},
		"files without TLS": {strings.Replace(redis.URL(), "rediss", "redis", 1), append(flags, limit...), exitUsage,
			"want a URL that begins with rediss://"},
		"files without store": {"", flags, exitUsage, "--store-ca, --store-cert and --store-key need --store"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"peek", "ip:192.0.2.1"}, test.args...)
			if test.store != "" {
				args = append(args, "--store", test.store)
			}
			wantResult(t, execute(t, "", args...), test.code, "", test.stderr)
		})
	}

	found := examine(t, exitBad, "--store", redis.URL())
	wantFinding(t, found, "connection", resultFail, "unknown authority", "--store-ca FILE")
	found = examine(t, exitBad, "--store", redis.URL(), "--store-ca", cert)
	wantFinding(t, found, "connection", resultFail, "closes the connection", "--store-cert FILE --store-key FILE")
	plain := strings.Replace(redistest.Start(t).URL(), "redis", "rediss", 1)
	found = examine(t, exitBad, "--store", plain)
	wantFinding(t, found, "connection", resultFail, "does not answer", "begin the URL with redis://")
}

// TestStoreTLSDaemon checks that a daemon adds the files that flags name to the URL in the
// environment.
func TestStoreTLSDaemon(t *testing.T) {
	t.Setenv(redisEnv, "rediss://h:1/0")
	f := &daemonFlags{storeTLSFlags: storeTLSFlags{"a", "b", "c"}, NoToken: true}
	c, err := f.configuration(&system{Stderr: io.Discard})
	if want := "rediss://h:1/0?ca_file=a&cert_file=b&key_file=c"; err != nil || c.Store != want {
		t.Errorf("got %s, %v; want %s", c.Store, err, want)
	}
	t.Setenv(redisEnv, "")
	if _, err := f.configuration(&system{Stderr: io.Discard}); err == nil ||
		!strings.Contains(err.Error(), "for the Redis URL of the policies, set store.ca_file") {
		t.Errorf("without a Redis: %v", err)
	}
}

package tlsfiles_test

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/tlsfiles"
)

func TestApply(t *testing.T) {
	cert, key := redistest.NewCertificate(t)
	_, otherKey := redistest.NewCertificate(t)
	missing := filepath.Join(t.TempDir(), "none.pem")
	for name, test := range map[string]struct {
		files tlsfiles.Files
		want  string // of the error; "" is none
	}{
		"nothing":               {tlsfiles.Files{}, ""},
		"all":                   {tlsfiles.Files{CA: cert, Cert: cert, Key: key}, ""},
		"no such authorities":   {tlsfiles.Files{CA: missing}, missing + ": no such file or directory"},
		"a key for authorities": {tlsfiles.Files{CA: key}, key + ": no CA certificate in PEM form"},
		"a directory":           {tlsfiles.Files{CA: t.TempDir()}, "is a directory"},
		"no such certificate":   {tlsfiles.Files{Cert: missing, Key: key}, missing + ": no such file"},
		"no such key":           {tlsfiles.Files{Cert: cert, Key: missing}, missing + ": no such file"},
		"another key": {tlsfiles.Files{Cert: cert, Key: otherKey},
			cert + " and " + otherKey + ": tls: private key does not match"},
		"swapped": {tlsfiles.Files{Cert: key, Key: cert},
			key + " and " + cert + ": tls: failed to find certificate PEM data"},
	} {
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		err := test.files.Apply(c)
		switch {
		case test.want == "" && err != nil, test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		case err == nil && (c.RootCAs != nil) != (test.files.CA != ""):
			t.Errorf("%s: authorities: %v", name, c.RootCAs)
		case err == nil && (len(c.Certificates) == 1) != (test.files.Cert != ""):
			t.Errorf("%s: %d certificates", name, len(c.Certificates))
		}
	}
}

func TestCheck(t *testing.T) {
	for files, want := range map[tlsfiles.Files]string{
		{}:                    "",
		{CA: "a"}:             "",
		{Cert: "b", Key: "c"}: "",
		{Cert: "b"}:           "--cert needs --key, the key of the certificate",
		{Key: "c", CA: "a"}:   "--key needs --cert, the certificate of the key",
	} {
		got := ""
		if err := files.Check("--cert", "--key"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%v: got %q, want %q", files, got, want)
		}
	}
}

func TestAddTo(t *testing.T) {
	all := tlsfiles.Files{CA: "/a b", Cert: "b", Key: "c"}
	for _, test := range []struct {
		files    tlsfiles.Files
		text     string
		override bool
		want     string
	}{
		{tlsfiles.Files{}, "rediss://h?addr=i:1", true, "rediss://h?addr=i:1"},
		{all, "rediss://u:p@h/0?addr=i:1", true, "rediss://u:p@h/0?addr=i%3A1&ca_file=%2Fa+b&cert_file=b&key_file=c"},
		{all, "rediss://h?ca_file=mine", true, "rediss://h?ca_file=%2Fa+b&cert_file=b&key_file=c"},
		{all, "rediss://h?ca_file=mine", false, "rediss://h?ca_file=mine&cert_file=b&key_file=c"},
		{all, "rediss://h?cert_file=mine", false, "rediss://h?ca_file=%2Fa+b&cert_file=mine"}, // whose key is missing
		{tlsfiles.Files{CA: "a"}, "rediss://h?cert_file=mine&key_file=k", true,
			"rediss://h?ca_file=a&cert_file=mine&key_file=k"},
		{all, "rediss://u:p%@h", true, "rediss://u:p%@h"},
	} {
		if got := test.files.AddTo(test.text, test.override); got != test.want {
			t.Errorf("%v to %s: got %s, want %s", test.files, test.text, got, test.want)
		}
	}
}

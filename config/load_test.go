package config

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// write makes files in a directory. Those whose text begins with "-> " are symbolic links.
func write(t *testing.T, directory string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, name)
		} else {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// writeFile makes a file of the name stint.yaml.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	directory := t.TempDir()
	write(t, directory, map[string]string{"stint.yaml": text})
	return filepath.Join(directory, "stint.yaml")
}

func TestLoad(t *testing.T) {
	const first, second = "tiers:\n  - {name: some, identity: user, limits: 20/1m}\n", "tiers:\n  - {name: all, identity: ip, limits: 10/1m}\n"
	tests := []struct {
		name  string
		files map[string]string
		path  string // in the directory
		want  string // the tiers, or the mistakes without the directory
	}{
		{"a file", map[string]string{"x.conf": second}, "x.conf", "[all]"},
		{"a directory in order", map[string]string{"20.yml": second, "10.yaml": first}, "", "[some all]"},
		{"leftovers", map[string]string{
			"a.yaml": second, ".a.yaml.swp": "x", ".b.yaml": "x", "a.yaml~": "x", "#a.yaml#": "x", "#c.yaml": "x",
			"4913": "x", "a.yaml.bak": "x",
			"notes.md": "x", "sub.yaml/z.yaml": "x", "sub/y.yaml": "x",
		}, "", "[all]"},
		{"a ConfigMap", map[string]string{
			"..2026_01/a.yaml": first, "..2026_01/b.yaml": second, "..data": "-> ..2026_01",
			"a.yaml": "-> ..data/a.yaml", "b.yaml": "-> ..data/b.yaml",
		}, "", "[some all]"},
		{"a ConfigMap's file", map[string]string{"..2026_01/b.yaml": second, "..data": "-> ..2026_01",
			"b.yaml": "-> ..data/b.yaml"}, "b.yaml", "[all]"},
		{"no files", map[string]string{"a.txt": "x"}, "", ":1: no rules: the directory has no *.yaml or *.yml file"},
		{"an empty one among them", map[string]string{"a.yaml": second, "b.yaml": "# to do\n"}, "",
			"b.yaml:1: no rules: the file is empty"},
		{"united", map[string]string{
			"a.yaml": "identities: {key: {header: X-Key}}\nstore: {prefix: a}\n" + first,
			"b.yaml": "identities: {session: {cookie: s}}\npolicies:\n  - {name: p, identity: [key, session, ip], limits: 1/1s}\n" + second,
		}, "", "[some all]"},
		{"once in all", map[string]string{
			"a.yaml": "identities:\n  key: {header: X-Key}\nstore: {prefix: a}\n" + second,
			"b.yaml": "store: {url: memory}\nidentities:\n  key: {cookie: s}\n",
		}, "", `b.yaml:1: store: duplicate key, first set at a.yaml:3; all files together are one configuration
b.yaml:3: identities.key: duplicate key, first set at a.yaml:2; all files together are one configuration`},
		{"names with dots", map[string]string{
			"a.yaml": "identities: {key: {header: X-Key}}\n" + second,
			"b.yaml": "identities: {key.header: {cookie: s}}\n",
		}, "", "[all]"},
		{"keys count in their file", map[string]string{
			"a.yaml": first + "policies:\n  - {name: p, limits: 10}\n", "b.yaml": second + "  - {name: last, identity: user, limits: 1}\npolicies:\n  - {name: p, limits: 1/1s}\n  - {name: q, identity: ipp, limits: 1/1s}\n",
		}, "", `a.yaml:4: policies[0].limits: "10": no window; want "units/window", such as "100/1m" or "10/1s burst 2x"
b.yaml:3: tiers[1].limits: "1": no window; want "units/window", such as "100/1m" or "10/1s burst 2x"
b.yaml:5: policies[0].name: another policy is named "p", number 1; names must be unique
b.yaml:6: policies[1].identity: unknown identity "ipp"; want everyone, ip or user (did you mean "ip"?)`},
		{"webhooks count in their file", map[string]string{
			"a.yaml": first + "webhooks:\n  - {url: https://example.com, key_file: k}\n",
			"b.yaml": second + "webhooks:\n  - {url: https://example.com}\n",
		}, "", `a.yaml:3: warning: webhooks: nothing is posted: no tier and no policy has notify, such as notify: [80%, 100%]
b.yaml:4: webhooks[0].key_file: is missing; want a file with a secret of at least 16 bytes, which the receiver uses to verify posts`},
		{"oversized together", map[string]string{
			"a.yaml": second + strings.Repeat("#\n", 300<<10), "b.yaml": strings.Repeat("#\n", 300<<10) +
				"policies: []\n", "c.yaml": "x",
		}, "", "b.yaml:1: oversized: the configuration is larger than 1048576 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			directory := t.TempDir()
			write(t, directory, test.files)
			config, err := Load(filepath.Join(directory, test.path))
			var got string
			if err != nil {
				got = strings.ReplaceAll(strings.ReplaceAll(err.Error(), directory+"/", ""), directory, "")
			} else {
				var names []string
				for _, tier := range config.Set.Spec().Tiers {
					names = append(names, tier.Name)
				}
				got = fmt.Sprint(names)
			}
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestStoreCertificates: a relative path starts at the directory of the file, and the URL names the
// files too, for programs that read nothing else.
func TestStoreCertificates(t *testing.T) {
	file := writeFile(t, "store: {url: 'rediss://h?addr=i:1', ca_file: ca.pem, cert_file: /me.pem, key_file: /me.key, "+
		"name_key_file: keys/new, previous_name_key_file: /keys/old}\n"+base)
	directory := filepath.Dir(file)
	config := testkit.Must(Load(file))(t)
	ca := filepath.Join(directory, "ca.pem")
	want := Store{CAFile: ca, CertFile: "/me.pem", KeyFile: "/me.key", NameKeyFile: filepath.Join(directory, "keys", "new"),
		PreviousNameKeyFile: "/keys/old", URL: "rediss://h?" + url.Values{
			"addr": {"i:1"}, "ca_file": {ca}, "cert_file": {"/me.pem"}, "key_file": {"/me.key"},
		}.Encode()}
	if got := config.Store; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

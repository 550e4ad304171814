package release

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// packaged are the files of both packages, and what they are in the repository.
var packaged = map[string]string{
	"/etc/stint/stint.yaml":                           "examples/tiers/stint.yaml",
	"/usr/lib/systemd/system/stint.service":           "deploy/stint.service",
	"/usr/share/bash-completion/completions/stint":    "bin/completions/stint.bash",
	"/usr/share/fish/vendor_completions.d/stint.fish": "bin/completions/stint.fish",
	"/usr/share/doc/stint/README.md":                  "README.md",
	"/usr/share/doc/stint/CHANGELOG.md":               "CHANGELOG.md",
	"/usr/share/zsh/vendor-completions/_stint deb":    "bin/completions/_stint",
	"/usr/share/zsh/site-functions/_stint rpm":        "bin/completions/_stint",
	"/usr/share/doc/stint/copyright deb":              "LICENSE",
	"/usr/share/licenses/stint/LICENSE rpm":           "LICENSE",
}

// checkInstalled compares the files below a directory with those of the repository.
func (r *built) checkInstalled(t *testing.T, directory, kind string) {
	t.Helper()
	for name, source := range packaged {
		name, only, limited := strings.Cut(name, " ")
		if limited && only != kind {
			continue
		}
		if read(t, filepath.Join(directory, name)) != read(t, filepath.Join(r.clone, source)) {
			t.Errorf("%s is not %s", name, source)
		}
		if info, err := os.Stat(filepath.Join(directory, name)); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	program := filepath.Join(directory, "usr/bin/stint")
	r.checkProgram(t, program, "linux", runtime.GOARCH)
	r.checkVersion(t, program)
	run(t, "", nil, program, "config", "check", filepath.Join(directory, "etc/stint/stint.yaml"))
}

// systemctl makes a program of this name that only records its arguments, and a directory that
// looks as if systemd ran. It returns PATH, and a function that returns what was recorded since.
func systemctl(t *testing.T, directory string) (string, func() string) {
	t.Helper()
	bin := t.TempDir()
	log := filepath.Join(bin, "log")
	script := []byte("#!/bin/sh\necho \"$@\" >>" + log + "\n")
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(directory, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + bin + ":/usr/sbin:/sbin:" + os.Getenv("PATH"), func() string {
		text, _ := os.ReadFile(log) // there is none before the first call
		_ = os.Remove(log)
		return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "; ")
	}
}

// deb installs the package in a directory, upgrades it, removes it, and purges it.
func (r *built) deb(t *testing.T) {
	directory := t.TempDir()
	for _, name := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(directory, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(directory, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	path, called := systemctl(t, directory)
	dpkg := func(wantCalls string, args ...string) {
		t.Helper()
		run(t, "", []string{path}, "dpkg",
			append([]string{"--root=" + directory, "--force-script-chrootless"}, args...)...)
		if got := called(); got != wantCalls {
			t.Errorf("dpkg %v: systemctl was called with %q, want %q", args, got, wantCalls)
		}
	}
	file := r.name("linux_" + runtime.GOARCH + ".deb")
	dpkg("daemon-reload", "-i", file)
	r.checkInstalled(t, directory, "deb")

	config := filepath.Join(directory, "etc/stint/stint.yaml")
	if err := os.WriteFile(config, []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg("daemon-reload; try-restart stint.service", "-i", file)
	if got := read(t, config); got != "# mine\n" {
		t.Errorf("an upgrade has replaced the configuration with %q", got)
	}
	dpkg("disable --now stint.service; daemon-reload", "-r", "stint")
	_, err := os.Stat(filepath.Join(directory, "usr/bin/stint"))
	if got := read(t, config); !os.IsNotExist(err) || got != "# mine\n" {
		t.Errorf("after removing: the program: %v; the configuration: %q", err, got)
	}
	dpkg("", "-P", "stint")
	if _, err := os.Stat(config); !os.IsNotExist(err) {
		t.Errorf("after purging: the configuration: %v", err)
	}
	for _, goarch := range []string{"amd64", "arm64"} {
		got := run(t, "", nil, "dpkg-deb", "-f", r.name("linux_"+goarch+".deb"), "Package", "Version", "Architecture")
		if want := "Package: stint\nVersion: " + r.version + "\nArchitecture: " + goarch + "\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// rpm asks rpm what is in the package, and installs it in a directory without running its scripts,
// which would need a shell there. The scripts are run by themselves.
func (r *built) rpm(t *testing.T) {
	for goarch, arch := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		file := r.name("linux_" + goarch + ".rpm")
		if got, want := run(t, "", nil, "rpm", "-qp", "--qf", "%{name} %{version} %{arch} %{license}", file),
			"stint "+r.version+" "+arch+" Apache-2.0"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := run(t, "", nil, "rpm", "-qp", "--configfiles", file); got != "/etc/stint/stint.yaml\n" {
			t.Errorf("configuration: got %q", got)
		}
		want := []string{"/usr/bin/stint"}
		for name := range packaged {
			if name, only, limited := strings.Cut(name, " "); !limited || only == "rpm" {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		if got := strings.Fields(run(t, "", nil, "rpm", "-qpl", file)); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		// 16 is the flag of noreplace, next to 1 of a configuration file.
		if got := run(t, "", nil, "rpm", "-qp", "--qf", "[%{filenames} %{fileflags}\n]", file); !strings.Contains(got,
			"/etc/stint/stint.yaml 17\n") {
			t.Errorf("the configuration would be overwritten: %s", got)
		}
	}
	directory := t.TempDir()
	run(t, "", nil, "rpm", "--root="+directory, "--nodeps", "--noscripts", "-i", r.name("linux_"+runtime.GOARCH+".rpm"))
	r.checkInstalled(t, directory, "rpm")

	path, called := systemctl(t, directory)
	for _, test := range []struct{ script, argument, calls string }{
		{"postinstall", "1", "daemon-reload"},
		{"postinstall", "2", "daemon-reload; try-restart stint.service"},
		{"postinstall", "abort-upgrade", "daemon-reload"}, // of a deb
		{"preremove", "1", ""},
		{"preremove", "0", "disable --now stint.service"},
		{"postremove", "1", ""},
		{"postremove", "0", "daemon-reload"},
	} {
		run(t, "", []string{path, "DPKG_ROOT=" + directory}, "sh",
			filepath.Join(r.clone, "deploy/package", test.script+".sh"), test.argument)
		if got := called(); got != test.calls {
			t.Errorf("%s %s: systemctl was called with %q, want %q", test.script, test.argument, got, test.calls)
		}
	}
}

// Package release builds a release of the newest commit, in a clone with the tag that it would
// have, and checks every file of it. Nothing is published.
package release

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const (
	root = "../.."
	path = "github.com/stint-limiter/stint"
)

// run runs a command in a directory with further variables, and returns its output.
func run(t *testing.T, directory string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = directory, append(os.Environ(), env...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// version returns the newest version in the changelog.
func version(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindStringSubmatch(read(t, root+"/CHANGELOG.md"))
	if found == nil {
		t.Fatal("CHANGELOG.md has no version")
	}
	return found[1]
}

// clone returns a clone of the newest commit of a repository, with the tag of its release.
func clone(t *testing.T, source string) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "stint")
	source, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	run(t, "", nil, "git", "clone", "-q", source, directory)
	run(t, directory, nil, "git", "tag", "-f", "v"+version(t))
	return directory
}

func TestRelease(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("run this as root: it installs packages, in a directory")
	}
	if changed := run(t, root, nil, "git", "status", "--porcelain"); changed != "" {
		t.Logf("these changes are not committed, and not tested:\n%s", changed)
	}
	r := &built{version: version(t), clone: clone(t, root)}
	r.make(t)
	r.dist = filepath.Join(r.clone, "dist")
	r.revision = strings.TrimSpace(run(t, r.clone, nil, "git", "rev-parse", "HEAD"))
	t.Run("files", r.files)
	t.Run("archives", r.archives)
	t.Run("boms", r.boms)
	t.Run("deb", r.deb)
	t.Run("rpm", r.rpm)
	t.Run("again", r.again)
}

// built is a release.
type built struct{ version, revision, clone, dist string }

// make builds the release as the workflow does, without publishing it.
func (r *built) make(t *testing.T) {
	t.Helper()
	begin := time.Now()
	run(t, r.clone, nil, "make", "release", "RELEASEFLAGS=--skip=publish,announce")
	t.Logf("built in %v", time.Since(begin).Round(time.Second))
	notes := read(t, filepath.Join(r.clone, "bin/notes.md"))
	if !strings.Contains(notes, "\n### ") || strings.Contains(notes, "\n## ") {
		t.Errorf("the notes are %q, want one section of the changelog", notes)
	}
}

// name returns the path of a file of the release.
func (r *built) name(ending string) string {
	return filepath.Join(r.dist, "stint_"+r.version+"_"+ending)
}

// each calls f for every system.
func (r *built) each(f func(goos, goarch string)) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, goarch := range []string{"amd64", "arm64"} {
			f(goos, goarch)
		}
	}
}

// files has the checksums name every file, and nothing else.
func (r *built) files(t *testing.T) {
	var want []string
	r.each(func(goos, goarch string) {
		endings := []string{".tar.gz", ".cdx.json"}
		switch goos {
		case "windows":
			endings[0] = ".zip"
		case "linux":
			endings = append(endings, ".deb", ".rpm")
		}
		for _, ending := range endings {
			want = append(want, filepath.Base(r.name(goos+"_"+goarch+ending)))
		}
	})
	var got []string
	for line := range strings.Lines(read(t, r.name("checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		got = append(got, name)
		text := read(t, filepath.Join(r.dist, name))
		if is := sha256.Sum256([]byte(text)); hex.EncodeToString(is[:]) != sum {
			t.Errorf("%s has another checksum", name)
		}
		t.Logf("%8d kB  %s", len(text)/1000, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got the files\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// checkProgram has a program be that of a system and of the tag, without running it.
func (r *built) checkProgram(t *testing.T, program, goos, goarch string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	got := fmt.Sprintln(info.Main.Version, set["GOOS"], set["GOARCH"], set["vcs.revision"], set["vcs.modified"],
		set["-trimpath"], set["CGO_ENABLED"])
	if want := fmt.Sprintln("v"+r.version, goos, goarch, r.revision, "false", "true", "0"); got != want {
		t.Errorf("the program is %swant %s", got, want)
	}
}

// checkVersion runs a program that was built in the repository.
func (r *built) checkVersion(t *testing.T, program string) {
	t.Helper()
	want := "stint v" + r.version + ", revision " + r.revision + ", go"
	if got := run(t, "", nil, program, "version"); !strings.HasPrefix(got, want) {
		t.Errorf("version: got %q, want %q", got, want)
	}
}

// archives has each have the same files, each as in the repository, below one directory. Only the
// program can be executed.
func (r *built) archives(t *testing.T) {
	sources := map[string]string{"LICENSE": "LICENSE", "README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md",
		"stint.yaml": "examples/tiers/stint.yaml", "stint.service": "deploy/stint.service",
		"completions/stint.bash": "bin/completions/stint.bash", "completions/_stint": "bin/completions/_stint",
		"completions/stint.fish": "bin/completions/stint.fish"}
	r.each(func(goos, goarch string) {
		directory, program := r.unpack(t, goos, goarch)
		for name, source := range sources {
			got, want := read(t, filepath.Join(directory, name)), read(t, filepath.Join(r.clone, source))
			if got != want || len(got) < 500 {
				t.Errorf("%s %s: %s is another file", goos, goarch, name)
			}
		}
		r.checkProgram(t, program, goos, goarch)
		files := 0
		err := filepath.WalkDir(filepath.Dir(directory), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			info, err := d.Info()
			if err == nil && goos != "windows" && (info.Mode()&0o111 != 0) != (name == program) {
				t.Errorf("%s has the mode %v", name, info.Mode())
			}
			return err
		})
		if err != nil || files != len(sources)+1 {
			t.Errorf("%s %s: got %d files, %v; want %d", goos, goarch, files, err, len(sources)+1)
		}
		if goos == runtime.GOOS && goarch == runtime.GOARCH {
			r.checkVersion(t, program)
		}
	})
}

// unpack unpacks an archive, and returns the directory that is in it and the program.
func (r *built) unpack(t *testing.T, goos, goarch string) (directory, program string) {
	t.Helper()
	into, system := t.TempDir(), goos+"_"+goarch
	directory = filepath.Join(into, "stint_"+r.version+"_"+system)
	if goos == "windows" {
		archive, err := zip.OpenReader(r.name(system + ".zip"))
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		if err := os.CopyFS(into, archive); err != nil {
			t.Fatal(err)
		}
		return directory, filepath.Join(directory, "stint.exe")
	}
	run(t, into, nil, "tar", "-xzpf", r.name(system+".tar.gz"))
	return directory, filepath.Join(directory, "stint")
}

// boms has every bill of materials name the modules that the program was built from.
func (r *built) boms(t *testing.T) {
	r.each(func(goos, goarch string) {
		var bom struct {
			BOMFormat, SpecVersion string
			Metadata               struct {
				Component struct{ Name, Version string }
			}
			Components []struct{ Name, Version, PURL string }
		}
		if err := json.Unmarshal([]byte(read(t, r.name(goos+"_"+goarch+".cdx.json"))), &bom); err != nil {
			t.Fatal(err)
		}
		if c := bom.Metadata.Component; bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" || c.Name != path ||
			c.Version != "v"+r.version {
			t.Errorf("%s %s: got %s %s of %+v", goos, goarch, bom.BOMFormat, bom.SpecVersion, c)
		}
		_, program := r.unpack(t, goos, goarch)
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"std@" + strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			want = append(want, m.Path+"@"+m.Version)
		}
		var got []string
		for _, c := range bom.Components {
			got = append(got, c.Name+"@"+c.Version)
			if c.PURL != "pkg:golang/"+c.Name+"@"+c.Version {
				t.Errorf("%s %s: %s has the purl %s", goos, goarch, c.Name, c.PURL)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s %s: got the modules %v, want %v", goos, goarch, got, want)
		}
	})
}

// again builds everything once more elsewhere: it is the same, byte for byte.
func (r *built) again(t *testing.T) {
	other := &built{version: r.version, clone: clone(t, r.clone)}
	other.make(t)
	other.dist = filepath.Join(other.clone, "dist")
	if got, want := read(t, other.name("checksums.txt")), read(t, r.name("checksums.txt")); got != want {
		t.Errorf("a second build has the checksums\n%swant\n%s", got, want)
	}
}

// TestGoInstall installs the program as users of Go do: from a module proxy that has the release,
// into an empty module cache.
func TestGoInstall(t *testing.T) {
	version := "v" + version(t)
	source := clone(t, root)
	proxy := t.TempDir()
	at := filepath.Join(proxy, path, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	released := module.Version{Path: path, Version: version}
	if err := modzip.CreateFromVCS(archive, released, source, version, ""); err != nil {
		t.Fatal(err)
	}
	info, err := archive.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the module has %d kB", info.Size()/1000)
	if info.Size() > 8e6 {
		t.Errorf("the module has %d bytes, want at most 8 MB: everyone who uses the library downloads them", info.Size())
	}
	for name, text := range map[string]string{
		"list":            version + "\n",
		version + ".mod":  read(t, filepath.Join(source, "go.mod")),
		version + ".info": `{"Version":"` + version + `","Time":"2026-01-02T03:04:05Z"}`,
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	others := strings.TrimSpace(run(t, "", nil, "go", "env", "GOPROXY"))
	bin := t.TempDir()
	env := []string{"GOPROXY=file://" + proxy + "," + others, "GONOSUMDB=" + path, "GOMODCACHE=" + t.TempDir(),
		"GOBIN=" + bin, "GOFLAGS=-modcacherw"}
	begin := time.Now()
	run(t, t.TempDir(), env, "go", "install", path+"/cmd/stint@"+version)
	t.Logf("installed in %v", time.Since(begin).Round(time.Second))
	got := run(t, "", nil, filepath.Join(bin, "stint"), "version")
	if !strings.HasPrefix(got, "stint "+version+", go") {
		t.Errorf("version: got %q", got)
	}

	// The program of README.md, with the package that README.md says to get.
	readme, hello := read(t, filepath.Join(source, "README.md")), t.TempDir()
	_, program, _ := strings.Cut(readme, "```go\n")
	program, _, _ = strings.Cut(program, "```")
	if err := os.WriteFile(filepath.Join(hello, "main.go"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	_, get, _ := strings.Cut(readme, "\ngo get ")
	run(t, hello, env, "go", "mod", "init", "example.com/hello")
	run(t, hello, env, "go", "get", strings.Fields(get)[0]+"@"+version)
	run(t, hello, env, "go", "build", ".")
}

// TestWorkflows checks the workflows with actionlint.
func TestWorkflows(t *testing.T) {
	run(t, root, nil, "go", "tool", "-modfile=tools/go.mod", "actionlint", "-shellcheck=", "-pyflakes=")
}

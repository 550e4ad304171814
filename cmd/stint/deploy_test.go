package main

import (
	"encoding/json"
	"errors"
	goversion "go/version"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint/internal/words"
)

const (
	root   = "../.."
	deploy = root + "/deploy"
)

// parses reports whether a command line is one of the program's.
func parses(t *testing.T, args []string) {
	t.Helper()
	parser, err := kong.New(&commands{}, helpVariables())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Errorf("%q: %v", args, err)
	}
}

// linesOf returns the lines of a file that are not empty and no comments.
func linesOf(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestDeployUnit holds the command line of the systemd unit against the program, and the unit to
// its sandbox.
func TestDeployUnit(t *testing.T) {
	set := map[string]string{}
	for _, line := range linesOf(t, filepath.Join(deploy, "stint.service")) {
		if key, value, ok := strings.Cut(line, "="); ok {
			set[key] = strings.TrimSpace(set[key] + " " + value)
		}
	}
	parses(t, strings.Fields(set["ExecStart"])[1:])
	for key, want := range map[string]string{
		"Type":                    "notify",
		"DynamicUser":             "yes",
		"StateDirectory":          "stint",
		"StateDirectoryMode":      "0700",
		"EnvironmentFile":         "-/etc/stint/environment",
		"UMask":                   "0077",
		"CapabilityBoundingSet":   "",
		"AmbientCapabilities":     "",
		"NoNewPrivileges":         "yes",
		"ProtectSystem":           "strict",
		"ProtectHome":             "yes",
		"ProtectClock":            "yes",
		"ProtectControlGroups":    "yes",
		"ProtectHostname":         "yes",
		"ProtectKernelLogs":       "yes",
		"ProtectKernelModules":    "yes",
		"ProtectKernelTunables":   "yes",
		"ProtectProc":             "invisible",
		"PrivateDevices":          "yes",
		"PrivateTmp":              "yes",
		"PrivateUsers":            "yes",
		"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
		"RestrictNamespaces":      "yes",
		"RestrictRealtime":        "yes",
		"RestrictSUIDSGID":        "yes",
		"LockPersonality":         "yes",
		"MemoryDenyWriteExecute":  "yes",
		"SystemCallArchitectures": "native",
		"SystemCallFilter":        "@system-service ~@privileged @resources",
		"MemoryMax":               "2G",
		"Environment":             "GOMEMLIMIT=1600MiB",
	} {
		if got, ok := set[key]; !ok || got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	below(t, strings.TrimPrefix(set["Environment"], "GOMEMLIMIT="), set["MemoryMax"]+"iB")
}

// below has the limit of the garbage collector leave a fifth of the memory for what it does not
// count.
func below(t *testing.T, collector, memory string) {
	t.Helper()
	soft, err := words.Size(collector)
	hard, err2 := words.Size(memory)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if soft > hard/5*4 || soft < hard/2 {
		t.Errorf("GOMEMLIMIT is %s and the memory %s; want at most four fifths", collector, memory)
	}
}

// wantPinned has an image be the one of a version or a digest, and not whatever is the latest.
func wantPinned(t *testing.T, image string) {
	t.Helper()
	if !regexp.MustCompile(`^[a-z0-9./-]+:[0-9]+\.[0-9]+\.[0-9]+(-[a-z0-9.]+)?(@sha256:[0-9a-f]{64})?$`).MatchString(image) {
		t.Errorf("the image %q has no version of three numbers", image)
	}
}

// TestDeployImage holds the Dockerfile to a program that is static and not root's, of images that
// are pinned.
func TestDeployImage(t *testing.T) {
	lines := linesOf(t, filepath.Join(deploy, "Dockerfile"))
	has := func(want string) int {
		t.Helper()
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) })
		if i < 0 {
			t.Errorf("there is no %s", want)
		}
		return i
	}
	has("RUN CGO_ENABLED=0 go build -trimpath ")
	last := has("FROM scratch")
	if has("USER 65532:65532") < last || has("ENTRYPOINT [") < last {
		t.Error("user and entry point are not of the last stage")
	}
	if i := has("CMD ["); i >= 0 {
		var args []string
		if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[i], "CMD ")), &args); err != nil {
			t.Fatal(err)
		}
		parses(t, args)
	}
	for _, line := range lines {
		fields := strings.Fields(line)
		if fields[0] != "FROM" || fields[1] == "scratch" {
			continue
		}
		wantPinned(t, fields[1])
		// The toolchain is not older than the one that go.mod wants.
		_, tag, _ := strings.Cut(fields[1], ":")
		release, _, _ := strings.Cut(tag, "-")
		for _, line := range linesOf(t, filepath.Join(root, "go.mod")) {
			if wanted, ok := strings.CutPrefix(line, "go "); ok && goversion.Compare("go"+release, "go"+wanted) < 0 {
				t.Errorf("the image has Go %s, and go.mod wants %s", release, wanted)
			}
		}
	}

	// One version in all places.
	var d deployment
	spec(t, manifests(t), "Deployment stint", &d)
	image := d.Template.Spec.Containers[0].Image
	text, err := os.ReadFile(filepath.Join(deploy, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "-t "+image+" ") {
		t.Errorf("the Dockerfile does not say how to build %s", image)
	}
	var k kustomization
	readStrictly(t, filepath.Join(deploy, "kubernetes", kustomizationFile), &k)
	for _, i := range k.Images {
		if got := i.Name + ":" + i.NewTag; got != image {
			t.Errorf("%s has %s, want %s", kustomizationFile, got, image)
		}
	}
}

// TestDockerignore has all that the program is built from reach the builder, and nothing that could
// be a secret.
func TestDockerignore(t *testing.T) {
	patterns := linesOf(t, filepath.Join(root, ".dockerignore"))
	base, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-json=Dir,Module,GoFiles,SFiles,EmbedFiles", ".")
	list.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	needed := []string{"go.mod", "go.sum"}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			Dir                         string
			Module                      *struct{ Main bool }
			GoFiles, SFiles, EmbedFiles []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, file := range slices.Concat(p.GoFiles, p.SFiles, p.EmbedFiles) {
			name, err := filepath.Rel(base, filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			needed = append(needed, filepath.ToSlash(name))
		}
	}
	if len(needed) < 100 {
		t.Fatalf("got %d files, want all of the program's", len(needed))
	}
	for _, name := range needed {
		if ignored(t, patterns, name) {
			t.Errorf("%s is ignored, and the program needs it", name)
		}
	}
	for _, name := range []string{
		".git/config", ".env", "redis.env", "redis-url", "admin-tokens", "stint.yaml", "bin/stint", "cover.out",
		"cmd/stint/.env", "cmd/stint/main_test.go", "server/key.pem", "server/tls/tls.key", "policy/testdata/x",
		"deploy/kubernetes/secret.yaml", "docs/server.md", "bench/main.go", "examples/routers/main.go",
		"tools/go.mod", "id_ed25519",
	} {
		if !ignored(t, patterns, name) {
			t.Errorf("%s is sent to the builder", name)
		}
	}
}

// ignored reports whether .dockerignore keeps a file back. As with Docker the last pattern decides
// that fits the file or a directory above it; of the forms of patterns it knows those that we use.
func ignored(t *testing.T, patterns []string, name string) bool {
	t.Helper()
	kept := false
	for _, pattern := range patterns {
		pattern, negated := strings.CutPrefix(pattern, "!")
		tail, anywhere := strings.CutPrefix(pattern, "**/")
		for at := name; at != "."; at = path.Dir(at) {
			text := at
			if anywhere {
				text = path.Base(at)
			}
			fits, err := path.Match(tail, text)
			if err != nil || anywhere && strings.Contains(tail, "/") {
				t.Fatalf("this test does not know the pattern %q", pattern)
			}
			if fits {
				kept = !negated
				break
			}
		}
	}
	return kept
}

// TestNoSecretsOnCommandLines has no example and no document show a password on a command line,
// where every user of a machine can read it.
func TestNoSecretsOnCommandLines(t *testing.T) {
	shown := regexp.MustCompile(`--(store|alert-webhook)[ =]'?[a-z]+://[^ /@]*:[^ /@]+@`)
	err := filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || strings.HasSuffix(name, "_test.go"):
			return nil
		case !slices.Contains([]string{".md", ".yaml", ".go", ".service", ".conf", ".cfg", ".lua", ""},
			filepath.Ext(name)):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if found := shown.Find(text); found != nil {
			t.Errorf("%s shows %s", name, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSecurityPage has every test that SECURITY.md names exist, and tests for every row of
// docs/faults.md that it names.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bF[0-9]+[a-z]?\b|\b(Test|Fuzz)[A-Z]\w+`).FindAllString(string(page), -1)
	if len(named) < 10 {
		t.Fatalf("found the names %q", named)
	}
	for _, name := range named {
		want := "func " + name
		if name[1] >= '0' && name[1] <= '9' {
			want = "func Test" + name
		}
		if !regexp.MustCompile(regexp.QuoteMeta(want) + `\D`).MatchString(tests.String()) {
			t.Errorf("there is no test %s", name)
		}
	}
}

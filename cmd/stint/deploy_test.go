package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/server/envoyrls"
)

const deploy = "../../deploy"

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

// TestDeployUnit holds the command line of the systemd unit against the program.
func TestDeployUnit(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deploy, "stint.service"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "ExecStart=") })
	if i < 0 || !slices.Contains(lines, "Type=notify") {
		t.Fatalf("got %q, want a command and Type=notify", lines)
	}
	parses(t, strings.Fields(lines[i])[1:])
}

// TestDeployKubernetes holds the command line and the configurations in the manifests against the program.
func TestDeployKubernetes(t *testing.T) {
	type manifest struct {
		Kind     string
		Metadata struct{ Name string }
		Data     map[string]string
		Spec     struct {
			Template struct {
				Spec struct{ Containers []struct{ Args []string } }
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(deploy, "kubernetes", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for d := yaml.NewDecoder(f); ; {
			var m manifest
			if d.Decode(&m) != nil {
				break // the end, or what the kinds below show to be missing
			}
			seen[m.Kind] = true
			for _, container := range m.Spec.Template.Spec.Containers {
				parses(t, container.Args)
			}
			for file, text := range m.Data {
				var err error
				if m.Metadata.Name == "stint-envoy" {
					_, err = envoyrls.Parse(file, []byte(text))
				} else {
					_, err = policy.Parse(file, []byte(text))
				}
				if err != nil {
					t.Errorf("%s: %v", m.Metadata.Name, err)
				}
			}
		}
	}
	for _, kind := range []string{"Deployment", "Service", "ConfigMap", "PodDisruptionBudget"} {
		if !seen[kind] {
			t.Errorf("there is no %s", kind)
		}
	}
}

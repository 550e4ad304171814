package main

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// manifest is what the Kubernetes manifests have. A key that is not here is a mistake, in one or
// the other.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name   string
		Labels map[string]string
	}
	Data map[string]string
	Spec yaml.Node
}

type deployment struct {
	Replicas int
	Selector selector
	Strategy struct {
		RollingUpdate map[string]int `yaml:"rollingUpdate"`
	}
	Template struct {
		Metadata struct{ Labels map[string]string }
		Spec     pod
	}
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type pod struct {
	ServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
	ServiceLinks        *bool `yaml:"enableServiceLinks"`
	Grace               int   `yaml:"terminationGracePeriodSeconds"`
	Security            struct {
		NonRoot *bool             `yaml:"runAsNonRoot"`
		User    int               `yaml:"runAsUser"`
		Group   int               `yaml:"runAsGroup"`
		FSGroup int               `yaml:"fsGroup"`
		Seccomp map[string]string `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Spread     []any `yaml:"topologySpreadConstraints"`
	Containers []container
	Volumes    []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
		Secret    struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
			Items       []struct{ Key, Path string }
		}
	}
}

type container struct {
	Name, Image string
	Args        []string
	Env         []struct {
		Name, Value string
		From        struct {
			Secret struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	Startup   any `yaml:"startupProbe"`
	Liveness  any `yaml:"livenessProbe"`
	Readiness any `yaml:"readinessProbe"`
	Resources struct{ Requests, Limits map[string]string }
	Security  struct {
		Privileged   *bool
		Escalation   *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRoot *bool `yaml:"readOnlyRootFilesystem"`
		Capabilities struct{ Drop, Add []string }
	} `yaml:"securityContext"`
	Mounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type networkPolicy struct {
	PodSelector selector `yaml:"podSelector"`
	Types       []string `yaml:"policyTypes"`
	Ingress     []struct {
		From  []peer
		Ports []port
	}
	Egress []struct {
		To    []peer
		Ports []port
	}
}

type peer struct {
	Namespaces *selector `yaml:"namespaceSelector"`
	Pods       *selector `yaml:"podSelector"`
}

type port struct {
	Protocol string
	Port     any
}

// manifests returns those of Kubernetes, by their kind and name.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "kubernetes", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]manifest{}
	var resources []string
	for _, name := range files {
		if filepath.Base(name) == kustomizationFile {
			continue
		}
		resources = append(resources, filepath.Base(name))
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for d := yaml.NewDecoder(f); ; {
			d.KnownFields(true)
			var m manifest
			if err := d.Decode(&m); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			found[m.Kind+" "+m.Metadata.Name] = m
		}
	}
	var k kustomization
	readStrictly(t, filepath.Join(deploy, "kubernetes", kustomizationFile), &k)
	if !slices.Equal(k.Resources, resources) {
		t.Errorf("%s has %q, and there are %q", kustomizationFile, k.Resources, resources)
	}
	return found
}

const kustomizationFile = "kustomization.yaml"

type kustomization struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Resources  []string
	Images     []struct {
		Name    string
		NewName string `yaml:"newName"`
		NewTag  string `yaml:"newTag"`
		Digest  string
	}
}

func readStrictly(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	decodeStrictly(t, name, string(text), into)
}

func decodeStrictly(t *testing.T, name, text string, into any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// spec reads that of a manifest.
func spec(t *testing.T, all map[string]manifest, name string, into any) {
	t.Helper()
	m, ok := all[name]
	if !ok {
		t.Fatalf("there is no %s among %q", name, slices.Sorted(maps.Keys(all)))
	}
	text, err := yaml.Marshal(&m.Spec)
	if err != nil {
		t.Fatal(err)
	}
	decodeStrictly(t, name, string(text), into)
}

// TestDeployKubernetes holds the command line and the configurations in the manifests against the
// program.
func TestDeployKubernetes(t *testing.T) {
	all := manifests(t)
	var d deployment
	spec(t, all, "Deployment stint", &d)
	for _, c := range d.Template.Spec.Containers {
		parses(t, c.Args)
	}
	for _, name := range []string{"stint-policies", "stint-envoy"} {
		for file, text := range all["ConfigMap "+name].Data {
			var err error
			if name == "stint-envoy" {
				_, err = envoyrls.Parse(file, []byte(text))
			} else {
				_, err = config.Parse(file, []byte(text))
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, name := range []string{"Service stint", "ConfigMap stint-policies", "ConfigMap stint-envoy",
		"PodDisruptionBudget stint", "NetworkPolicy stint"} {
		if _, ok := all[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
}

// TestDeployKubernetesPod holds the pod to the least that it needs: Kubernetes' profile
// "restricted" and a file system that is read only.
func TestDeployKubernetesPod(t *testing.T) {
	var d deployment
	spec(t, manifests(t), "Deployment stint", &d)
	p := d.Template.Spec
	is := func(name string, got *bool, want bool) {
		t.Helper()
		if got == nil || *got != want {
			t.Errorf("%s is not %v", name, want)
		}
	}
	is("automountServiceAccountToken", p.ServiceAccountToken, false)
	is("enableServiceLinks", p.ServiceLinks, false)
	is("runAsNonRoot", p.Security.NonRoot, true)
	if p.Security.User == 0 || p.Security.Group == 0 || p.Security.Seccomp["type"] != "RuntimeDefault" {
		t.Errorf("securityContext: got %+v, want a user, a group, and the seccomp profile RuntimeDefault", p.Security)
	}
	if len(p.Containers) != 1 {
		t.Fatalf("got %d containers, want 1", len(p.Containers))
	}
	c := p.Containers[0]
	is("privileged", c.Security.Privileged, false)
	is("allowPrivilegeEscalation", c.Security.Escalation, false)
	is("readOnlyRootFilesystem", c.Security.ReadOnlyRoot, true)
	if got := c.Security.Capabilities; !slices.Equal(got.Drop, []string{"ALL"}) || len(got.Add) > 0 {
		t.Errorf("capabilities: got %+v, want all of them dropped", got)
	}
	wantPinned(t, c.Image)

	// The process has nowhere to write, so that its tokens are given to it.
	for _, m := range c.Mounts {
		if !m.ReadOnly {
			t.Errorf("%s can be written", m.MountPath)
		}
	}
	flags := strings.Join(c.Args, "\n")
	for _, want := range []string{"admin-token-file", "api-token-file", "charge-key-file"} {
		if !strings.Contains(flags, "--"+want+"=/etc/stint/secrets/") {
			t.Errorf("--%s does not come from the secret", want)
		}
	}
	if strings.Contains(flags, "://") {
		t.Errorf("there is a URL on the command line: %q", c.Args)
	}
	for _, v := range p.Volumes {
		if v.Secret.SecretName != "" && v.Secret.DefaultMode&0o007 != 0 {
			t.Errorf("the secret %s is readable for all: %o", v.Secret.SecretName, v.Secret.DefaultMode)
		}
	}
	variables := map[string]string{}
	for _, e := range c.Env {
		variables[e.Name] = e.Value + e.From.Secret.Name
	}
	if variables["REDIS_URL"] != "stint" {
		t.Errorf("REDIS_URL is from %q, want the secret", variables["REDIS_URL"])
	}
	below(t, variables["GOMEMLIMIT"], c.Resources.Limits["memory"]+"B")
}

// TestDeployKubernetesSecret does what the top of the manifest says, with an editor that ends files
// with a line break, and uses what that makes: Prometheus gets a token that can only look.
func TestDeployKubernetesSecret(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deploy, "kubernetes", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	url := redistest.Start(t).URL()
	script := "set -e\nopenssl() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n'; }\nkubectl() { :; }\nrm() { :; }\neditor() { echo '" + url + "' > \"$1\"; }\nEDITOR=editor\n"
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "#     "); ok {
			script += command
		}
	}
	shell := exec.Command("sh", "-c", script)
	shell.Dir = t.TempDir()
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made := func(name string) string {
		text, err := os.ReadFile(filepath.Join(shell.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tokens, err := callers.ParseTokens("admin-tokens", []byte(made("admin-tokens")), true)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]callers.Holder{
		"operator-token":   {Name: "operator", Role: callers.Operate},
		"prometheus-token": {Name: "prometheus", Role: callers.Read},
	} {
		if got, ok := tokens.Holder([]string{"Bearer " + strings.TrimSpace(made(name))}); !ok || got != want {
			t.Errorf("%s is that of %+v, want %+v", name, got, want)
		}
	}
	t.Setenv(redisEnv, made("redis-url"))
	if got := execute(t, "", "bans", "--store", "redis"); got.code != exitGood {
		t.Errorf("with REDIS_URL from the secret: got %+v", got)
	}
	f := daemonFlags{NoToken: true}
	if c, err := f.configuration(&system{Stderr: io.Discard, Build: build()}); err != nil || c.Store != url {
		t.Errorf("the daemon uses %q, %v; want %s", c.Store, err, url)
	}
}

// TestDeployKubernetesNetwork has the admin listener reached by nobody whom the policy does not
// name, and by nobody through the service.
func TestDeployKubernetesNetwork(t *testing.T) {
	all := manifests(t)
	var d deployment
	spec(t, all, "Deployment stint", &d)
	ports := map[string]int{}
	for _, p := range d.Template.Spec.Containers[0].Ports {
		ports[p.Name] = p.Port
	}
	if _, ok := ports["admin"]; !ok {
		t.Fatalf("got the ports %v, want one called admin", ports)
	}
	var s struct {
		Selector map[string]string
		Ports    []struct {
			Name        string
			Port        int
			TargetPort  string `yaml:"targetPort"`
			AppProtocol string `yaml:"appProtocol"`
		}
	}
	spec(t, all, "Service stint", &s)
	for _, p := range s.Ports {
		if p.TargetPort == "admin" || p.Port == ports["admin"] || ports[p.TargetPort] == 0 {
			t.Errorf("the service has %+v, want http and grpc only", p)
		}
	}
	var n networkPolicy
	spec(t, all, "NetworkPolicy stint", &n)
	if !maps.Equal(n.PodSelector.MatchLabels, d.Template.Metadata.Labels) ||
		!slices.Equal(n.Types, []string{"Ingress", "Egress"}) {
		t.Errorf("the policy is for the %s of %v, want both ways of the pods of the deployment", n.Types, n.PodSelector)
	}
	named := func(peers []peer, ports []port) {
		t.Helper()
		if len(peers) == 0 || len(ports) == 0 {
			t.Error("a rule without peers or ports is for all of them")
		}
		for _, p := range peers {
			if (p.Namespaces == nil || len(p.Namespaces.MatchLabels) == 0) &&
				(p.Pods == nil || len(p.Pods.MatchLabels) == 0) {
				t.Errorf("a rule is for everybody: %+v", p)
			}
		}
	}
	for _, rule := range n.Ingress {
		named(rule.From, rule.Ports)
		admin := slices.ContainsFunc(rule.Ports, func(p port) bool { return p.Port == "admin" })
		if admin && len(rule.Ports) > 1 {
			t.Error("those who ask can reach admin")
		}
		for _, p := range rule.Ports {
			if name, ok := p.Port.(string); !ok || ports[name] == 0 {
				t.Errorf("the pod has no port %v", p.Port)
			}
		}
	}
	for _, rule := range n.Egress {
		named(rule.To, rule.Ports)
	}
}

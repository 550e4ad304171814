package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/testkit"
)

const (
	root       = "../.."
	kubernetes = "../kubernetes"
)

// objects are manifests as Kubernetes reads them.
type objects []runtime.Object

// decode reads manifests with Kubernetes' types. Unknown and duplicate keys are mistakes.
func decode(t *testing.T, name string, text []byte) (all objects) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme,
		policyv1.AddToScheme, monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme, scheme,
		kjson.SerializerOptions{Yaml: true, Strict: true})
	for documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, 64<<10)
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		object, _, err := strict.Decode(document[:n], nil, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all = append(all, object)
	}
}

// build makes the manifests of a kustomization.
func build(t *testing.T, directory string) objects {
	t.Helper()
	made := testkit.Must(krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory))(t)
	text := testkit.Must(made.AsYaml())(t)
	return decode(t, directory, text)
}

// the returns the object of a type and a name, which has to be there.
func the[T metav1.Object](t *testing.T, all objects, name string) (found T) {
	t.Helper()
	for _, o := range all {
		if o, ok := o.(T); ok && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %T %s", found, name)
	return found
}

// TestManifests: every file is valid by itself, and part of a kustomization.
func TestManifests(t *testing.T) {
	for _, directory := range []string{"base", "example", "podmonitor"} {
		files := testkit.Must(filepath.Glob(filepath.Join(kubernetes, directory, "*.yaml")))(t)
		decoded := 0
		for _, name := range files {
			if base := filepath.Base(name); base == "kustomization.yaml" || base == "stint.yaml" {
				continue
			}
			decoded += len(decode(t, name, []byte(testkit.ReadFile(t, name))))
		}
		if decoded == 0 {
			t.Errorf("there are no manifests in %s", directory)
		}
		made := decoded
		if directory != "podmonitor" { // a component cannot be built alone
			made = len(build(t, filepath.Join(kubernetes, directory)))
		}
		if directory == "example" {
			made -= len(build(t, filepath.Join(kubernetes, "base")))
		}
		if made != decoded {
			t.Errorf("%s: the files have %d manifests, and kustomization.yaml has %d", directory, decoded, made)
		}
	}
}

// podOf returns the pod of the Deployment.
func podOf(t *testing.T, all objects) *corev1.PodTemplateSpec {
	t.Helper()
	return &the[*appsv1.Deployment](t, all, "stint").Spec.Template
}

// portsOf returns the ports of the container, by name.
func portsOf(p *corev1.PodTemplateSpec) map[string]int32 {
	ports := map[string]int32{}
	for _, port := range p.Spec.Containers[0].Ports {
		ports[port.Name] = port.ContainerPort
	}
	return ports
}

func selects(t *testing.T, what string, selector *metav1.LabelSelector, pod *corev1.PodTemplateSpec) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || s.Empty() || !s.Matches(labels.Set(pod.Labels)) {
		t.Errorf("%s selects %v (%v), and the pods have %v", what, s, err, pod.Labels)
	}
}

// TestReferences: what one manifest says of another is so, in the base and in the example.
func TestReferences(t *testing.T) {
	for _, directory := range []string{"base", "example"} {
		t.Run(directory, func(t *testing.T) {
			all := build(t, filepath.Join(kubernetes, directory))
			pod := podOf(t, all)
			ports := portsOf(pod)
			named := func(what string, port intstr.IntOrString) {
				t.Helper()
				if port.Type != intstr.String || ports[port.StrVal] == 0 {
					t.Errorf("%s: the pod has no port %v", what, port.String())
				}
			}
			selects(t, "the Deployment", the[*appsv1.Deployment](t, all, "stint").Spec.Selector, pod)

			service := the[*corev1.Service](t, all, "stint")
			selects(t, "the Service", &metav1.LabelSelector{MatchLabels: service.Spec.Selector}, pod)
			for _, p := range service.Spec.Ports {
				named("the Service", p.TargetPort)
				if p.TargetPort.StrVal == "metrics" {
					t.Error("clients can read metrics through the Service")
				}
			}

			budget := the[*policyv1.PodDisruptionBudget](t, all, "stint")
			selects(t, "the PodDisruptionBudget", budget.Spec.Selector, pod)
			scaler := the[*autoscalingv2.HorizontalPodAutoscaler](t, all, "stint")
			if target := scaler.Spec.ScaleTargetRef; target.Kind != "Deployment" || target.Name != "stint" ||
				target.APIVersion != appsv1.SchemeGroupVersion.String() {
				t.Errorf("the HorizontalPodAutoscaler scales %+v", target)
			}
			if the[*appsv1.Deployment](t, all, "stint").Spec.Replicas != nil {
				t.Error("the Deployment has replicas: applying it again would undo what the HorizontalPodAutoscaler did")
			}
			if *scaler.Spec.MinReplicas <= int32(budget.Spec.MaxUnavailable.IntValue()) {
				t.Errorf("%d replicas, and %s of them may be missing", *scaler.Spec.MinReplicas, budget.Spec.MaxUnavailable)
			}
			container := &pod.Spec.Containers[0]
			if container.Resources.Requests.Cpu().IsZero() {
				t.Error("the HorizontalPodAutoscaler needs the container to request CPU")
			}
			for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
				named("a probe", probe.HTTPGet.Port)
			}
			if got := pod.Annotations["prometheus.io/port"]; got != strconv.Itoa(int(ports["metrics"])) {
				t.Errorf("the annotation for Prometheus is port %s, want %d", got, ports["metrics"])
			}
			checkNetwork(t, the[*networkingv1.NetworkPolicy](t, all, "stint"), pod, named)
		})
	}
}

// checkNetwork: the policy names all who may connect, and only Prometheus may read metrics.
func checkNetwork(t *testing.T, n *networkingv1.NetworkPolicy, pod *corev1.PodTemplateSpec, named func(string, intstr.IntOrString)) {
	t.Helper()
	selects(t, "the NetworkPolicy", &n.Spec.PodSelector, pod)
	if len(n.Spec.PolicyTypes) != 2 {
		t.Errorf("the NetworkPolicy is for %v, want both directions", n.Spec.PolicyTypes)
	}
	someone := func(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
		t.Helper()
		if len(peers) == 0 || len(ports) == 0 {
			t.Error("a rule without peers or ports is for all of them")
		}
		for _, p := range peers {
			if p.NamespaceSelector != nil && len(p.NamespaceSelector.MatchLabels) == 0 {
				t.Errorf("a rule is for pods of every namespace, whose labels tenants choose: %+v", p)
			}
			if p.IPBlock == nil && (p.NamespaceSelector == nil || len(p.NamespaceSelector.MatchLabels) == 0) &&
				(p.PodSelector == nil || len(p.PodSelector.MatchLabels) == 0) {
				t.Errorf("a rule is for everyone: %+v", p)
			}
		}
	}
	for _, rule := range n.Spec.Ingress {
		someone(rule.From, rule.Ports)
		for _, p := range rule.Ports {
			named("the NetworkPolicy", *p.Port)
			if p.Port.StrVal == "metrics" && (len(rule.Ports) > 1 || len(rule.From) > 1) {
				t.Error("more than Prometheus can read metrics, or Prometheus can read more")
			}
		}
	}
	for _, rule := range n.Spec.Egress {
		someone(rule.To, rule.Ports)
	}
}

// TestPod: the pod has the least that it needs. Kubernetes' own check of the profile restricted has
// nothing against it.
func TestPod(t *testing.T) {
	all := build(t, filepath.Join(kubernetes, "base"))
	pod := podOf(t, all)
	evaluator := testkit.Must(policy.NewEvaluator(policy.DefaultChecks(), nil))(t)
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	if got := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)); !got.Allowed {
		t.Errorf("the profile restricted: %s", got.ForbiddenDetail())
	}

	c := &pod.Spec.Containers[0]
	if *pod.Spec.AutomountServiceAccountToken || *pod.Spec.EnableServiceLinks ||
		!*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("want no token of Kubernetes, no links to services, and a root file system that is read only")
	}
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly || m.SubPath != "" {
			t.Errorf("%s can be written, or does not change with its source", m.MountPath)
		}
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.ConfigMap != nil:
			the[*corev1.ConfigMap](t, all, v.ConfigMap.Name)
		case v.Secret == nil || *v.Secret.DefaultMode&0o007 != 0:
			t.Errorf("the volume %s is no ConfigMap, or a Secret that everyone can read", v.Name)
		}
	}
	if strings.Contains(strings.Join(c.Args, " "), "://") {
		t.Errorf("there is a URL on the command line, where others can see it: %q", c.Args)
	}

	drain, err := time.ParseDuration(strings.TrimPrefix(c.Args[slices.IndexFunc(c.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "--drain=")
	})], "--drain="))
	if grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second; err != nil ||
		grace < drain+10*time.Second {
		t.Errorf("the pod has %v to end, and drains for %v (%v); want 10 s more to finish requests", grace, drain, err)
	}
	soft, err := syntax.Size(environment(c)["GOMEMLIMIT"])
	hard := c.Resources.Limits.Memory().Value()
	if err != nil || soft > hard/5*4 || soft < hard/2 {
		t.Errorf("GOMEMLIMIT is %d (%v) and the memory %d; want at most four fifths", soft, err, hard)
	}
}

// environment returns the variables that a container sets by value.
func environment(c *corev1.Container) map[string]string {
	variables := map[string]string{}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			variables[e.Name] = e.Value
		}
	}
	return variables
}

// TestExample: it changes what it says, and the Prometheus Operator finds the port of the pods.
func TestExample(t *testing.T) {
	directory := t.TempDir()
	if err := os.CopyFS(directory, os.DirFS(kubernetes)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(directory, "example", "kustomization.yaml")
	testkit.WriteFile(t, name, strings.Replace(testkit.ReadFile(t, name), "#components:\n#  - ", "components:\n  - ", 1))
	all := build(t, filepath.Join(directory, "example"))
	base := podOf(t, build(t, filepath.Join(kubernetes, "base")))
	pod := podOf(t, all)
	want := strings.Replace(base.Spec.Containers[0].Image, "ghcr.io/stint-limiter/", "registry.example.com/", 1)
	if got := pod.Spec.Containers[0].Image; got != want {
		t.Errorf("the image is %s, want %s", got, want)
	}
	for _, o := range all {
		if _, ok := o.(*corev1.Namespace); ok {
			continue
		}
		if o := o.(metav1.Object); o.GetNamespace() != "stint" {
			t.Errorf("%s is in the namespace %q", o.GetName(), o.GetNamespace())
		}
	}
	if text := the[*corev1.ConfigMap](t, all, "stint-policies").Data["stint.yaml"]; !strings.Contains(text, "name: users") {
		t.Errorf("the policies are not those of the example: %s", text)
	}
	monitor := the[*monitoringv1.PodMonitor](t, all, "stint")
	selects(t, "the PodMonitor", &monitor.Spec.Selector, pod)
	for _, endpoint := range monitor.Spec.PodMetricsEndpoints {
		if portsOf(pod)[*endpoint.Port] == 0 || endpoint.Path != "" {
			t.Errorf("the PodMonitor scrapes %s of port %s", endpoint.Path, *endpoint.Port)
		}
	}
}

// TestEnvoyGatewayValues: the values for Envoy Gateway's chart are those that docs/migrating.md
// shows, with the image of the manifests.
func TestEnvoyGatewayValues(t *testing.T) {
	text := testkit.ReadFile(t, "../envoy-gateway/values.yaml")
	_, shown, _ := strings.Cut(testkit.ReadFile(t, filepath.Join(root, "docs", "migrating.md")), "```yaml\nconfig:\n")
	shown, _, _ = strings.Cut(shown, "```")
	if _, values, _ := strings.Cut(text, "\nconfig:\n"); values != shown {
		t.Errorf("the file has\n%s\nand the page\n%s", values, shown)
	}
	var values struct {
		Config struct {
			EnvoyGateway struct {
				Provider struct {
					Kubernetes struct {
						RateLimitDeployment struct{ Container struct{ Image string } } `yaml:"rateLimitDeployment"`
					}
				}
			} `yaml:"envoyGateway"`
		}
	}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	want := podOf(t, build(t, filepath.Join(kubernetes, "base"))).Spec.Containers[0].Image
	if is := values.Config.EnvoyGateway.Provider.Kubernetes.RateLimitDeployment.Container.Image; is != want {
		t.Errorf("the image is %s, want %s", is, want)
	}
}

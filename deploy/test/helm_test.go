//go:build image

package deploy

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	helm "helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/stint-limiter/stint/internal/testkit"
)

const chart = "../helm/stint"

// render returns the objects of the chart with some values, or the error of its schema.
func render(t *testing.T, text string) (objects, error) {
	t.Helper()
	loaded := testkit.Must(loader.Load(chart))(t)
	given := testkit.Must(chartutil.ReadValues([]byte(text)))(t)
	values, err := chartutil.ToRenderValues(loaded, given,
		chartutil.ReleaseOptions{Name: "limits", Namespace: "shop"}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files := testkit.Must(helm.Render(loaded, values))(t)
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all.WriteString(strings.TrimPrefix(strings.TrimSpace(files[name]), "---") + "\n")
	}
	return decode(t, chart, []byte(all.String())), nil
}

// TestChart: helm's own linter accepts the chart. By default its objects are those of the base.
func TestChart(t *testing.T) {
	for _, message := range lint.All(chart, nil, "shop", true).Messages {
		if message.Severity >= support.WarningSev {
			t.Errorf("lint: %v", message)
		}
	}
	got := testkit.Must(render(t, ""))(t)
	base := build(t, filepath.Join(kubernetes, "base"))
	if len(got) != len(base) {
		t.Errorf("the chart has %d objects, and the base %d", len(got), len(base))
	}
	if is, want := podOf(t, got), podOf(t, base); !reflect.DeepEqual(is, want) {
		t.Errorf("the pod is\n%v\nwant that of the base\n%v", is, want)
	}
}

// TestChartValues: each value changes what it is for, and the schema refuses others.
func TestChartValues(t *testing.T) {
	got, err := render(t, `
image: registry.example.com/stint:1.2.3
secret: mine
policies: {stint.yaml: "tiers: []"}
envoy: {a.yaml: "domain: a"}
replicas: {min: 3, max: 4}
overrides: {Deployment: {spec: {template: {spec: {priorityClassName: high}}}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	pod := podOf(t, got)
	if pod.Spec.Containers[0].Image != "registry.example.com/stint:1.2.3" || pod.Spec.PriorityClassName != "high" {
		t.Errorf("the pod is %v", pod)
	}
	secret := ""
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			secret = v.Secret.SecretName
		}
	}
	if from := pod.Spec.Containers[0].Env[0].ValueFrom; secret != "mine" || from.SecretKeyRef.Name != "mine" {
		t.Errorf("the Secret is %s, and for REDIS_URL %v", secret, from)
	}
	for name, want := range map[string]map[string]string{
		"stint-policies": {"stint.yaml": "tiers: []"}, "stint-envoy": {"a.yaml": "domain: a"},
	} {
		if is := the[*corev1.ConfigMap](t, got, name).Data; !maps.Equal(is, want) {
			t.Errorf("%s has %v, want %v", name, is, want)
		}
	}
	scale := the[*autoscalingv2.HorizontalPodAutoscaler](t, got, "stint")
	if *scale.Spec.MinReplicas != 3 || scale.Spec.MaxReplicas != 4 || scale.Namespace != "shop" {
		t.Errorf("the HorizontalPodAutoscaler is %v", scale)
	}
	for _, wrong := range []string{"imag: a:1", "image: stint", "replicas: {min: 0, max: 1}", "policies: {a: {b: c}}",
		"overrides: {Pod: {}}"} {
		if _, err := render(t, wrong); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}

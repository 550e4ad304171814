package deploy

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// container is that of the Deployment, prepared to run here.
type container struct {
	spec  *corev1.Container
	pod   *corev1.PodTemplateSpec
	files string            // a directory with what is mounted, as seen from /
	addrs map[string]string // of its listeners, by the names of its ports
	args  []string          // those of the manifest, and where to listen here
	env   []string
	token string // of the API
	envoy string // the token of Envoy's rate limit service
}

// prepare writes what the container mounts, and chooses addresses on this host.
func prepare(t *testing.T, redis string) *container {
	t.Helper()
	all := build(t, filepath.Join(kubernetes, "base"))
	pod := podOf(t, all)
	c := &container{spec: &pod.Spec.Containers[0], pod: pod, files: t.TempDir(), addrs: map[string]string{}}
	secrets := createSecret(t, redis)
	for _, m := range c.spec.VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			if v.Name != m.Name {
				continue
			}
			if v.Secret != nil {
				for _, item := range v.Secret.Items {
					testkit.WriteFile(t, filepath.Join(c.files, m.MountPath, item.Path), secrets[item.Key])
				}
				continue
			}
			for name, text := range the[*corev1.ConfigMap](t, all, v.ConfigMap.Name).Data {
				testkit.WriteFile(t, filepath.Join(c.files, m.MountPath, name), text)
			}
		}
	}
	c.token, c.envoy = strings.TrimSpace(secrets["api-tokens"]), strings.TrimSpace(secrets["envoy-tokens"])
	listens := map[string]string{"http": ":8080", "grpc": ":8081"} // by default
	for _, arg := range c.spec.Args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		listens[name] = value
	}
	for name, port := range portsOf(pod) {
		if want := fmt.Sprintf(":%d", port); listens[name] != want {
			t.Errorf("the port %s is %s, and the container listens on %q", name, want, listens[name])
		}
	}
	c.args = append(c.args, c.spec.Args...)
	for _, name := range []string{"http", "grpc", "metrics", "admin"} {
		c.addrs[name] = proxytest.FreeAddress(t)
		c.args = append(c.args, "--"+name+"="+c.addrs[name])
	}
	for _, e := range c.spec.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = secrets[e.ValueFrom.SecretKeyRef.Key]
		}
		c.env = append(c.env, e.Name+"="+value)
	}
	return c
}

// start runs the program with the container's command line and environment, and returns when the
// probe of readiness succeeds.
func (c *container) start(t *testing.T) *proxytest.Process {
	t.Helper()
	program := exec.Command(proxytest.BuildStint(t))
	for _, arg := range c.args {
		program.Args = append(program.Args, strings.ReplaceAll(arg, "=/etc/", "="+c.files+"/etc/"))
	}
	program.Env = c.env
	p := proxytest.Run(t, program)
	p.AwaitReady(t, "http://"+c.addrs["http"]+c.spec.ReadinessProbe.HTTPGet.Path)
	return p
}

// take makes a decision through the API and returns its status.
func (c *container) take(path, subject string) (int, error) {
	request, err := http.NewRequest(http.MethodPost, "http://"+c.addrs["http"]+"/v1/take",
		strings.NewReader(fmt.Sprintf(`{"method": "GET", "path": %q, "peer": %q}`, path, subject)))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// shouldRateLimit asks as Envoy does and returns the status of the call.
func (c *container) shouldRateLimit(t *testing.T, token string) codes.Code {
	t.Helper()
	connection, err := grpc.NewClient(c.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx := t.Context()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	_, err = rls.NewRateLimitServiceClient(connection).ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: "ingress",
		Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.1"}},
		}},
	})
	return status.Code(err)
}

// createSecret does what the top of the manifest says, with an editor that ends files with a line
// break, and returns what the Secret holds.
func createSecret(t *testing.T, redis string) map[string]string {
	t.Helper()
	script := "set -e\nopenssl() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n'; }\nrm() { :; }\n" +
		"kubectl() { for arg; do case $arg in --from-file=*) echo \"${arg#--from-file=}\";; esac; done; }\n" +
		"editor() { echo '" + redis + "' > \"$1\"; }\nEDITOR=editor\n"
	for line := range strings.Lines(testkit.ReadFile(t, filepath.Join(kubernetes, "base", "deployment.yaml"))) {
		if command, ok := strings.CutPrefix(line, "#     "); ok {
			script += command
		}
	}
	shell := exec.Command("sh", "-c", script)
	shell.Dir = t.TempDir()
	out, err := shell.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	secrets := map[string]string{}
	for _, name := range strings.Fields(string(out)) {
		secrets[name] = testkit.ReadFile(t, filepath.Join(shell.Dir, name))
	}
	return secrets
}

// TestContainer runs the container's command line with the Secret that the manifest describes.
// Clients, Prometheus and operators get answers where the manifest says, and SIGTERM ends it.
func TestContainer(t *testing.T) {
	redis := redistest.Start(t)
	c := prepare(t, redis.URL())
	tokens := testkit.ReadFile(t, filepath.Join(c.files, "etc/stint/secrets/admin-tokens"))
	held := testkit.Must(callers.ParseTokens("admin-tokens", []byte(tokens), true))(t)
	_, operator, _ := strings.Cut(strings.TrimSpace(tokens), ": ")
	if got, ok := held.Holder([]string{"Bearer " + operator}); !ok ||
		got != (callers.Holder{Name: "operator", Role: callers.Operate}) {
		t.Errorf("the token is that of %+v, want an operator", got)
	}
	c.args = append(c.args, "--drain=0s") // the image's test drains
	p := c.start(t)
	if status, err := c.take("/", "192.0.2.1"); status != http.StatusOK {
		t.Errorf("take: got %d, %v", status, err)
	}
	for token, want := range map[string]codes.Code{
		c.envoy: codes.OK, "": codes.Unauthenticated, c.token: codes.Unauthenticated,
	} {
		if got := c.shouldRateLimit(t, token); got != want {
			t.Errorf("Envoy's service with the token %q: got %v, want %v", token, got, want)
		}
	}
	if keys := redis.CLI(t, "DBSIZE"); strings.HasPrefix(keys, "0") {
		t.Error("nothing is in Redis: REDIS_URL from the Secret is not used")
	}
	if body := get(t, "http://"+c.addrs["metrics"]+"/metrics"); !strings.Contains(body, `stint_decisions_total{outcome="allowed"`) {
		t.Errorf("metrics: got %s", body)
	}
	bans := exec.Command(proxytest.BuildStint(t), "bans", "--server", "http://"+c.addrs["admin"], "--token", operator)
	if out, err := bans.CombinedOutput(); err != nil {
		t.Errorf("bans: %v: %s", err, out)
	}
	wantEnd(t, p)
}

// wantEnd ends a program with SIGTERM.
func wantEnd(t *testing.T, p *proxytest.Process) {
	t.Helper()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if <-p.Done; p.Cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the program ended with %v", p.Cmd.ProcessState)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, body := testkit.Fetch(t, http.DefaultClient, http.MethodGet, url, "")
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return body
}

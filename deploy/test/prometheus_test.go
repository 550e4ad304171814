package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

const (
	rulesFile  = "../prometheus/stint.rules.yaml"
	configFile = "../prometheus/prometheus.yaml"
	boardFile  = "../grafana/stint.json"
)

// TestMonitoring: a real Prometheus with the shipped configuration and rules finds the pods of the
// shipped manifests and scrapes them. While they have traffic, denials, a ban, an outage of Redis
// and an invalid configuration, every query of the board returns data, every recording rule has
// data, and alerts fire and end.
//
// Times are shortened: scrapes and rules every half second, and alerts fire after a second.
func TestMonitoring(t *testing.T) {
	redis := redistest.Start(t)
	c := prepare(t, redis.URL())
	policies := filepath.Join(c.files, "etc/stint/policies/stint.yaml")
	testkit.WriteFile(t, policies, testkit.ReadFile(t, policies)+"bans: {after: 100, within: 1m, durations: [1h]}\n")
	c.start(t)
	gateway := startGateway(t)
	pods := discovered(t, c.pod, map[string]map[string]string{"stint-1": c.addrs, "gateway-1": gateway.addrs})
	prometheus := startPrometheus(t, pods)
	began := time.Now()
	startTraffic(t, c, gateway)

	// What the panels show besides traffic.
	prometheus.await(t, `stint_decisions_total{reason="ban"}`, began)
	prometheus.await(t, "stint_redis_cpu_share", began) // read twice
	testkit.WriteFile(t, policies, "tiers: [{]\n")
	redis.Kill()
	const firing = `ALERTS{alertname="%s",alertstate="firing",job="stint"}`
	for _, name := range []string{"StintStoreDown", "StintBlockedShare", "StintConfigRefused"} {
		prometheus.await(t, fmt.Sprintf(firing, name), began)
	}
	redis.Restart(t)
	testkit.WriteFile(t, policies, "tiers: [{name: all, identity: ip, limits: 100/1m}]\n")
	for _, name := range []string{"StintStoreDown", "StintConfigRefused"} {
		prometheus.await(t, fmt.Sprintf("absent("+firing+")", name), time.Now())
	}

	for _, rule := range rules(t) {
		if rule.Record != "" {
			prometheus.await(t, rule.Record, began)
		}
	}
	for _, q := range boardQueries(t, prometheus) {
		t.Run(q.name, func(t *testing.T) {
			prometheus.await(t, q.expr, began)
			if q.state { // also now that nothing is wrong
				prometheus.await(t, q.expr, time.Now())
			}
		})
	}
}

// gatewayServer is a program that embeds a server, as a gateway, and calls other people's APIs.
type gatewayServer struct {
	*server.Server
	addrs map[string]string
}

func startGateway(t *testing.T) *gatewayServer {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(300 * time.Millisecond) // until the charge has left its window, so that a refund is not applied
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(upstream.Close)
	policies := testkit.TempFile(t, "stint.yaml", fmt.Sprintf(`
gateway: {routes: [{upstream: %q}]}
outbound: {billing: {limits: 5/1s, max_wait: 2s}}
tiers: [{name: all, identity: ip, limits: 100/100ms}]
policies: [{name: failing, match: {path: /**}, limits: 50/100ms, refund: 5xx}]
`, upstream.URL))
	s, err := server.New(server.Config{
		HTTP: "127.0.0.1:0", Metrics: "127.0.0.1:0", Policies: policies, Gateway: &config.Gateway{},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) }) // nothing depends on it
	registry := testkit.Must(s.Outbound())(t)
	t.Cleanup(registry.Close)
	api := testkit.Must(registry.API("billing"))(t)
	api.Cooldown(500 * time.Millisecond)
	every(t, 100*time.Millisecond, func() { _, _ = api.Wait(t.Context()) })
	return &gatewayServer{s, map[string]string{
		"http": s.Addr(server.HTTP).String(), "metrics": s.Addr(server.Metrics).String(),
	}}
}

// every calls f again and again until the test ends.
func every(t *testing.T, pause time.Duration, f func()) {
	t.Helper()
	var work sync.WaitGroup
	work.Go(func() {
		for t.Context().Err() == nil {
			f()
			time.Sleep(pause)
		}
	})
	t.Cleanup(work.Wait)
}

// startTraffic makes decisions through all of the listeners. What they answer is tested elsewhere.
func startTraffic(t *testing.T, c *container, gateway *gatewayServer) {
	t.Helper()
	n := 0
	every(t, 2*time.Millisecond, func() {
		n++
		_, _ = c.take("/", "192.0.2.1")
		_, _ = c.take("/", fmt.Sprintf("198.51.%d.%d", n/250%250, n%250))
	})
	every(t, 10*time.Millisecond, func() {
		descriptors := `{"domain": "ingress", "descriptors": [{"entries": [{"key": "remote_address", "value": "192.0.2.9"}]}]}`
		if response, err := http.Post("http://"+c.addrs["http"]+"/json", "application/json", strings.NewReader(descriptors)); err == nil {
			response.Body.Close()
		}
	})
	every(t, 10*time.Millisecond, func() {
		if response, err := http.Get("http://" + gateway.addrs["http"]); err == nil {
			response.Body.Close()
		}
	})
}

// discovered returns what Prometheus' discovery finds of pods in Kubernetes: a target for each port
// of the manifest's template, with the number that it has here, and the labels of the pod.
func discovered(t *testing.T, template *corev1.PodTemplateSpec, running map[string]map[string]string) string {
	t.Helper()
	type target struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	var targets []target
	for name, addrs := range running {
		for _, port := range template.Spec.Containers[0].Ports {
			if addrs[port.Name] == "" {
				continue
			}
			found := map[string]string{
				"__meta_kubernetes_namespace":               "stint",
				"__meta_kubernetes_pod_name":                name,
				"__meta_kubernetes_pod_container_port_name": port.Name,
			}
			for label, value := range template.Labels {
				label = regexp.MustCompile(`[^a-zA-Z0-9_]`).ReplaceAllString(label, "_")
				found["__meta_kubernetes_pod_label_"+label] = value
			}
			targets = append(targets, target{[]string{addrs[port.Name]}, found})
		}
	}
	return string(testkit.Must(json.Marshal(targets))(t))
}

type rule struct{ Record, Alert, Expr string }

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(testkit.ReadFile(t, rulesFile)), &file); err != nil || len(file.Groups) != 1 {
		t.Fatalf("%s: %v", rulesFile, err)
	}
	return file.Groups[0].Rules
}

// prometheusServer is a Prometheus, by its URL.
type prometheusServer string

// startPrometheus runs it with the shipped configuration and shortened times. The pods are in a
// file, because Debian's Prometheus is built without the discovery in Kubernetes.
func startPrometheus(t *testing.T, pods string) prometheusServer {
	t.Helper()
	directory := t.TempDir()
	testkit.WriteFile(t, filepath.Join(directory, "pods.json"), pods)
	conf := proxytest.Install(t, directory, configFile,
		"scrape_interval: 15s", "scrape_interval: 500ms\n  scrape_timeout: 500ms",
		"kubernetes_sd_configs: [{role: pod}]", "file_sd_configs: [{files: [pods.json]}]",
		"alertmanager:9093", "127.0.0.1:9") // none
	proxytest.Install(t, directory, rulesFile,
		"interval: 15s", "interval: 500ms", "for: 1m", "for: 1s", "for: 60s", "for: 1s")
	address := proxytest.FreeAddress(t)
	proxytest.Launch(t, nil, "prometheus", "--config.file="+conf, "--storage.tsdb.path="+filepath.Join(directory, "data"),
		"--web.listen-address="+address, "--log.level=warn").AwaitReady(t, "http://"+address+"/api/v1/status/config")
	return prometheusServer("http://" + address)
}

// get returns the data of an answer.
func (p prometheusServer) get(path string, query url.Values) (json.RawMessage, error) {
	response, err := http.Get(string(p) + path + "?" + query.Encode())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Data  json.RawMessage
		Error string
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Error != "" {
		return nil, fmt.Errorf("status %d: %w %s", response.StatusCode, err, answer.Error)
	}
	return answer.Data, nil
}

// await returns when a query over the time since then has a number, as Grafana asks for it.
func (p prometheusServer) await(t *testing.T, expr string, since time.Time) {
	t.Helper()
	testkit.EventuallyNil(t, expr, func() error {
		data, err := p.get("/api/v1/query_range", url.Values{
			"query": {expr}, "step": {"0.5"},
			"start": {since.Format(time.RFC3339Nano)}, "end": {time.Now().Format(time.RFC3339Nano)},
		})
		if err != nil {
			return err
		}
		var found struct{ Result []struct{ Values [][2]any } }
		if err := json.Unmarshal(data, &found); err != nil {
			return err
		}
		for _, series := range found.Result {
			for _, v := range series.Values {
				if number, err := strconv.ParseFloat(v[1].(string), 64); err == nil && !math.IsNaN(number) {
					return nil
				}
			}
		}
		time.Sleep(100 * time.Millisecond)
		return fmt.Errorf("no data in %d series", len(found.Result))
	})
}

// boardQuery is a query of a panel. If the panel shows a state, there is always one.
type boardQuery struct {
	name, expr string
	state      bool
}

// boardQueries returns the queries of all panels, as Grafana sends them if someone selects each job
// and instance. The queries of the variables must find some.
func boardQueries(t *testing.T, p prometheusServer) (queries []boardQuery) {
	t.Helper()
	var board struct {
		Templating struct {
			List []struct {
				Name, Type, Definition string
			}
		}
		Panels []struct {
			Title, Type string
			ID          int
			Targets     []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal([]byte(testkit.ReadFile(t, boardFile)), &board); err != nil {
		t.Fatal(err)
	}
	variables := []string{"$__rate_interval", "2s"} // four scrapes, as in Grafana
	labelValues := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range board.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Fatalf("$%s: this test does not know %s", v.Name, v.Definition)
		}
		match := strings.NewReplacer(variables...).Replace(m[1])
		data, err := p.get("/api/v1/label/"+m[2]+"/values", url.Values{"match[]": {match}})
		var values []string
		if err = errors.Join(err, json.Unmarshal(data, &values)); err != nil || len(values) == 0 {
			t.Fatalf("$%s has the values %s, %v", v.Name, data, err)
		}
		variables = append(variables, "$"+v.Name, "("+strings.Join(values, "|")+")")
	}
	for _, panel := range board.Panels {
		if len(panel.Targets) == 0 && panel.Type != "row" {
			t.Errorf("the panel %s has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			queries = append(queries, boardQuery{
				name:  fmt.Sprintf("%d %s %s", panel.ID, panel.Title, target.RefID),
				expr:  strings.NewReplacer(variables...).Replace(target.Expr),
				state: panel.Type != "timeseries",
			})
		}
	}
	if len(queries) < 40 {
		t.Fatalf("found %d queries: the board has another form", len(queries))
	}
	return queries
}

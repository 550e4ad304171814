package observe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
	"go.yaml.in/yaml/v3"
)

const (
	rulesFile     = "../deploy/prometheus/stint.rules.yaml"
	rulesTestFile = "../deploy/prometheus/stint.rules.test.yaml"
	dashboardFile = "../deploy/grafana/stint.json"
)

// promtool runs it, and fails without it.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs promtool: make test runs it")
	}
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v (it is in Debian's package prometheus)\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusRules(t *testing.T) {
	testkit.SkipUnderRace(t)
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
	promtool(t, "test", "rules", rulesTestFile)
}

// promRule is a rule in the file for Prometheus.
type promRule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Keep        string            `yaml:"keep_firing_for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func promRules(t *testing.T) (rules []promRule, interval time.Duration) {
	t.Helper()
	var file struct {
		Groups []struct {
			Interval string     `yaml:"interval"`
			Rules    []promRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(fileText(t, rulesFile), &file); err != nil || len(file.Groups) != 1 {
		t.Fatalf("%s: %v, %d groups; want one", rulesFile, err, len(file.Groups))
	}
	return file.Groups[0].Rules, duration(t, file.Groups[0].Interval)
}

// The alerts of Prometheus are those of the server, with the same numbers.
func TestPrometheusRulesAreTheServers(t *testing.T) {
	rules, interval := promRules(t)
	inExpr := map[string][]string{ // besides the threshold
		"BlockedShare": {fmt.Sprintf(">= %d", alertFloor), "[5m]"},
		"LimiterSlow":  {fmt.Sprintf(">= %d", alertFloor), "[5m]"},
		"Spike": {fmt.Sprintf("rate1m * 60 >= %d", spikeFloor), "[1h] offset 1m",
			fmt.Sprintf("count_over_time(stint:decisions:rate1m[1h]) >= %d", spikeHistory/interval)},
		"DenialJump": {"[1m]", "[1h] offset 1m", fmt.Sprintf("%v\n", jumpBase),
			fmt.Sprintf("count_over_time(stint:decisions:rate1m[1h]) >= %d", spikeHistory/interval)},
	}
	var names []string
	for _, r := range rules {
		if r.Alert != "" {
			names = append(names, strings.TrimPrefix(r.Alert, "Stint"))
		}
	}
	// That all processes are gone is for Prometheus to notice: there is no server left to.
	if want := append(alertNames(), "Absent"); !slices.Equal(names, want) {
		t.Fatalf("the alerts are %v, want %v", names, want)
	}
	for i := range alertRules {
		want := &alertRules[i]
		got := rules[slices.IndexFunc(rules, func(r promRule) bool { return r.Alert == "Stint"+want.name })]
		hold, keep := time.Duration(0), time.Duration(0)
		threshold := want.threshold
		switch {
		case want.lasts:
			hold = time.Duration(threshold) * time.Second
		case want.unit == "ms":
			threshold /= 1000 // Prometheus counts in seconds
		}
		if !want.lasts && want.name != "ConfigRefused" {
			operator := map[bool]string{false: ">", true: "<"}[want.below]
			inExpr[want.name] = append(inExpr[want.name], fmt.Sprintf("%s %v\n", operator, threshold))
		}
		if want.waits {
			hold = alertFor
		}
		if want.stays {
			keep = alertFor
		}
		for _, part := range inExpr[want.name] {
			if !strings.Contains(got.Expr+"\n", part) {
				t.Errorf("%s: %q is not in %s", want.name, part, got.Expr)
			}
		}
		if duration(t, got.For) != hold || duration(t, got.Keep) != keep || got.Labels["severity"] != want.severity {
			t.Errorf("%s: for %q, keep %q, severity %s; want %v, %v, %s", want.name, got.For, got.Keep, got.Labels["severity"], hold, keep, want.severity)
		}
		if want := "docs/alerts.md#" + strings.ToLower(want.name); got.Annotations["runbook"] != want {
			t.Errorf("%s: the runbook is %q, want %q", got.Alert, got.Annotations["runbook"], want)
		}
	}
}

// documentedMetrics has the name, the type and the labels of each metric in docs/metrics.md.
func documentedMetrics(t *testing.T) [][]string {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `stint_(\\w+)` \\| (\\w+) \\|([^|]*)\\|")
	return row.FindAllStringSubmatch(string(fileText(t, "../docs/metrics.md")), -1)
}

// TestEveryMetricIsDocumented, with its labels, and nothing else is.
func TestEveryMetricIsDocumented(t *testing.T) {
	var told, documented []string
	for _, m := range metrics {
		told = append(told, m.name+" "+strings.Join(m.labels, ", "))
	}
	for _, row := range documentedMetrics(t) {
		documented = append(documented, row[1]+" "+strings.ReplaceAll(strings.TrimSpace(row[3]), "`", ""))
	}
	slices.Sort(told)
	slices.Sort(documented)
	if !slices.Equal(told, documented) {
		t.Errorf("told:\n%s\ndocumented:\n%s", strings.Join(told, "\n"), strings.Join(documented, "\n"))
	}
}

// The rules and the dashboard speak of metrics that there are, and the dashboard of all of them.
func TestDeployedMetricsExist(t *testing.T) {
	documented := map[string]bool{}
	for _, row := range documentedMetrics(t) {
		documented["stint_"+row[1]] = true
		if row[2] == "histogram" {
			documented["stint_"+row[1]+"_bucket"], documented["stint_"+row[1]+"_count"] = true, true
		}
	}
	used := map[string]bool{}
	name := regexp.MustCompile(`\bstint_[a-z_]+`)
	for _, file := range []string{rulesFile, rulesTestFile, dashboardFile} {
		for _, metric := range name.FindAllString(string(fileText(t, file)), -1) {
			if used[metric] = true; !documented[metric] {
				t.Errorf("%s: there is no metric %s", file, metric)
			}
		}
	}
	for metric := range documented {
		histogram := documented[metric+"_bucket"]
		if base := strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count"); base != metric &&
			documented[base] {
			continue
		}
		if !used[metric] && !(histogram && (used[metric+"_bucket"] || used[metric+"_count"])) {
			t.Errorf("%s is shown nowhere", metric)
		}
	}
}

// Every alert has its part in the documentation, with the threshold in it.
func TestAlertsAreDocumented(t *testing.T) {
	doc := string(fileText(t, "../docs/alerts.md"))
	for i := range alertRules {
		r := &alertRules[i]
		row := fmt.Sprintf("| [%s](#%s) | %s | ", r.name, strings.ToLower(r.name), r.severity)
		if !strings.Contains(doc, row) {
			t.Errorf("no row begins with %q", row)
		}
		if r.threshold > 0 && !strings.Contains(doc, fmt.Sprintf("| `%s=%v` ", r.name, r.threshold)) {
			t.Errorf("the row of %s does not have its threshold, %v", r.name, r.threshold)
		}
		if !strings.Contains(doc, "\n## "+r.name+"\n") {
			t.Errorf("%s has no part of its own", r.name)
		}
	}
}

func fileText(t *testing.T, file string) []byte {
	t.Helper()
	text := testkit.Must(os.ReadFile(filepath.FromSlash(file)))(t)
	return text
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 0
	}
	d := testkit.Must(time.ParseDuration(text))(t)
	return d
}

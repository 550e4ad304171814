package observe

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/policy"
)

// thresholds counts, logs and posts events of type [policy.Threshold]. An event reports that a
// subject has used a certain share of a limit.
type thresholds struct {
	logger   *slog.Logger
	log      logsample.Sampler
	instance string
	counts   *byName[thresholdName, atomic.Int64]
	webhooks webhooks
}

type thresholdName struct {
	tier, policy string
	percent      int
}

func (n thresholdName) rest() thresholdName { return thresholdName{other, other, n.percent} }

func newThresholds(c *Config) *thresholds {
	t := &thresholds{logger: c.Logger, instance: c.Alerts.Instance,
		counts: newByName[thresholdName, atomic.Int64](thresholdName.rest, nil)}
	for i := range c.Webhooks {
		t.webhooks = append(t.webhooks,
			newWebhook(c.Webhooks[i].URL, thresholdPlan(strconv.Itoa(i+1), c.Webhooks[i].Key), c.Logger).start())
	}
	return t
}

// thresholdPlan returns the plan for posting thresholds. A message is retried for about an hour.
func thresholdPlan(name string, key []byte) webhookPlan {
	plan := webhookPlan{name: name, kind: "thresholds", media: "application/cloudevents+json", key: key,
		queue: 50_000, workers: 8}
	pause, all := time.Second, time.Duration(0)
	for all < time.Hour {
		plan.pauses, all = append(plan.pauses, pause), all+pause
		pause = min(2*pause, time.Minute)
	}
	return plan
}

func (t *thresholds) add(e *policy.Threshold, names *names) {
	name := thresholdName{clean(e.Rule.Tier), clean(e.Rule.Policy), e.Percent}
	t.counts.get(name).Add(1)
	if unlogged, ok := t.log.Allow(logsample.Few, time.Second); ok {
		t.logger.Info(fmt.Sprintf("stint: %d%% of a quota is used", e.Percent), "policy", e.Rule.Name(),
			"tier", e.Rule.Tier, "subject", names.label(names.kept(e.Subject)), "limit", e.Limit.String(),
			"used", e.Used, "until", e.Until.Format(time.RFC3339), "id", e.ID, "unlogged", unlogged)
	}
	if len(t.webhooks) > 0 {
		t.webhooks.send(t.message(e))
	}
}

// cloudEvent is the JSON form of a CloudEvent, version 1.0, about a threshold.
type cloudEvent struct {
	SpecVersion string        `json:"specversion"`
	ID          string        `json:"id"`
	Source      string        `json:"source"`
	Type        string        `json:"type"`
	Subject     string        `json:"subject"`
	Time        time.Time     `json:"time"`
	DataType    string        `json:"datacontenttype"`
	Data        thresholdData `json:"data"`
}

type thresholdData struct {
	Subject  string    `json:"subject"`
	Policy   string    `json:"policy"`
	Tier     string    `json:"tier"`
	Scope    string    `json:"scope"`
	Limit    string    `json:"limit"`
	Percent  int       `json:"percent"`
	Used     int64     `json:"used"`
	Max      int64     `json:"max"`
	Until    time.Time `json:"until"`
	Instance string    `json:"instance"`
}

func (t *thresholds) message(e *policy.Threshold) message {
	body, _ := json.Marshal(cloudEvent{ // never fails
		SpecVersion: "1.0", ID: e.ID, Source: "/stint", Type: "io.github.stint-limiter.threshold",
		Subject: e.Subject, Time: time.Now().UTC().Truncate(time.Millisecond), DataType: "application/json",
		Data: thresholdData{Subject: e.Subject, Policy: e.Rule.Policy, Tier: e.Rule.Tier, Scope: e.Scope,
			Limit: e.Limit.String(), Percent: e.Percent, Used: e.Used, Max: e.Limit.Max, Until: e.Until,
			Instance: t.instance},
	})
	return message{id: e.ID, what: label.Short(e.Subject), body: body}
}

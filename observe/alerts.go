package observe

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"time"
)

const (
	alertOK      = "ok"
	alertPending = "pending"
	alertFiring  = "firing"
)

// alerts evaluates the alert rules every second. An alert that begins to fire or ends is logged,
// and posted to the webhook if one is configured.
type alerts struct {
	logger   *slog.Logger
	webhooks webhooks // at most one
	instance string
	each     []*alertState
	known    time.Duration // minimum length of the history for comparisons with the past
	dropped  int64         // number of log records dropped by the end of the previous second
}

type alertState struct {
	rule *alertRule
	hold time.Duration // how long the condition must hold before the alert fires
	keep time.Duration // how long the condition must be gone before the alert ends

	shown  Alert
	begun  time.Time // when the condition began to hold
	lapsed time.Time // when the condition of a firing alert ceased to hold; zero while it holds
}

// newAlerts returns the alerts that are not turned off. The config must be valid.
func newAlerts(c AlertConfig, logger *slog.Logger) *alerts {
	if c.For == 0 {
		c.For = alertFor
	}
	a := &alerts{logger: logger, instance: c.Instance, known: c.For * (spikeHistory / alertFor)}
	if c.Webhook != "" {
		a.webhooks = webhooks{newWebhook(c.Webhook, alertPlan(), logger).start()}
	}
	for i := range alertRules {
		rule := &alertRules[i]
		threshold, set := c.Thresholds[rule.name]
		if !set {
			threshold = rule.threshold
		}
		if math.IsInf(threshold, 1) {
			continue
		}
		s := &alertState{rule: rule}
		s.shown = Alert{
			Name: rule.name, Severity: rule.severity, State: alertOK, Summary: rule.describe(threshold),
			Threshold: threshold, Unit: rule.unit, Since: time.Now(),
		}
		if rule.waits {
			s.hold = c.For
		}
		if rule.stays {
			s.keep = c.For
		}
		if rule.lasts {
			s.hold = time.Duration(threshold * float64(time.Second))
		}
		a.each = append(a.each, s)
	}
	return a
}

// threshold returns the threshold of an alert, or infinity if the alert is turned off.
func (a *alerts) threshold(name string) float64 {
	for _, s := range a.each {
		if s.rule.name == name {
			return s.shown.Threshold
		}
	}
	return math.Inf(1)
}

// evaluate evaluates all alerts and returns them. It also reports whether any alert has changed its
// state, or any alert that is not ok has changed its value or summary.
func (a *alerts) evaluate(r *readings) (all []Alert, changed bool) {
	r.dropped, a.dropped = r.dropped-a.dropped, r.dropped
	all = make([]Alert, len(a.each))
	for i, s := range a.each {
		before := s.shown
		s.step(r)
		all[i] = s.shown
		if s.shown.State != before.State {
			changed = true
			a.notify(before.State, &s.shown)
		}
		changed = changed || s.shown.State != alertOK &&
			(s.shown.Value != before.Value || s.shown.Summary != before.Summary)
	}
	return all, changed
}

// step updates the value, state and summary of an alert.
func (s *alertState) step(r *readings) {
	s.shown.Value = s.rule.value(r)
	least := s.shown.Threshold
	if s.rule.lasts {
		least = 0
	}
	holds := s.shown.Value > least
	if s.rule.below {
		holds = s.shown.Value > 0 && s.shown.Value < s.shown.Threshold
	}
	if holds || s.shown.State == alertOK {
		s.lapsed = time.Time{}
	} else if s.lapsed.IsZero() {
		s.lapsed = r.now
	}
	if holds && s.shown.State == alertOK {
		s.begun = r.now
		s.enter(alertPending, r)
	}
	switch {
	case s.shown.State == alertPending && holds:
		held := r.now.Sub(s.begun)
		if s.rule.lasts {
			held = time.Duration(s.shown.Value * float64(time.Second))
		}
		if held >= s.hold {
			s.enter(alertFiring, r)
		}
	case s.shown.State == alertPending, s.shown.State == alertFiring && !holds && r.now.Sub(s.lapsed) >= s.keep:
		s.enter(alertOK, r)
	}
	if holds || s.shown.State == alertOK {
		s.shown.Summary = s.summary(r)
	}
}

// summary describes what is wrong. For a pending alert, it also says how long the condition has
// held and when the alert will fire.
func (s *alertState) summary(r *readings) string {
	text := s.rule.describe(s.shown.Threshold)
	if s.shown.State == alertOK {
		return text
	}
	instead := s.shown.State == alertPending && s.rule.pending != ""
	if instead {
		text = fmt.Sprintf(s.rule.pending, amount(math.Floor(s.shown.Value), s.rule.unit),
			amount(s.shown.Threshold, s.rule.unit))
	}
	if s.rule.detail != nil {
		text += s.rule.detail(r)
	}
	if s.shown.State == alertPending && !instead {
		text += fmt.Sprintf(" This has lasted for %s; the alert fires after %s.",
			amount(math.Floor(r.now.Sub(s.begun).Seconds()), "s"), amount(s.hold.Seconds(), "s"))
	}
	return text
}

func (s *alertState) enter(state string, r *readings) { s.shown.State, s.shown.Since = state, r.now }

// notify logs and posts an alert that begins to fire or has ended. It ignores pending alerts. The
// argument before is the alert's previous state.
func (a *alerts) notify(before string, alert *Alert) {
	switch {
	case alert.State == alertFiring:
		a.logger.Warn("stint: alert: "+alert.Summary, "alert", alert.Name, "severity", alert.Severity,
			"value", alert.Value, "threshold", alert.Threshold, "unit", alert.Unit)
	case before == alertFiring:
		a.logger.Info("stint: alert: "+alert.Name+" has ended", "alert", alert.Name, "value", alert.Value)
	default:
		return
	}
	if len(a.webhooks) > 0 {
		a.webhooks.send(a.message(alert))
	}
}

// alertPlan returns the plan for posting alerts. Alerts are posted in order, each with at most
// three attempts.
func alertPlan() webhookPlan {
	return webhookPlan{name: "alerts", kind: "alerts", media: "application/json", queue: 64, workers: 1,
		pauses: []time.Duration{time.Second, 5 * time.Second}}
}

// notice is the JSON body posted for an alert.
type notice struct {
	Alert
	Instance string `json:"instance"`
	// Text describes the whole alert in one line, for chat services.
	Text string `json:"text"`
}

func (a *alerts) message(alert *Alert) message {
	body, err := json.Marshal(notice{*alert, a.instance, a.text(alert)})
	if err != nil { // the value is NaN or infinite
		a.logger.Error("stint: failed to encode an alert for the webhook", "alert", alert.Name, "cause", err)
	}
	return message{what: alert.Name + " " + alert.State, body: body}
}

func (a *alerts) text(alert *Alert) string {
	if alert.State == alertFiring {
		return fmt.Sprintf("[%s] stint on %s: %s (%s): %s", alert.Severity, a.instance, alert.Name,
			amount(alert.Value, alert.Unit), alert.Summary)
	}
	return fmt.Sprintf("[ended] stint on %s: %s (%s)", a.instance, alert.Name, amount(alert.Value, alert.Unit))
}

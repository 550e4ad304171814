package observe

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/messages"
)

// AlertConfig configures when alerts fire and where they are sent. The zero value is ready to use:
// thresholds have the defaults in docs/alerts.md, and alerts are only logged.
type AlertConfig struct {
	// Thresholds replaces default thresholds. Keys are names of alerts; docs/alerts.md gives the
	// units. An example is {"BlockedShare": 0.2}. An infinite threshold turns the alert off.
	Thresholds map[string]float64
	// For is the time for which a condition must hold before its alert fires, and the time for which
	// it must be gone before the alert ends. If it is 0, one minute is used. Some alerts fire or end
	// at once; see docs/alerts.md. Alerts that compare with the past need a history that is ten times
	// as long as For.
	For time.Duration
	// Webhook is the address to which every alert is posted when it begins to fire and when it ends.
	// If it is "", alerts are not posted. See docs/alerts.md for the body.
	Webhook string
	// Instance is the name of this process in posted alerts and thresholds, in denials, and in the
	// list of processes. If it is "", the host name is used.
	Instance string
}

func alertNames() []string {
	names := make([]string, len(alertRules))
	for i := range alertRules {
		names[i] = alertRules[i].name
	}
	return names
}

// Validate reports every mistake in the config, in one [*stint.InvalidError].
func (c *AlertConfig) Validate() error {
	var errs []error
	for name, threshold := range c.Thresholds {
		errs = append(errs, checkThreshold(name, threshold))
	}
	if c.For < 0 {
		errs = append(errs, fmt.Errorf("invalid AlertConfig.For %v; want at least 0", c.For))
	}
	if c.Webhook != "" {
		errs = append(errs, checkWebhook(c.Webhook))
	}
	return asInvalid(errs)
}

// asInvalid joins errors into one [*stint.InvalidError]. It returns nil if all errors are nil.
func asInvalid(errs []error) error {
	if err := errors.Join(errs...); err != nil {
		return &stint.InvalidError{Err: err}
	}
	return nil
}

func checkThreshold(name string, threshold float64) error {
	names := alertNames()
	at := slices.Index(names, name)
	if at < 0 {
		return fmt.Errorf("unknown alert %q%s; want one of %s", name, messages.Hint(name, names),
			strings.Join(names, ", "))
	}
	if !(threshold >= 0) { // also rejects NaN
		return fmt.Errorf("alert %q: invalid threshold %v; want at least 0", name, threshold)
	}
	if alertRules[at].unit == "share" && threshold >= 1 && !math.IsInf(threshold, 1) {
		return fmt.Errorf("alert %q: invalid threshold %v; want a share below 1, such as 0.2 for 20%%", name, threshold)
	}
	return nil
}

// checkWebhook checks the address of a webhook. Its error does not contain the address, because the
// addresses of chat services are secrets.
func checkWebhook(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New(`invalid webhook URL; want one such as "https://example.com/alerts"`)
	}
	return nil
}

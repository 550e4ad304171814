package observe

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/nearest"
)

// AlertConfig says when alerts fire, and who is notified. Its zero value is ready for use: the
// thresholds are those of docs/alerts.md, and alerts are logged.
type AlertConfig struct {
	// Thresholds are those that differ from the defaults, by the name of the alert, in its unit:
	// {"BlockedShare": 0.2}. An alert whose threshold is infinite is off.
	Thresholds map[string]float64
	// For is how long a condition has to last for its alert to fire, and to be gone for it to end,
	// where that is not at once. It is a minute unless set. Alerts that compare with the past need
	// ten times as much of it.
	For time.Duration
	// Webhook is an address that every alert is posted to when it begins to fire, and when it ends;
	// "" is none. See docs/alerts.md for what is posted.
	Webhook string
	// Instance is how this process is called in what is posted, also of thresholds. It is the name
	// of the host unless set.
	Instance string
}

// alertNames returns the names of all alerts.
func alertNames() []string {
	names := make([]string, len(alertRules))
	for i := range alertRules {
		names[i] = alertRules[i].name
	}
	return names
}

// Validate reports every mistake there is.
func (c *AlertConfig) Validate() error {
	var errs []error
	for name, threshold := range c.Thresholds {
		errs = append(errs, checkThreshold(name, threshold))
	}
	if c.For < 0 {
		errs = append(errs, fmt.Errorf("observe: alerts are to fire after %v; want at least 0", c.For))
	}
	if c.Webhook != "" {
		errs = append(errs, checkWebhook(c.Webhook))
	}
	return errors.Join(errs...)
}

func checkThreshold(name string, threshold float64) error {
	names := alertNames()
	at := slices.Index(names, name)
	if at < 0 {
		return fmt.Errorf("observe: there is no alert %q%s; want one of %s", name, nearest.Hint(name, names),
			strings.Join(names, ", "))
	}
	if !(threshold >= 0) { // which NaN is not
		return fmt.Errorf("observe: alert %q: the threshold is %v; want at least 0", name, threshold)
	}
	if alertRules[at].unit == "share" && threshold >= 1 && !math.IsInf(threshold, 1) {
		return fmt.Errorf("observe: alert %q: the threshold is %v; want a share below 1, such as 0.2 for 20 %%", name, threshold)
	}
	return nil
}

// checkWebhook keeps the address to itself: those of chats are secrets.
func checkWebhook(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New(`observe: the webhook is no address; want one such as "https://example.com/alerts"`)
	}
	return nil
}

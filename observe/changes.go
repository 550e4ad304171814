package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/reload"
)

const (
	// maxChanges is the maximum number of changes kept, and changeLife is the time for which they
	// are kept.
	maxChanges = 10
	changeLife = time.Hour
	// maxNewly is the maximum number of newly denied subjects that are recorded for a change.
	maxNewly = 10_000
	// explains is the lowest [Change.Share] at which a change explains the denials.
	explains = 0.6
)

// Change is a configuration change that took effect in the last hour.
type Change struct {
	At time.Time `json:"at"`
	// Source is the part of the configuration that was changed, such as "policies" or "envoy".
	// Files lists the changed files.
	Source string   `json:"source"`
	Files  []string `json:"files"`
	// What describes the differences, as in "api for enterprise from 500/1m to 50/1m".
	What []string `json:"what"`
	// Subjects is the number of subjects that this process has denied since the change but not before,
	// by rules that the change made stricter. Share is the number of their denials divided by the
	// number of all denials since the change. Explains reports whether Share is large enough for the
	// change to explain the denials.
	Subjects int     `json:"subjects"`
	Share    float64 `json:"share"`
	Explains bool    `json:"explains"`
}

// String returns the change as a sentence, with its time of day in UTC.
func (c *Change) String() string {
	text := fmt.Sprintf("Since %s: %s", c.At.UTC().Format("15:04:05"), strings.Join(c.What, "; "))
	switch c.Subjects {
	case 0:
	case 1:
		text += "; 1 subject newly denied"
	default:
		text += fmt.Sprintf("; %d subjects newly denied", c.Subjects)
	}
	return text + " (" + strings.Join(c.Files, ", ") + ")."
}

type change struct {
	Change
	denies map[reload.Rule]bool // rules that may deny more requests because of the change
	newly  map[string]bool      // subjects that are denied because of the change
	theirs int64                // denials of these subjects since the change
	all    int64                // all denials since the change
}

func newChange(source string, r *reload.Result) *change {
	c := &change{denies: map[reload.Rule]bool{}, newly: map[string]bool{}}
	c.At, c.Source, c.Files, c.What = r.At, label.Line(source), label.Lines(r.Files), label.Lines(r.Texts())
	for _, d := range r.Changes {
		for _, rule := range d.Denies {
			c.denies[reload.Rule{Tier: clean(rule.Tier), Policy: clean(rule.Policy)}] = true
		}
	}
	return c
}

// denied counts a denial with the given weight, which is above 1 if only a sample of the denials is
// counted. The argument first reports whether there is no earlier record with the same subject,
// rule and reason.
func (c *change) denied(w *who, first bool, weight int64) {
	c.all += weight
	limit := w.why == overLimit || w.why == deniedDegraded
	if first && limit && len(c.newly) < maxNewly && c.denies[reload.Rule{Tier: w.tier, Policy: w.policy}] {
		c.newly[w.subject] = true
	}
	if c.newly[w.subject] {
		c.theirs += weight
	}
}

// recentChanges returns the changes of the last hour, oldest first.
func (d *denials) recentChanges(now time.Time) []Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes = slices.DeleteFunc(d.changes, func(c *change) bool { return now.Sub(c.At) > changeLife })
	list := make([]Change, len(d.changes))
	for i, c := range d.changes {
		if c.Subjects = len(c.newly); c.all > 0 {
			c.Share = float64(c.theirs) / float64(c.all)
		}
		c.Explains = c.Subjects > 0 && c.Share >= explains
		list[i] = c.Change
	}
	return list
}

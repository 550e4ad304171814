package dashboard

import (
	"net/http"
	"slices"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/observe"
)

// state is the answer to a request for /api/state: all data that the page shows.
type state struct {
	Version string    `json:"version"`
	Now     time.Time `json:"now"`
	// Writable reports whether the caller may make changes, possibly after signing in. Who is the
	// caller's name in the audit log.
	Writable bool   `json:"writable"`
	Who      string `json:"who"`
	// Names reports whether the caller may see subjects in full.
	Names bool `json:"names"`
	// Points contains one point per second, and Long one point per ten seconds.
	Points     []observe.Point     `json:"points"`
	Long       []observe.Point     `json:"long"`
	Series     []observe.Series    `json:"series"`
	Violations []observe.Violation `json:"violations"`
	Offenders  []observe.Offender  `json:"offenders"`
	Alerts     []observe.Alert     `json:"alerts"`
	Store      observe.StoreHealth `json:"store"`
	// Changes lists the configuration changes in the last hour.
	Changes []observe.Change `json:"changes"`
	Surge   *observe.Surge   `json:"surge,omitempty"`
	// Processes are the processes that share their counts, this process first. Points, Long,
	// Series, Offenders, Surge and Top cover all of them. Processes is empty if this process does
	// not share its counts.
	Processes []observe.Process             `json:"processes"`
	Top       map[string][]observe.Offender `json:"top"`
	Config    configState                   `json:"config"`
	Outbound  []*outboundState              `json:"outbound"`
	Audit     []action                      `json:"audit"`
}

// configState is the configuration in force, and the state of the files that it comes from.
type configState struct {
	Phase    string     `json:"phase"`
	Sources  []Source   `json:"sources"`
	Tiers    []ruleList `json:"tiers"`
	Policies []ruleList `json:"policies"`
}

// Source is a file or a directory that the process reads and watches.
type Source struct {
	Name string    `json:"name"`
	Path string    `json:"path"`
	At   time.Time `json:"looked_at"`
	// Good is the number of changes that were put in force. Failed is the number of changes that
	// were rejected.
	Good   int `json:"changes"`
	Failed int `json:"refused"`
	// Error explains why the current files are not in force.
	Error string `json:"error,omitempty"`
}

func (d *dashboard) showState(w http.ResponseWriter, r *http.Request) {
	m := d.c.Monitor
	status, names := m.Status(usualViolations), d.namesFor(r)
	s := state{
		Version: d.c.Version, Now: time.Now(),
		Points: upTo(status.Point.At, m.History(time.Second)), Long: upTo(status.Point.At, m.History(10*time.Second)),
		Series:     nonNil(status.Series),
		Violations: names.violations(status.Violations), Offenders: names.offenders(status.Offenders),
		Alerts: nonNil(status.Alerts), Store: status.Store, Processes: nonNil(status.Processes),
		Changes: nonNil(status.Changes), Surge: status.Surge,
		Top:    map[string][]observe.Offender{},
		Config: configState{Sources: []Source{}, Tiers: []ruleList{}, Policies: []ruleList{}},
		Audit:  names.actions(d.audit.list()), Names: d.mayName(r),
	}
	for _, kind := range kinds {
		s.Top[kind] = names.offenders(m.Top(kind, usualTop))
	}
	if d.c.Who != nil {
		var operates bool
		s.Who, operates = d.c.Who(r)
		s.Writable = d.admin != nil && (operates || s.Who == "")
	}
	if d.c.Phase != nil {
		s.Config.Phase = d.c.Phase()
	}
	if d.c.Sources != nil {
		s.Config.Sources = nonNil(d.c.Sources())
	}
	set := d.c.Set()
	if set != nil {
		s.Config.Tiers = tiersOf(set)
		s.Config.Policies = policiesOf(set, s.Config.Tiers)
	}
	s.Outbound = d.outbound(r.Context(), set)
	answer.JSON(w, http.StatusOK, s)
}

// upTo removes the points newer than the given time, so that none is newer than the other data in a
// state.
func upTo(at int64, points []observe.Point) []observe.Point {
	return nonNil(slices.DeleteFunc(points, func(p observe.Point) bool { return p.At > at }))
}

package dashboard

import (
	"net/http"
	"time"

	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// state is all that is shown.
type state struct {
	Version string    `json:"version"`
	Now     time.Time `json:"now"`
	// Writable says that whoever asks may change something, or may after saying who they are, and Who the name under which that
	// is written down.
	Writable bool   `json:"writable"`
	Who      string `json:"who"`
	// Points are seconds, and Long tens of seconds.
	Points     []observe.Point               `json:"points"`
	Long       []observe.Point               `json:"long"`
	Series     []observe.Series              `json:"series"`
	Violations []observe.Violation           `json:"violations"`
	Alerts     []observe.Alert               `json:"alerts"`
	Store      observe.StoreHealth           `json:"store"`
	Top        map[string][]observe.Offender `json:"top"`
	Config     configState                   `json:"config"`
	Outbound   []outboundState               `json:"outbound"`
	Audit      []deed                        `json:"audit"`
}

// configState is what is in force, and what is wrong with what is not.
type configState struct {
	Phase    string     `json:"phase"`
	Sources  []Source   `json:"sources"`
	Tiers    []ruleList `json:"tiers"`
	Policies []ruleList `json:"policies"`
}

// Source is files that something is read from.
type Source struct {
	Name string    `json:"name"`
	Path string    `json:"path"`
	At   time.Time `json:"looked_at"`
	// Good is how often something new was put in force, and Failed how often it was wrong.
	Good   int `json:"changes"`
	Failed int `json:"refused"`
	// Error is why what is in the files is not in force.
	Error string `json:"error,omitempty"`
}

func (d *Dashboard) showState(w http.ResponseWriter, r *http.Request) {
	m := d.c.Monitor
	s := state{
		Version: d.c.Version, Now: time.Now(),
		Points: full(m.History(time.Second)), Long: full(m.History(10 * time.Second)), Series: full(m.Series()),
		Violations: full(m.Recent(usualViolations)), Alerts: full(m.Alerts()), Store: m.Store(),
		Top:    map[string][]observe.Offender{},
		Config: configState{Sources: []Source{}, Tiers: []ruleList{}, Policies: []ruleList{}},
		Audit:  d.audit.list(),
	}
	for _, kind := range kinds {
		s.Top[kind] = full(m.Top(kind, usualTop))
	}
	if d.c.Who != nil {
		var operates bool
		s.Who, operates = d.c.Who(r)
		s.Writable = d.c.Desk != nil && (operates || s.Who == "")
	}
	if d.c.Phase != nil {
		s.Config.Phase = d.c.Phase()
	}
	if d.c.Sources != nil {
		s.Config.Sources = full(d.c.Sources())
	}
	var set *policy.Set
	if d.c.Set != nil {
		set = d.c.Set()
		s.Config.Tiers, s.Config.Policies = tiersOf(set), policiesOf(set)
	}
	s.Outbound = d.outbound(r.Context(), set)
	send(w, r, s)
}

package dashboard

import (
	"net/http"
	"slices"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

// names converts subjects for display to a caller: in full or shortened.
type names struct {
	monitor *observe.Monitor
	full    bool
	// asMonitor reports whether the monitor itself shows subjects in the wanted form, in full or
	// shortened.
	asMonitor bool
}

// namesFor returns a converter that shows subjects in full if the sender of the request may see
// them in full (see mayName), and shortened otherwise. Any caller may ask for short names with
// names=short, for instance to share a screen.
func (d *dashboard) namesFor(r *http.Request) names {
	full := d.mayName(r) && r.URL.Query().Get("names") != "short"
	return names{d.c.Monitor, full, full == d.c.ShowSubjects}
}

// mayName reports whether the sender of a request may see subjects in full.
func (d *dashboard) mayName(r *http.Request) bool {
	if d.c.ShowSubjects || d.c.Who == nil {
		return d.c.ShowSubjects
	}
	_, operates := d.c.Who(r)
	return operates
}

func refOf(m *observe.Monitor, subject string) string {
	known, _ := m.Offender(subject)
	return known.Ref
}

// of returns the text to display for a subject.
func (n names) of(subject string) string {
	if n.full {
		return label.Line(subject)
	}
	return label.Tagged(subject, refOf(n.monitor, subject))
}

// shown returns the text to display for a subject in one of the monitor's lists. The argument text
// is the subject as the monitor shows it. If the monitor did not keep the subject because it was
// too long, it has no ref, and the result is the text, shortened.
func (n names) shown(text, ref string) string {
	if n.asMonitor {
		return text
	}
	if subject, ok := n.monitor.SubjectOf(ref); ok {
		return n.of(subject)
	}
	return label.Short(text)
}

func (n names) violations(list []observe.Violation) []observe.Violation {
	list = nonNil(slices.Clone(list))
	for i := range list {
		list[i].Subject = n.shown(list[i].Subject, list[i].Ref)
	}
	return list
}

func (n names) denials(list []observe.Denial) []observe.Denial {
	for i := range list {
		list[i].Subject = n.shown(list[i].Subject, list[i].Ref)
	}
	return list
}

func (n names) offenders(list []observe.Offender) []observe.Offender {
	list = nonNil(slices.Clone(list))
	for i := range list {
		if list[i].Kind != policyKind {
			list[i].Subject = n.shown(list[i].Subject, list[i].Ref)
		}
	}
	return list
}

func (n names) actions(list []action) []action {
	for i := range list {
		if list[i].Subject != "" {
			list[i].Subject, list[i].Ref = n.of(list[i].Subject), refOf(n.monitor, list[i].Subject)
		}
	}
	return list
}

// shorten shortens the subject in an answer if the request has names=short, or if it identifies the
// subject by a ref and the sender may not see subjects in full. Otherwise, the sender has named the
// subject or may see it in full. If Who is nil, senders are not distinguished, so only names=short
// has an effect.
func (d *dashboard) shorten(r *http.Request, byRef bool, who *control.Named) {
	asked := r.URL.Query().Get("names") == "short"
	if asked || byRef && d.c.Who != nil && !d.mayName(r) {
		*who = control.Named{Subject: d.namesFor(r).of(who.Subject)}
	}
}

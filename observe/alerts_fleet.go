package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// leads reports whether this process raises the alerts about other processes. Of the processes that
// report, only the one that started first raises these alerts, so that a problem raises one alert
// and not one per process.
func (r *readings) leads() bool {
	if len(r.processes) == 0 {
		return false
	}
	self := &r.processes[0]
	return !slices.ContainsFunc(r.processes[1:], func(p Process) bool {
		return !p.Silent && cmp.Or(cmp.Compare(p.Started.Unix(), self.Started.Unix()),
			cmp.Compare(p.Name, self.Name)) < 0
	})
}

// silent returns the names of processes that have stopped reporting. It returns nil unless this
// process leads.
func (r *readings) silent() (names []string) {
	if !r.leads() {
		return nil
	}
	for _, p := range r.processes {
		if p.Silent {
			names = append(names, p.Name)
		}
	}
	return names
}

// alike is a group of processes with the same configuration.
type alike struct {
	config string
	names  []string
}

// groups returns the processes that report, grouped by configuration, the largest group first.
func (r *readings) groups() (groups []alike) {
	for _, p := range r.processes {
		if p.Silent {
			continue
		}
		i := slices.IndexFunc(groups, func(g alike) bool { return g.config == p.Config })
		if i < 0 {
			i = len(groups)
			groups = append(groups, alike{config: p.Config})
		}
		groups[i].names = append(groups[i].names, p.Name)
	}
	slices.SortStableFunc(groups, func(a, b alike) int { return cmp.Compare(len(b.names), len(a.names)) })
	return groups
}

// differing returns the number of processes that do not have the most common configuration. It
// returns 0 unless this process leads.
func (r *readings) differing() (n float64) {
	groups := r.groups()
	if len(groups) < 2 || !r.leads() {
		return 0
	}
	for _, g := range groups[1:] {
		n += float64(len(g.names))
	}
	return n
}

// configs lists the configurations, with the processes that use each of them.
func (r *readings) configs() string {
	const most = 5 // maximum number of names per configuration
	var texts []string
	for _, g := range r.groups() {
		names := strings.Join(g.names[:min(len(g.names), most)], ", ")
		if more := len(g.names) - most; more > 0 {
			names += fmt.Sprintf(" and %d others", more)
		}
		texts = append(texts, cmp.Or(g.config, "built in")+": "+names)
	}
	return strings.Join(texts, "; ") + "."
}

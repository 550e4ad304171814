package control

import (
	"errors"
	"strings"

	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/setinfo"
)

// Target is the subject of a command or a query.
type Target struct {
	// Subject is in the form that operators write; see [setinfo.Subject].
	Subject string `json:"subject,omitempty"`
	// Ref identifies a subject that a server shows only in a shortened form. Only that server knows
	// the subject.
	Ref string `json:"ref,omitempty"`
	// Raw means that Subject is taken literally. It is for programs that define their own subjects.
	Raw bool `json:"raw,omitempty"`
}

// Named is a subject in the form that counters use.
type Named struct {
	Subject string `json:"subject"`
	// Note explains how the subject was interpreted, as in "2001:db8::7 is counted under it". If a
	// ban has not reached the store yet, Note says so.
	Note string `json:"note,omitempty"`
}

// find returns the subject of a target in the form that counters use.
func (d *Admin) find(t Target) (Named, error) {
	if t.Ref != "" {
		return Named{}, invalid("a ref stands for a subject on the server that showed it; name the subject here")
	}
	if err := checkSubject(t.Subject); err != nil || t.Raw {
		return Named{Subject: t.Subject}, err
	}
	kind, _, _ := strings.Cut(t.Subject, ":")
	switch {
	case label.IsShort(t.Subject):
		return Named{}, invalid("%s is a shortened subject from a list; want all of it, or the ref beside it. "+
			"A server started with --show-subjects lists subjects in full", quoteSubject(t.Subject))
	case strings.Contains(t.Subject, `\\`):
		return Named{}, invalid("lists show each backslash as two; write one for each, or use --raw if the subject has two")
	case d.isHashed(t.Subject):
		return Named{Subject: t.Subject}, nil
	case d.c.Envoy != nil && (kind == tierEnvoy || strings.HasPrefix(t.Subject, tierEnvoy+"#")):
		return Named{Subject: t.Subject}, nil // d.counters checks whether the descriptor exists
	}
	set := d.c.Set()
	if len(d.c.Limits) > 0 {
		set = nil // with Limits, subjects need not have a form that policies define
	}
	blind := set == nil && len(d.c.Limits) == 0
	if blind && kind != setinfo.IP && kind != setinfo.User {
		return Named{}, &UnknownError{t.Subject, d.kinds(), true}
	}
	if outboundCounters(set, t.Subject) != nil {
		return Named{Subject: t.Subject}, nil
	}
	subject, note, err := setinfo.Subject(set, t.Subject)
	if errors.Is(err, setinfo.ErrUnknownSubject) {
		err = &UnknownError{t.Subject, d.kinds(), true}
	}
	if blind && kind == setinfo.IP && err == nil {
		if note != "" {
			note += "; "
		}
		note += "without the configuration, addresses are assumed to be counted by the defaults"
	}
	return Named{subject, note}, err
}

// isHashed reports whether subject is a keyed hash. Stores that keep no names list such hashes.
func (d *Admin) isHashed(subject string) bool {
	set := d.c.Set()
	return set != nil && setinfo.Config(set).Store.NameKeyFile != "" && keypart.IsHashed(subject)
}

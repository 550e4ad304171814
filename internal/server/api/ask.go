package api

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

type ask struct {
	mode stint.Mode

	// These fields are for bodies that describe an HTTP request by its attributes. claims can also
	// be used with a subject.
	method, host  string
	path, rawPath string
	peer          netip.Addr
	headers       http.Header
	claims        claims

	// api is the name of a third-party API, in bodies that ask for permission to call it.
	api string

	// These fields are for bodies that name a subject.
	subject, scope, policy, tier string
	limits                       []stint.Limit
	and                          []*ask // further subjects to decide together with this one
	also                         bool   // whether this ask is an element of the member "and"

	cost    int64
	costs   stint.Costs
	id      string
	hold    time.Duration
	maxWait time.Duration
	charge  string // the charge to refund; the body then has no other member
	waits   bool   // whether the call waits until it is allowed

	// Bit i of given is set if the body has the member askMembers[i].
	given uint32
}

// claims maps the names of claims to their values. It is used as the Claims of a [policy.Input].
type claims map[string]string

func (c claims) Claim(name string) string { return c[name] }

type form uint8

const (
	anyForm form = iota
	byAttributes
	bySubject
	byAPI
)

// Bounds on members. They keep the text of the largest possible charge smaller than maxBody.
const (
	maxMethod  = 32
	maxHost    = 255
	maxPath    = 16 << 10
	maxName    = 64
	maxKey     = 1024 // for subject, scope and id
	maxHeaders = 100
	maxValue   = 16 << 10
	maxClaims  = 32
	maxAnd     = 7 // 8 subjects with the first; each may use 2 of the 16 claims of a request
)

type member struct {
	name string
	form form
	read func(*reader, *ask)
}

// askMembers lists the members that a body may have. Which of them a request may have depends on
// its URL path; see askNames. The member "and" has no function, because [reader.readAsk] reads it
// itself.
var askMembers = [...]member{
	{"method", byAttributes, func(r *reader, a *ask) { a.method = r.method() }},
	{"host", byAttributes, func(r *reader, a *ask) { a.host = r.text(1, maxHost) }},
	{"path", byAttributes, func(r *reader, a *ask) { a.path, a.rawPath = r.target() }},
	{"headers", byAttributes, func(r *reader, a *ask) { a.headers = r.headers() }},
	{"claims", anyForm, func(r *reader, a *ask) { a.claims = r.claims() }},
	{"peer", byAttributes, func(r *reader, a *ask) { a.peer = r.address() }},
	{"subject", bySubject, func(r *reader, a *ask) { a.subject = r.text(1, maxKey) }},
	{"scope", bySubject, func(r *reader, a *ask) { a.scope = r.text(1, maxKey) }},
	{"policy", bySubject, func(r *reader, a *ask) { a.policy = r.text(1, maxName) }},
	{"tier", bySubject, func(r *reader, a *ask) { a.tier = r.text(1, maxName) }},
	{"limits", bySubject, func(r *reader, a *ask) { a.limits = r.limits() }},
	{"and", bySubject, nil},
	{"api", byAPI, func(r *reader, a *ask) { a.api = r.text(1, maxName) }},
	{"cost", anyForm, func(r *reader, a *ask) { a.cost = r.whole(0, stint.MaxUnits) }},
	{"costs", anyForm, func(r *reader, a *ask) { a.costs = r.costs() }},
	{"id", anyForm, func(r *reader, a *ask) { a.id = r.text(1, maxKey) }},
	{"hold_seconds", anyForm, func(r *reader, a *ask) { a.hold = r.seconds(stint.MaxHold) }},
	{"max_wait_seconds", anyForm, func(r *reader, a *ask) { a.maxWait = r.seconds(a.longestWait()) }},
	{"mode", anyForm, func(r *reader, a *ask) { a.mode = r.mode() }},
	{"charge", anyForm, func(r *reader, a *ask) { a.charge = r.text(1, maxCharge) }},
}

var modeNames = [...]string{stint.ModeTake: "take", stint.ModePeek: "peek", stint.ModeReserve: "reserve",
	driver.ModeForce: "report"}

func (a *ask) says(name string) bool {
	for i := range askMembers {
		if askMembers[i].name == name {
			return a.given&(1<<i) != 0
		}
	}
	return false
}

// longestWait returns the maximum of max_wait_seconds. The maximum is long for a booking, but short
// for a call that waits, because such a call keeps its connection open.
func (a *ask) longestWait() time.Duration {
	if a.waits {
		return maxWait
	}
	return stint.MaxWindow
}

// form returns the form of the body. It is byAPI if the body names an API, bySubject if the body is
// an element of "and" or has a member of that form, and byAttributes otherwise.
func (a *ask) form() form {
	if a.also {
		return bySubject
	}
	if a.says("api") {
		return byAPI
	}
	for i := range askMembers {
		if askMembers[i].form == bySubject && a.given&(1<<i) != 0 {
			return bySubject
		}
	}
	return byAttributes
}

// askNames returns the names of the members that a request may have. Only in a batch can a request
// have its own mode.
func askNames(mode stint.Mode, batch bool) []string {
	var names []string
	for i := range askMembers {
		known := true
		switch askMembers[i].name {
		case "charge", "api":
			known = false
		case "mode":
			known = batch
		case "max_wait_seconds":
			known = batch || mode == stint.ModeReserve
		case "hold_seconds":
			known = batch || mode != stint.ModeReserve
		}
		if known {
			names = append(names, askMembers[i].name)
		}
	}
	return names
}

// waitNames returns the names of the members that a request may have if it waits until it is
// allowed. The id is not one of them. An id is for callers that lose the answer and ask again, but
// a waiting request gives its place back when the connection closes.
func waitNames() []string {
	names := slices.DeleteFunc(askNames(stint.ModeTake, false), func(name string) bool { return name == "id" })
	return append(names, "max_wait_seconds", "api")
}

// ask reads a request to decide. ok reports whether the request has no mistakes.
func (r *reader) ask(mode stint.Mode, known []string) (a *ask, ok bool) {
	a = &ask{mode: mode}
	return a, r.readAsk(a, known)
}

func (r *reader) readAsk(a *ask, known []string) (ok bool) {
	before := r.count
	r.object(known, func(name string) {
		for i := range askMembers {
			if m := &askMembers[i]; m.name == name {
				a.given |= 1 << i
				if m.read == nil {
					a.and = r.and()
				} else {
					m.read(r, a)
				}
			}
		}
	})
	if r.count == before || a.given != 0 {
		r.check(a)
	}
	return r.count == before
}

// and reads the member "and": further subjects that are decided together with the first subject.
func (r *reader) and() (all []*ask) {
	known := []string{"subject", "scope", "policy", "tier", "limits", "claims"}
	before := r.count
	r.array(maxAnd, "subjects", func(int) {
		a := &ask{also: true}
		r.readAsk(a, known)
		all = append(all, a)
	})
	if len(all) == 0 && r.count == before {
		r.wrong("is empty; want 1 to %d subjects, or leave it out", maxAnd)
	}
	return all
}

func (r *reader) check(a *ask) {
	if a.given == 0 {
		want := "method and path, or subject and policy"
		if a.also {
			want = "subject and policy"
		}
		r.wrong("has no members; want %s", want)
		return
	}
	if a.says("charge") {
		if a.given&(a.given-1) != 0 {
			r.wrongIn("charge", "must be the only member")
		}
		return
	}
	want := a.form()
	if want == byAPI {
		for i := range askMembers {
			name := askMembers[i].name
			if a.given&(1<<i) != 0 && name != "api" && name != "max_wait_seconds" {
				r.wrongIn(name, "conflicts with api, because the configuration sets the limits of an API; only max_wait_seconds can be added")
			}
		}
		return
	}
	for i := range askMembers {
		if m := &askMembers[i]; a.given&(1<<i) != 0 && m.form != anyForm && m.form != want {
			r.wrongIn(m.name, "conflicts with a subject; want attributes of a request, or a subject with a policy, a tier or limits")
		}
	}
	required := []string{"method", "path"} // API.byAttributes may also require a peer
	if want == bySubject {
		required = []string{"subject"}
	}
	for _, name := range required {
		if !a.says(name) {
			r.wrongIn(name, "is missing")
		}
	}
	if want == bySubject && a.says("limits") == (a.says("policy") || a.says("tier")) {
		r.wrong("want a policy, a tier, or limits for the subject: either names from the configuration, or your own limits")
	}
	if a.says("claims") && a.says("limits") {
		r.wrongIn("claims", "have no effect on your own limits; they set numbers in the limits of policies and tiers")
	}
	if a.says("max_wait_seconds") && a.mode != stint.ModeReserve && !a.waits {
		r.wrongIn("max_wait_seconds", "works only with the mode reserve")
	}
	if a.says("hold_seconds") && a.mode == stint.ModeReserve {
		r.wrongIn("hold_seconds", "does not work with the mode reserve, because a hold begins at once; take when the time has come")
	}
}

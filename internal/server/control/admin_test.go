package control_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/policy"
)

func TestSubject(t *testing.T) {
	for name, open := range map[string]func(*testing.T, control.Config) *control.Admin{"memory": inMemory, "redis": inRedis} {
		t.Run(name, func(t *testing.T) {
			d := open(t, control.Config{})
			const subject = "user:42"
			structure := control.TakeRequest{Target: of(subject), Tier: "free", Scope: "structure"}
			work := control.TakeRequest{Target: of(subject), Tier: "free", Policy: "work", Cost: 7}
			for _, ask := range []control.TakeRequest{structure, structure, structure, work} {
				if a := take(t, d, ask); !a.Allowed {
					t.Fatalf("denied: %+v", a)
				}
			}
			if _, err := d.Ban(t.Context(), of(subject), time.Hour); err != nil {
				t.Fatal(err)
			}
			result := subjectOf(t, d, subject)
			if left := result.Ban.Until.Sub(result.Now); result.Ban.Level != 0 || left <= 59*time.Minute || left > time.Hour {
				t.Errorf("the ban is %+v at %v, want one of an hour, made by hand", result.Ban, result.Now)
			}
			l := newLimit(t, &result, "free", "", "structure", "30/1m burst 2x")
			if l.Used != 3 || l.Remaining != 57 || l.Capacity != 60 || l.Max != 30 || l.Window != 60 ||
				l.Algorithm != "sliding" || l.Costs {
				t.Errorf("got %+v", l)
			}
			if len(l.Entries) != 3 || l.Entries[2].Units != 1 || l.Entries[2].At.After(result.Now) ||
				!l.Entries[2].Until.After(result.Now) {
				t.Errorf("entries at %v: %+v; want three of one unit", result.Now, l.Entries)
			}
			// The same counts, as another tier has them.
			if l := newLimit(t, &result, "pro", "", "structure", "100/1m burst 3x"); l.Used != 3 || l.Remaining != 297 {
				t.Errorf("got %+v", l)
			}
			if l := newLimit(t, &result, "free", "", "other", "30/1m burst 2x"); l.Used != 0 || l.Entries != nil {
				t.Errorf("another route: got %+v", l)
			}
			if l := newLimit(t, &result, "free", "work", "work", "cost: 1000/1h"); l.Used != 7 || !l.Costs {
				t.Errorf("the budget: got %+v", l)
			}

			// What is the same for all tiers is shown once.
			if l := newLimit(t, &result, "", "simulate", "simulate", "endpoint: 50/1m"); l.Used != 0 {
				t.Errorf("the endpoint: got %+v", l)
			}

			if _, err := d.Reset(t.Context(), of(subject)); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Unban(t.Context(), of(subject)); err != nil {
				t.Fatal(err)
			}
			result = subjectOf(t, d, subject)
			for _, l := range result.Limits {
				if l.Used != 0 {
					t.Errorf("after a reset: %+v", l)
				}
			}
			if result.Ban != (driver.BanState{}) {
				t.Errorf("after the ban was ended: %+v", result.Ban)
			}
		})
	}
}

func TestUnknownSubject(t *testing.T) {
	d := inMemory(t, control.Config{})
	_, err := d.Subject(t.Context(), of("usr:42"))
	const want = `control: nothing in the configuration limits subjects like "usr:42"; it has subjects that begin with internal:, user:, apikey:, session:, ip:, device:, ` +
		`igdb:api, musicbrainz:api, spotify:api, tmdb:api (did you mean "user:"?); with --raw, ban and unban take any subject literally`
	if wantUnknown(t, err); err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	_, err = d.Reset(t.Context(), of("users"))
	wantUnknown(t, err)
	_, err = d.Take(t.Context(), control.TakeRequest{Target: of("who:1")})
	wantUnknown(t, err)
	_, err = d.Subject(t.Context(), of(""))
	wantInvalid(t, err, "the subject is empty; want something like user:42")
}

func wantUnknown(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*control.UnknownError](err); !ok {
		t.Fatalf("got %v, want that the subject is not known", err)
	}
}

func TestBans(t *testing.T) {
	d := inMemory(t, control.Config{})
	for subject, length := range map[string]time.Duration{
		"user:1": time.Hour, "ip:203.0.113.9": 2 * time.Hour, "user:3": time.Minute} {
		if _, err := d.Ban(t.Context(), of(subject), length); err != nil {
			t.Fatal(err)
		}
	}
	bans, err := d.Bans(t.Context(), 2)
	if err != nil || len(bans) != 2 || bans[0].Subject != "ip:203.0.113.9" || bans[1].Subject != "user:1" {
		t.Errorf("got %+v, %v; want the two that last the longest", bans, err)
	}
	_, err = d.Bans(t.Context(), 0)
	wantInvalid(t, err, "0 bans; want 1 to 10000")
	_, err = d.Ban(t.Context(), of("user:1"), 0)
	wantInvalid(t, err, "the ban is 0s; want whole microseconds from 1ms to 366 days")
	_, err = d.Ban(t.Context(), of("user:1"), 367*24*time.Hour)
	wantInvalid(t, err, "the ban is 8808h0m0s; want whole microseconds from 1ms to 366 days")
}

// A ban that applies nowhere is refused: the operator would believe that it is in force.
func TestBansThatNobodyObeys(t *testing.T) {
	d := inMemory(t, configured(t, "tiers: [{name: anyone, identity: ip, limits: 10/1m}]"))
	_, err := d.Ban(t.Context(), of("ip:192.0.2.1"), time.Hour)
	wantInvalid(t, err, "no limit of this subject applies bans; set `bans: {after: 0}` in the configuration to apply those made by hand")
	if bans, err := d.Bans(t.Context(), 10); err != nil || len(bans) > 0 {
		t.Errorf("bans: %v, %v", bans, err)
	}
}

// A store that shows nothing can still be acted on.
func TestNotInspectable(t *testing.T) {
	d := control.New(control.Config{Store: deaf{}})
	if _, err := d.Subject(t.Context(), of("user:1")); !errors.Is(err, control.ErrNotInspectable) {
		t.Errorf("subject: %v", err)
	}
	if _, err := d.Bans(t.Context(), 1); !errors.Is(err, control.ErrNotInspectable) {
		t.Errorf("bans: %v", err)
	}
	if _, err := d.Ban(t.Context(), of("user:1"), time.Hour); !errors.Is(err, errDeaf) {
		t.Errorf("ban: %v, want that of the store", err)
	}
}

func TestOutboundAndEnvoy(t *testing.T) {
	rules, err := envoyrls.Parse("rules.yaml", []byte("domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: minute, requests_per_unit: 5}\n"))
	if err != nil {
		t.Fatal(err)
	}
	d := inMemory(t, control.Config{Envoy: envoyrls.NewService(nil, rules, envoyrls.Options{Window: envoyrls.Fixed}).LimitsOf})
	for _, test := range []struct{ subject, tier, policy, limit string }{
		{"igdb:api", "outbound", "igdb", "4/1s"},
		{"envoy:d:k=v", "envoy", "d.k", "5/1m fixed"},
	} {
		if a := take(t, d, control.TakeRequest{Target: of(test.subject), Cost: 2}); !a.Allowed {
			t.Errorf("%s: %+v", test.subject, a)
		}
		result := subjectOf(t, d, test.subject)
		if l := newLimit(t, &result, test.tier, test.policy, "", test.limit); l.Used != 2 {
			t.Errorf("%s: %+v", test.subject, l)
		}
	}
}

func TestLimitsOfOnesOwn(t *testing.T) {
	d := inRedis(t, control.Config{
		Set:    func() *policy.Set { return nil },
		Limits: []stint.Limit{stint.PerHour(2), stint.Concurrency(1, time.Minute)}, Scope: "nightly",
	})
	ask := control.TakeRequest{Target: of("job:1")}
	if a := take(t, d, ask); !a.Allowed || len(a.Limits) != 2 || a.Limits[0].Remaining != 1 || a.Limits[0].Scope != "nightly" {
		t.Errorf("got %+v", a)
	}
	if a := take(t, d, ask); a.Allowed || a.RetryAfter <= 0 ||
		a.Limits[0].RetryAfter != 0 || a.Limits[1].RetryAfter <= 0 {
		t.Errorf("got %+v, want that the place is taken", a)
	}
	result := subjectOf(t, d, "job:1")
	if held := newLimit(t, &result, "", "", "nightly", "1/1m concurrency"); held.Used != 1 || len(held.Entries) != 1 ||
		!held.Entries[0].At.IsZero() {
		t.Errorf("got %+v, want a place that is held", held)
	}
	ask.Tier = "free"
	_, err := d.Take(t.Context(), ask)
	wantInvalid(t, err, "limits conflict with a tier, a policy or a scope; want one or the other")
}

// TestSubjectByClaim: a limit whose number comes from a claim says so, because nobody but requests
// knows the number.
func TestSubjectByClaim(t *testing.T) {
	d := inMemory(t, configured(t, `
tiers: [{name: all, identity: ip, limits: [{limit: 3/1m, claim: rpm, max: 100}, 100/1h]}]`))
	if l := subjectOf(t, d, "ip:192.0.2.1").Limits; len(l) != 2 || l[0].Limit != "3/1m" || l[0].Claim != "rpm" || l[1].Claim != "" {
		t.Errorf("got %+v", l)
	}
}

// TestTargets: every act is on the subject that requests are counted under, and says which that is.
func TestTargets(t *testing.T) {
	d := inMemory(t, control.Config{})
	ctx := t.Context()
	typed := of("ip:2001:DB8:9:9::7")
	want := control.Named{Subject: "ip:2001:db8:9:9::/64", Note: "2001:DB8:9:9::7 is counted under it"}
	if a := take(t, d, control.TakeRequest{Target: typed}); a.Subject != want.Subject || a.Note != want.Note {
		t.Errorf("took for %s, %s; want %+v", a.Subject, a.Note, want)
	}
	result, err := d.Subject(ctx, typed)
	if err != nil || result.Subject != want.Subject || result.Note != want.Note {
		t.Errorf("got %+v, %v; want %+v", result, err, want)
	}
	for what, act := range map[string]func() (control.Named, error){
		"reset": func() (control.Named, error) { return d.Reset(ctx, typed) },
		"ban":   func() (control.Named, error) { return d.Ban(ctx, typed, time.Hour) },
		"unban": func() (control.Named, error) { return d.Unban(ctx, typed) },
	} {
		if got, err := act(); got != want || err != nil {
			t.Errorf("%s: got %+v, %v; want %+v", what, got, err, want)
		}
	}
	if got, err := d.Ban(ctx, typed, 0); got != want || err == nil {
		t.Errorf("a ban of no length: got %+v, %v; want an error, and who it was about", got, err)
	}
}

// TestNoTargets are refused everywhere, with what would be right.
func TestNoTargets(t *testing.T) {
	d := inMemory(t, control.Config{})
	const inShort = `" is a shortened subject from a list; want all of it, or the ref beside it. A server started with --show-subjects lists subjects in full`
	for _, test := range []struct {
		t    control.Target
		want string
	}{
		{of("ip:203.0.113.999"), `invalid address "203.0.…"`},
		{of("ip:203.0.113.0/24"), `203.0.113.0/24 is a network`},
		{of("ip:203.0.113.x"), `"ip:203.0.…` + inShort},
		{of("user:mallor…"), `"user:mallor…` + inShort},
		// a secret may be typed by mistake, and errors are logged
		{of("sk-live-0123456789…"), `"sk-liv…` + inShort},
		{of(`user:CORP\\jane`), "lists show each backslash as two; write one for each, or use --raw if the subject has two"},
		{control.Target{Ref: "x1"}, "a ref stands for a subject on the server that showed it; name the subject here"},
		{control.Target{Subject: strings.Repeat("x", stint.MaxSubject+1), Raw: true}, "want at most"},
		{control.Target{Raw: true}, "the subject is empty"},
	} {
		for what, err := range errorsOf(t, d, test.t) {
			if invalid, ok := errors.AsType[*stint.InvalidError](err); !ok || !strings.Contains(invalid.Err.Error(), test.want) {
				t.Errorf("%s of %.40q: got %v, want %s", what, test.t.Subject, err, test.want)
			}
		}
	}
	if bans, err := d.Bans(t.Context(), 10); len(bans) != 0 || err != nil {
		t.Errorf("got bans %+v, %v", bans, err)
	}
}

// errorsOf does everything to a target, and returns the errors.
func errorsOf(t *testing.T, d *control.Admin, who control.Target) map[string]error {
	_, subject := d.Subject(t.Context(), who)
	_, reset := d.Reset(t.Context(), who)
	_, ban := d.Ban(t.Context(), who, time.Hour)
	_, unban := d.Unban(t.Context(), who)
	_, take := d.Take(t.Context(), control.TakeRequest{Target: who})
	return map[string]error{"subject": subject, "reset": reset, "ban": ban, "unban": unban, "take": take}
}

// TestManyAreNotBanned: stores do not ban those who are many, so that to say so would be wrong.
func TestManyAreNotBanned(t *testing.T) {
	d := inMemory(t, configured(t, "bans: {after: 0}\ntiers: [{name: a, identity: ip, limits: 1/1s}]\npolicies: [{name: b, identity: everyone, limits: 9/1s}]\n"))
	for _, subject := range []string{"everyone", "ip:unknown"} {
		_, err := d.Ban(t.Context(), of(subject), time.Hour)
		wantInvalid(t, err, subject+" stands for many callers, which cannot be banned together; name one of them")
		if _, err := d.Subject(t.Context(), of(subject)); err != nil {
			t.Errorf("%s cannot be looked at: %v", subject, err)
		}
	}
}

// TestRaw subjects are those of programs with their own.
func TestRaw(t *testing.T) {
	d := inMemory(t, control.Config{})
	for _, subject := range []string{"job:nightly", "ip:2001:db8::7", "user:mallor…", "ref:x1"} {
		who := control.Target{Subject: subject, Raw: true}
		if got, err := d.Ban(t.Context(), who, time.Hour); got.Subject != subject || got.Note != "" || err != nil {
			t.Errorf("got %+v, %v; want %s as it is", got, err, subject)
		}
		bans, err := d.Bans(t.Context(), 10)
		if err != nil || len(bans) != 1 || bans[0].Subject != subject {
			t.Errorf("got bans %+v, %v; want that of %s", bans, err, subject)
		}
		if got, err := d.Unban(t.Context(), who); got.Subject != subject || err != nil {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// TestHashedNames are taken as lists show them, where there are any.
func TestHashedNames(t *testing.T) {
	const text = "bans: {after: 0}\ntiers: [{name: users, identity: user, limits: 9/1s}, {name: rest, identity: ip, limits: 9/1s}]\n"
	hash := of("ip#4kWXjsbSBbkYkHdLyaQgIQ")
	for text, known := range map[string]bool{"store: {url: 'redis://localhost', name_key_file: key}\n" + text: true, text: false} {
		d := inMemory(t, configured(t, text))
		if got, err := d.Unban(t.Context(), hash); known && got.Subject != hash.Subject || (err == nil) != known {
			t.Errorf("got %+v, %v; want %t", got, err, known)
		}
		if got, err := d.Take(t.Context(), control.TakeRequest{Target: hash}); err == nil {
			t.Errorf("took for a hash: %+v", got)
		}
	}
}

// TestTargetsWithoutConfiguration: addresses are in the form that they have by default, and what
// else a program counts by is not known.
func TestTargetsWithoutConfiguration(t *testing.T) {
	const byDefault = "without the configuration, addresses are assumed to be counted by the defaults"
	none := func() *policy.Set { return nil }
	for _, test := range []struct {
		limits              []stint.Limit
		text, subject, note string
	}{
		{nil, "ip:2001:db8::7", "ip:2001:db8::/64", "2001:db8::7 is counted under it; " + byDefault},
		{nil, "ip:203.0.113.9", "ip:203.0.113.9", byDefault},
		{nil, "user:42", "user:42", ""},
		{[]stint.Limit{stint.PerHour(2)}, "job:nightly", "job:nightly", ""},
		{[]stint.Limit{stint.PerHour(2)}, "ip:2001:db8::7", "ip:2001:db8::/64", "2001:db8::7 is counted under it"},
	} {
		d := inMemory(t, control.Config{Set: none, Limits: test.limits})
		got, err := d.Ban(t.Context(), of(test.text), time.Hour)
		if want := (control.Named{Subject: test.subject, Note: test.note}); got != want || err != nil {
			t.Errorf("%s: got %+v, %v; want %s, %s", test.text, got, err, test.subject, test.note)
		}
	}
	d := inMemory(t, control.Config{Set: none})
	for _, text := range []string{"job:nightly", "apikey:sk-live-1"} {
		_, err := d.Ban(t.Context(), of(text), time.Hour)
		wantUnknown(t, err)
	}
}

package control_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/policy"
)

// TestTargets: every act is on the subject that requests are counted under, and says which that is.
func TestTargets(t *testing.T) {
	d := inMemory(t, control.Config{})
	ctx := t.Context()
	typed := of("ip:2001:DB8:9:9::7")
	want := control.Named{Subject: "ip:2001:db8:9:9::/64", Note: "2001:DB8:9:9::7 is counted under it"}
	if a := take(t, d, control.TakeRequest{Target: of(typed.Subject)}); a.Subject != want.
		Subject || a.Note != want.Note {
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
		{of("ip:203.0.113.999"), `"203.0.…" is not an address`},
		{of("ip:203.0.113.0/24"), `203.0.113.0/24 is a network`},
		{of("ip:203.0.113.x"), `"ip:203.0.…` + inShort},
		{of("user:mallor…"), `"user:mallor…` + inShort},
		// a secret may be typed by mistake, and errors are logged
		{of("sk-live-0123456789…"), `"sk-liv…` + inShort},
		{of(`user:CORP\\jane`), "lists write a backslash as two; want one for each, or --raw if there are two"},
		{control.Target{Ref: "x1"}, "a ref stands for a subject on the server that showed it; name the subject here"},
		{control.Target{Subject: strings.Repeat("x", stint.MaxSubject+1), Raw: true}, "want at most"},
		{control.Target{Raw: true}, "the subject is empty"},
	} {
		for what, err := range errorsOf(t, d, test.t) {
			var invalid *stint.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(invalid.Err.Error(), test.want) {
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
	conf, err := config.Parse("stint.yaml", []byte("bans: {after: 0}\ntiers: [{name: a, identity: ip, limits: 1/1s}]\npolicies: [{name: b, identity: everyone, limits: 9/1s}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	d := inMemory(t, control.Config{Set: func() *policy.Set { return conf.Set }})
	for _, subject := range []string{"everyone", "ip:unknown"} {
		_, err := d.Ban(t.Context(), of(subject), time.Hour)
		wantInvalid(t, err, subject+" is many callers together, which cannot be banned; name one of them")
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
		conf, err := config.Parse("stint.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		d := inMemory(t, control.Config{Set: func() *policy.Set { return conf.Set }})
		if got, err := d.Unban(t.Context(), hash); known && got.Subject != hash.Subject || (err == nil) != known {
			t.Errorf("got %+v, %v; want %t", got, err, known)
		}
		if got, err := d.Take(t.Context(),
			control.TakeRequest{Target: of(hash.Subject)}); err == nil {
			t.Errorf("took for a hash: %+v", got)
		}
	}
}

// TestTargetsWithoutConfiguration: addresses are in the form that they have by default, and what
// else a program counts by is not known.
func TestTargetsWithoutConfiguration(t *testing.T) {
	const byDefault = "without the configuration, addresses are assumed to be counted as by default"
	none := func() *policy.Set { return nil }
	for _, test := range []struct {
		limits        []stint.Limit
		text, subject string
		note          string
	}{
		{nil, "ip:2001:db8::7", "ip:2001:db8::/64", "2001:db8::7 is counted under it; " + byDefault},
		{nil, "ip:203.0.113.9", "ip:203.0.113.9", byDefault},
		{nil, "user:42", "user:42", ""},
		{[]stint.Limit{stint.PerHour(2)}, "job:nightly", "job:nightly", ""},
		{[]stint.Limit{stint.PerHour(2)}, "ip:2001:db8::7", "ip:2001:db8::/64", "2001:db8::7 is counted under it"},
	} {
		d := inMemory(t, control.Config{Set: none, Limits: test.limits})
		if got, err := d.Ban(t.Context(), of(test.text), time.Hour); got.Subject != test.subject ||
			got.Note != test.note || err != nil {
			t.Errorf("%s: got %+v, %v; want %s, %s", test.text, got, err, test.subject, test.note)
		}
	}
	d := inMemory(t, control.Config{Set: none})
	for _, text := range []string{"job:nightly", "apikey:sk-live-1"} {
		var unknown *control.UnknownError
		if _, err := d.Ban(t.Context(), of(text), time.Hour); !errors.As(err, &unknown) {
			t.Errorf("%s: got %v, want that it is not known", text, err)
		}
	}
}

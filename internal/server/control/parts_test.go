package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/control"
)

const visitor = "ip:192.0.2.1"

// divided is a set-up with a policy that counts in parts that the configuration cannot tell.
func divided(t *testing.T) control.Config {
	t.Helper()
	return configured(t, `
tiers: [{name: anyone, identity: ip, limits: 100/1m}]
policies: [{name: item, match: {path: "/items/{id}"}, per: [id], limits: 2/1h}]
`)
}

// use takes so many units of an item, and wants the last one to be allowed or not.
func use(t *testing.T, d *control.Admin, item string, times int, want bool) {
	t.Helper()
	var last control.TakeResult
	for range times {
		last = take(t, d, control.TakeRequest{Target: of(visitor), Policy: "item", Scope: "item:" + item})
	}
	if last.Allowed != want {
		t.Errorf("item %.20s: %+v, want allowed %v", item, last, want)
	}
}

// usesOf returns what is shown of the policy, as "scope used", and "…" after what may have other
// parts.
func usesOf(t *testing.T, d *control.Admin) string {
	t.Helper()
	var uses []string
	for _, l := range subjectOf(t, d, visitor).Limits {
		if l.Policy == "item" {
			text := fmt.Sprint(l.Scope, " ", l.Used)
			if l.Divided {
				text += "…"
			}
			uses = append(uses, text)
		}
	}
	return strings.Join(uses, ", ")
}

func wantUses(t *testing.T, d *control.Admin, want string) {
	t.Helper()
	if got := usesOf(t, d); got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
}

// Redis keeps hashes of long names. They cannot be listed, and so not be reset: a reset says so.
func TestPartsThatAreTooLong(t *testing.T) {
	d := inRedis(t, divided(t))
	long := strings.Repeat("x", 200)
	use(t, d, "7", 3, false)
	use(t, d, long, 3, false)
	wantUses(t, d, "item:7 2, item 0…")
	_, err := d.Reset(t.Context(), of(visitor))
	wantInvalid(t, err, "usage in some parts of item may not have been reset; all other usage was: "+
		"the store keeps only hashes of long names, and cannot name 1 of its scopes; the counts there expire with their windows")
	use(t, d, "7", 2, true)
	use(t, d, long, 1, false)
}

func TestPartsThatAreTooMany(t *testing.T) {
	d := inMemory(t, divided(t))
	for i := range driver.MaxScopes + 5 {
		use(t, d, fmt.Sprint(i), 1, true)
	}
	if got := usesOf(t, d); strings.Count(got, ":") < driver.MaxScopes-1 {
		t.Errorf("shown %.200q…, want about %d parts", got, driver.MaxScopes)
	}
	_, err := d.Reset(t.Context(), of(visitor))
	wantInvalid(t, err, "usage in some parts of item may not have been reset; all other usage was: "+
		"the store listed 1000 scopes, the most it lists at once; reset it again")
	if _, err := d.Reset(t.Context(), of(visitor)); err != nil {
		t.Fatal(err)
	}
	for i := range driver.MaxScopes + 5 {
		use(t, d, fmt.Sprint(i), 2, true)
	}
}

// slow is a store whose scopes take their time to be found, or are not.
type slow struct {
	driver.Inspector
	took time.Duration
	err  error
}

func (s *slow) Scopes(ctx context.Context, subject string) ([]string, error) {
	select {
	case <-time.After(s.took):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.Inspector.Scopes(ctx, subject)
}

// If the parts cannot be found, the rest is shown and reset, and it is said that they are not.
func TestPartsThatCannotBeFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := &stint.StoreError{Op: "scopes", Kind: stint.KindAuth, Err: errors.New("no permission")}
		for want, s := range map[error]slow{failed: {err: failed}, context.DeadlineExceeded: {took: time.Hour}} {
			s.Inspector = guardtest.Memory(t)
			d := over(t, &s, divided(t))
			take(t, d, control.TakeRequest{Target: of(visitor), Tier: "anyone"})
			use(t, d, "7", 1, true)
			wantUses(t, d, "item 0…")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := d.Reset(ctx, of(visitor))
			cancel()
			const text = "control: usage in some parts of item may not have been reset; all other usage was: "
			if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), text) {
				t.Errorf("got %v, want %s%v", err, text, want)
			}
			result := subjectOf(t, d, visitor)
			if l := newLimit(t, &result, "anyone", "", "global", "100/1m"); l.Used != 0 {
				t.Errorf("%v: the tier's own is %+v, want nothing used", want, l)
			}
		}
	})
}

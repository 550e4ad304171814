package main

import (
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// mostAccounts is how many are kept: whoever calls can think of any number of names.
const mostAccounts = 20

// account is what became of one key's requests.
type account struct {
	key, tier       string
	allowed, denied int64
	seen            time.Time
	// request is the last one, but only looks. Names are those of the policies that
	// its limits belong to, "" for the tier's own.
	request stint.Request
	names   []string
}

// ledger hears of every verdict and keeps the accounts. It implements [policy.Observer].
type ledger struct {
	mu       sync.Mutex
	accounts []*account // in the order of their first requests
}

// Judged implements [policy.Observer].
func (l *ledger) Judged(v *policy.Verdict, err error) {
	if err != nil || len(v.Rules()) == 0 {
		return // undecided, or not limited
	}
	charge := &v.Decision.Charge
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(charge.Claim.Key())
	a.seen, a.tier = time.Now(), v.Tier
	if v.Decision.Allowed {
		a.allowed++
	} else {
		a.denied++
	}
	// Bans are looked for, never made, by a policy that does not say when.
	a.request = stint.Request{Mode: stint.Peek, Claim: charge.Claim, And: slices.Clone(charge.And()), Bans: &stint.BanPolicy{}}
	a.names = nil
	for _, r := range v.Rules() {
		for range r.Limits {
			a.names = append(a.names, r.Policy)
		}
	}
}

// account returns the account of a key. If there is no room for a new one, that
// which nobody has used for the longest goes.
func (l *ledger) account(key string) *account {
	for _, a := range l.accounts {
		if a.key == key {
			return a
		}
	}
	if len(l.accounts) == mostAccounts {
		idle := slices.MinFunc(l.accounts, func(a, b *account) int { return a.seen.Compare(b.seen) })
		l.accounts = slices.DeleteFunc(l.accounts, func(a *account) bool { return a == idle })
	}
	a := &account{key: key}
	l.accounts = append(l.accounts, a)
	return a
}

// list returns copies of the accounts, in the order of their first requests.
func (l *ledger) list() []account {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []account
	for _, a := range l.accounts {
		list = append(list, *a)
	}
	return list
}

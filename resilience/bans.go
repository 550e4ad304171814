package resilience

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// ban notes a ban, for decisions without the store.
func (l *ledger) ban(subject string, d time.Duration) {
	if d = min(d, stint.MaxWindow).Round(time.Microsecond); d >= stint.MinWindow {
		_ = l.bans.Command(context.Background(), stint.Command{Kind: stint.CommandBan, Subject: subject, For: d})
	}
}

// unban forgets a ban: another process has changed something about the subject. If it is still
// banned, the store's next answer says so.
func (l *ledger) unban(subject string) {
	if subject != "" {
		_ = l.bans.Command(context.Background(), stint.Command{Kind: stint.CommandUnban, Subject: subject})
	}
}

// banned answers a request of which a subject is known to be banned.
func (l *ledger) banned(r *stint.Request) (d stint.Decision, err error) {
	for i := range r.Claims {
		if r.Claims[i].Shared {
			continue
		}
		look := stint.Request{Claims: []stint.Claim{{Subject: r.Claims[i].Subject, Limits: noRoom, Cost: 1}},
			Bans: &applyBans, Mode: stint.ModePeek}
		if d, err = l.bans.Take(context.Background(), look); err != nil || d.Banned {
			d.Denier, d.Charge = uint8(i+1), contract.ChargeOf(r)
			return d, err
		}
	}
	return stint.Decision{}, nil
}

// noRoom is a limit under which everything is denied, so that bans are counted.
var noRoom = []stint.Limit{{Max: 0, Window: time.Second}}

// strike counts a denial towards a ban.
func (l *ledger) strike(r *stint.Request, d *stint.Decision) {
	c := &r.Claims[d.Denier-1]
	if r.Mode != stint.ModeTake || !strikes(r) || !contract.Charges(c) || c.Shared {
		return
	}
	struck, err := l.bans.Take(context.Background(), stint.Request{
		Claims: []stint.Claim{{Subject: c.Subject, Limits: noRoom, Cost: 1}}, Bans: r.Bans})
	if err == nil && struck.Banned {
		d.Banned, d.BanLeft = true, struck.BanLeft
		if d.RetryAfter != stint.Never {
			d.RetryAfter = max(d.RetryAfter, d.BanLeft)
		}
	}
}

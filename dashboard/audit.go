package dashboard

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint/internal/label"
)

// maxActions is the maximum number of actions kept in memory. The log contains all of them.
const maxActions = 200

// action is a change or an export that an operator made or attempted.
type action struct {
	At   time.Time `json:"at"`
	Who  string    `json:"who"`
	What string    `json:"what"`
	// Subject is the full subject. Before an action is sent to a caller, [names.actions] sets Ref,
	// and shortens the subject if the caller may not see it in full.
	Subject string `json:"subject"`
	Ref     string `json:"ref,omitempty"`
	// Result is "done", or the reason why the action failed.
	Result string `json:"result"`
}

type audit struct {
	mu      sync.Mutex
	actions []action
}

func (a *audit) add(d action) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.actions) == maxActions {
		a.actions = slices.Delete(a.actions, 0, 1)
	}
	a.actions = append(a.actions, d)
}

// list returns the actions, newest last.
func (a *audit) list() []action {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]action{}, a.actions...)
}

func (d *dashboard) note(ctx context.Context, by operator, what, subject string, err error) {
	done := action{At: time.Now(), Who: label.Line(by.name), What: what, Subject: subject, Result: "done"}
	level := slog.LevelInfo
	if err != nil {
		done.Result, level = label.Line(sentence(err)), slog.LevelWarn
	}
	d.audit.add(done)
	d.c.Logger.Log(ctx, level, "audit", "who", done.Who, "what", what, "subject", label.Short(subject), "peer",
		by.peer, "result", done.Result)
}

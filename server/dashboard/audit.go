package dashboard

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint/internal/label"
)

// maxDeeds is how many deeds are remembered. The log has them all.
const maxDeeds = 200

// deed is something that somebody changed, or tried to.
type deed struct {
	At   time.Time `json:"at"`
	Who  string    `json:"who"`
	What string    `json:"what"`
	// Subject is shortened, as it is in the log.
	Subject string `json:"subject"`
	// Result is "done", or why not.
	Result string `json:"result"`
}

// audit remembers the last deeds. The zero value has none.
type audit struct {
	mu    sync.Mutex
	deeds []deed
}

func (a *audit) add(d deed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.deeds) == maxDeeds {
		a.deeds = slices.Delete(a.deeds, 0, 1)
	}
	a.deeds = append(a.deeds, d)
}

// list returns them, newest last.
func (a *audit) list() []deed {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]deed{}, a.deeds...)
}

// note writes a deed down.
func (d *Dashboard) note(ctx context.Context, by writer, what, subject string, err error) {
	did := deed{time.Now(), label.Line(by.name), what, d.shown(subject), "done"}
	level := slog.LevelInfo
	if err != nil {
		did.Result, level = label.Line(sentence(err)), slog.LevelWarn
	}
	d.audit.add(did)
	d.c.Logger.Log(ctx, level, "audit", "who", did.Who, "what", what, "subject", label.Short(subject), "peer", by.peer, "result", did.Result)
}

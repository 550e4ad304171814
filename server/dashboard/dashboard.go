package dashboard

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/server/control"
)

// Config sets up a [Dashboard]. Only the Monitor is needed.
type Config struct {
	// Monitor knows what happens.
	Monitor *observe.Monitor
	// Desk acts on subjects. Without it none can be looked at, and nothing changed.
	Desk *control.Desk
	// Set returns the policies in force, as [policy.Guard.Set] does; nil if there are none to be shown.
	Set func() *policy.Set
	// Phase is how far the process is in its life, and Sources the files that it reads. Either may be nil.
	Phase   func() string
	Sources func() []Source

	// Guard stands before everything but the page. Nil answers callers on this host, and nobody else.
	Guard func(next http.Handler) http.Handler
	// Who returns the name of whoever sent a request, for the audit log, "" if it is not known, and whether they may change
	// something or only look. Nil means that nothing can be changed.
	Who func(r *http.Request) (name string, operates bool)
	// ShowSubjects shows subjects in full in lists. It should be as that of the Monitor.
	ShowSubjects bool

	// Logger is slog.Default() unless set.
	Logger *slog.Logger
	// Version is that of the program.
	Version string
}

// Bounds on what others can make a dashboard do.
const (
	// lookTime is how long the store may take to show something, and scanTime to go through all that it holds.
	lookTime = 5 * time.Second
	scanTime = 20 * time.Second
	// sendTime is how long a reader of a stream may take to take a tick, and maxStreams how many there may be.
	sendTime   = 10 * time.Second
	maxStreams = 100
	// maxBody is the largest body of a request in bytes.
	maxBody = 2 * stint.MaxSubject
)

// Dashboard is a handler of HTTP requests. See [New].
type Dashboard struct {
	c      Config
	pages  pages
	routes http.Handler
	shown  func(subject string) string
	refs   *refs
	bans   bans
	audit  audit

	streams chan struct{} // holds one for each that is open
	closing sync.Once
	closed  chan struct{}
}

// New returns a dashboard. It is to be closed, before the monitor.
func New(c Config) (*Dashboard, error) {
	if c.Monitor == nil {
		return nil, &stint.InvalidError{Err: errors.New("a dashboard needs a monitor")}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Guard == nil {
		c.Guard = localOnly
	}
	d := &Dashboard{
		c:       c,
		shown:   label.Short,
		bans:    bans{turn: make(chan struct{}, 1)},
		streams: make(chan struct{}, maxStreams),
		closed:  make(chan struct{}),
	}
	if c.ShowSubjects {
		d.shown = label.Line
	}
	var err error
	if d.refs, err = newRefs(); err != nil {
		return nil, err
	}
	if d.pages, err = readPages(); err != nil {
		return nil, err
	}
	d.routes = d.route()
	return d, nil
}

// Close ends all streams, which would go on for as long as their readers like: call it before a server is shut down that
// waits for them. All else is answered as before. It never fails.
func (d *Dashboard) Close() error {
	d.closing.Do(func() { close(d.closed) })
	return nil
}

// ServeHTTP implements [http.Handler].
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	d.routes.ServeHTTP(w, r)
}

func (d *Dashboard) route() http.Handler {
	api := http.NewServeMux()
	api.HandleFunc("GET /api/state", d.showState)
	api.HandleFunc("GET /api/stream", d.stream)
	api.HandleFunc("GET /api/top", d.showTop)
	api.HandleFunc("GET /api/violations", d.showViolations)
	api.HandleFunc("GET /api/bans", d.showBans)
	api.HandleFunc("GET /api/shadow", d.showShadow)
	api.HandleFunc("GET /api/subject", d.showSubject)
	api.HandleFunc("POST /api/reset", d.writes(d.reset))
	api.HandleFunc("POST /api/ban", d.writes(d.ban))
	api.HandleFunc("POST /api/unban", d.writes(d.unban))
	api.HandleFunc("POST /api/take", d.posts(d.take)) // which looks only, if it is to peek
	api.HandleFunc("/", nothingHere)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", d.pages.index)
	mux.HandleFunc("GET /static/", d.pages.file)
	mux.Handle("/", sameSite(d.c.Guard(api)))
	return mux
}

// nothingHere answers where there is nothing.
func nothingHere(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/reset", "/api/ban", "/api/unban", "/api/take":
		w.Header().Set("Allow", http.MethodPost)
		answer.Refuse(w, http.StatusMethodNotAllowed, "method", "This changes something: want POST.")
	default:
		answer.Refuse(w, http.StatusNotFound, "not_found", "There is nothing here.")
	}
}

// localOnly serves callers on this host.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !callers.Local(r) {
			answer.Refuse(w, http.StatusForbidden, "forbidden",
				"This is for this machine only: call it localhost, or by its address, and not through a proxy.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

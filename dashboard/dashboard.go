package dashboard

import (
	"compress/gzip"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

// Config configures a dashboard. Only Monitor is required.
type Config struct {
	// Monitor provides the data that the page shows.
	Monitor *observe.Monitor
	// Store is the store whose subjects operators inspect, reset and ban. Without a store, the page
	// cannot show or change individual subjects.
	Store stint.Store
	// Set returns the policies in force, as [policy.Guard.Set] does. If Set is nil, the page shows
	// no policies.
	Set func() *policy.Set
	// Overrides holds the limits of individual subjects, which operators can change. It may be nil.
	Overrides *overrides.Table
	// Envoy returns the limits that the rate limit service for Envoy applies to a subject, and the
	// name of their rule. It is nil if there is no such service.
	Envoy func(subject string) (rule string, limits []stint.Limit)
	// Phase returns the phase of the process, such as "ready", and Sources returns the files that
	// it reads. Either may be nil.
	Phase   func() string
	Sources func() []Source

	// Protect wraps everything except the page, to authenticate callers. If it is nil, the
	// dashboard serves only callers on this host.
	Protect func(next http.Handler) http.Handler
	// Who returns the name of the sender of a request, for the audit log, or "" if it is unknown.
	// It also reports whether the sender may make changes. If Who is nil, no changes are allowed.
	Who func(r *http.Request) (name string, operates bool)
	// ShowSubjects shows subjects in full to all callers. Set it to the same value as
	// [observe.Config.ShowSubjects]. By default, operators see subjects in full, and others see
	// them shortened.
	ShowSubjects bool

	// Logger logs changes and warnings. The default is slog.Default().
	Logger *slog.Logger
	// Version is the version of the program.
	Version string
}

// Bounds on the work that callers can cause.
const (
	// lookTime is the timeout for looking up or charging a subject in the store. scanTime is the
	// timeout for all other changes, and for scanning the whole store.
	lookTime = 5 * time.Second
	scanTime = 20 * time.Second
	// sendTime is the maximum time that the client of a stream may take to read an event, and
	// maxStreams is the maximum number of open streams.
	sendTime   = 10 * time.Second
	maxStreams = 100
	// worthZipping is the minimum size, in bytes, at which an answer is compressed. Compressing an
	// answer that fits into one or two packets would gain nothing.
	worthZipping = 4 << 10
	// maxBody is the maximum size of a request body, in bytes.
	maxBody = 2 * stint.MaxSubject
	// maxImport is the maximum size of a request body with overrides to import, in bytes.
	maxImport = 16 << 20
)

type dashboard struct {
	c      Config
	admin  *control.Admin // nil without a store
	routes http.Handler
	bans   banCache
	audit  audit

	streams chan struct{} // holds one value for each open stream
	closed  <-chan struct{}
}

// New returns a handler that serves a dashboard. Streams end when the context ends. Cancel the
// context before shutting down a server that waits for open connections. After the context ends,
// the handler still serves all requests except streams.
func New(ctx context.Context, c Config) (http.Handler, error) {
	if c.Monitor == nil {
		return nil, &stint.InvalidError{Err: errors.New("dashboard.Config.Monitor is required")}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Protect == nil {
		c.Protect = callers.LocalOnly(c.Logger, "the dashboard",
			"Only callers on this machine are served: use localhost or its address, without a proxy.")
	}
	if c.Set == nil {
		c.Set = func() *policy.Set { return nil }
	}
	d := &dashboard{
		c:       c,
		bans:    banCache{turn: make(chan struct{}, 1)},
		streams: make(chan struct{}, maxStreams),
		closed:  ctx.Done(),
	}
	if c.Store != nil {
		d.admin = control.New(control.Config{Store: c.Store, Set: c.Set, Envoy: c.Envoy,
			Overrides: c.Overrides})
		d.admin.SendLater(ctx, c.Logger)
	}
	pages, err := readPages()
	if err != nil {
		return nil, err
	}
	api, err := d.api()
	if err != nil {
		return nil, err
	}
	d.routes = pages.handler(sameSite(c.Protect(api)))
	return d, nil
}

func (d *dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.routes.ServeHTTP(w, r) }

func (d *dashboard) api() (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(worthZipping), gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, err
	}
	compressed := func(h http.HandlerFunc) http.Handler { return wrap(h) }
	changes := map[string]http.HandlerFunc{
		"reset":         d.requireOperator(d.acts("reset", d.admin.Reset)),
		"ban":           d.requireOperator(d.ban),
		"unban":         d.requireOperator(d.acts("unban", d.admin.Unban)),
		"limits/set":    d.requireOperator(d.setOverride),
		"limits/unset":  d.requireOperator(d.unsetOverride),
		"limits/import": d.requireOperator(d.importOverrides),
		"take":          d.requireName(d.take), // take itself requires an operator, except for a peek
	}
	api := http.NewServeMux()
	for name, change := range changes {
		api.HandleFunc("POST /api/"+name, change)
		api.HandleFunc("/api/"+name, postOnly)
	}
	api.Handle("GET /api/state", compressed(d.showState))
	api.HandleFunc("GET /api/stream", d.stream)
	api.HandleFunc("GET /api/top", d.showTop)
	api.HandleFunc("GET /api/violations", d.showViolations)
	api.HandleFunc("GET /api/processes", d.showProcesses)
	api.HandleFunc("GET /api/why", d.why)
	api.HandleFunc("GET /api/bans", d.showBans)
	api.Handle("GET /api/shadow", compressed(d.showShadow))
	api.Handle("GET /api/subject", compressed(d.showSubject))
	api.Handle("GET /api/limits", compressed(d.showOverrides))
	api.HandleFunc("GET /api/limits/export", d.exportOverrides)
	api.HandleFunc("/", notFound)
	return api, nil
}

func postOnly(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	answer.Refuse(w, http.StatusMethodNotAllowed, "method", "This endpoint makes changes; use POST.")
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	answer.Refuse(w, http.StatusNotFound, "not_found", "There is nothing here.")
}

package api

import (
	"cmp"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// Config sets up an [API].
type Config struct {
	// Public has the JSON API answer everybody whom its handler is called for. Without it only
	// callers on this host are answered, who call it localhost or by its address. Who asks can use
	// up anybody's limits: ask for a token before, or for a certificate.
	Public bool
	// Known says that every caller has shown a token or a certificate. Only then may callers have
	// all processes pause their calls to an API.
	Known bool
	// Outbound are the APIs whose turn callers wait for by name. It may be nil.
	Outbound *outbound.Registry
	// AdHoc accepts limits that callers send along with a subject. They share their counts with
	// equal limits of the configuration, if they name the same subject and scope.
	AdHoc bool
	// Observer receives a [*policy.Settlement] for every settlement that was not charged wholly,
	// for every hold that was settled, and for heartbeats of holds that have expired. It may be
	// nil.
	Observer stint.Observer
	// Logger is slog.Default() unless set.
	Logger *slog.Logger
}

// API answers what may be done. It is safe for concurrent use.
type API struct {
	guard   *policy.Guard
	store   stint.Store
	config  Config
	callers *callers.JSON
	keys    *keys
	waits   *waits
	// answer answers a decided request, and addHeaders only adds the fields about its limits.
	answer, addHeaders func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) (refused bool)
	reading            atomic.Pointer[reading]
	warned             atomic.Pointer[policy.Set] // of what has no effect in forward-auth

	failures, cuts, untrusted, unreadable logsample.Sampler
}

// New returns an API that decides by the set of a guard. The store is the guard's.
func New(guard *policy.Guard, store stint.Store, c Config) (*API, error) {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	waits, err := newWaits(store)
	if err != nil {
		return nil, err
	}
	return &API{
		guard:      guard,
		store:      store,
		config:     c,
		callers:    callers.NewJSON(c.Public, "--api-token-file", c.Logger),
		keys:       newKeys(store, c.Logger),
		waits:      waits,
		answer:     httplimit.NewAnswer(),
		addHeaders: httplimit.NewAnswer(httplimit.WithDenied(agree)),
	}, nil
}

// Handler returns the JSON API, and the document that describes it. It answers to every path.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serve) }

// Auth returns the forward-auth handler. It may be mounted anywhere: the header has what is asked.
func (a *API) Auth() http.Handler { return http.HandlerFunc(a.serveAuth) }

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

// Config configures an [API].
type Config struct {
	// Public makes the JSON API serve all callers. By default, it serves only callers on this host
	// that address it as localhost or by its IP address. Any caller can use up the limits of any
	// subject. If Public is set, require a token or a certificate in front of the handler.
	Public bool
	// Known tells the API that every caller has presented a token or a certificate. If Known is
	// false, callers cannot make all processes pause their calls to a third-party API.
	Known bool
	// Outbound holds the third-party APIs. A caller can name one of them, and wait until it may
	// call that API. Outbound may be nil.
	Outbound *outbound.Registry
	// AdHoc allows callers to send limits with a subject. If the configuration has an equal limit
	// for the same subject and scope, both limits share one count.
	AdHoc bool
	// Observer receives a [*policy.Settlement] for every settlement that was charged only in part,
	// for every settlement of a hold, and for every heartbeat for an expired hold. It may be nil.
	Observer stint.Observer
	// Logger logs failures. The default is slog.Default().
	Logger *slog.Logger
}

// API answers requests for decisions. It is safe for concurrent use.
type API struct {
	guard   *policy.Guard
	store   stint.Store
	config  Config
	callers *callers.JSON
	keys    *keys
	waits   *waits
	// answer sets the rate limit header fields and, if the request is denied, writes the response.
	// addHeaders only sets the header fields.
	answer, addHeaders func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) (refused bool)
	reading            atomic.Pointer[reading]
	warned             atomic.Pointer[policy.Set] // the set that warnOfAuth last checked

	failures, cuts, untrusted, unreadable logsample.Sampler
}

// New returns an API that decides requests by guard's policies. store must be guard's store.
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

// Handler returns the handler of the JSON API and of openapi.json. It answers other paths with 404.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serve) }

// Auth returns the forward-auth handler. It can be mounted at any path: the request to decide is
// described in header fields.
func (a *API) Auth() http.Handler { return http.HandlerFunc(a.serveAuth) }

package outbound

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/internal/tokens"
)

// Config sets up a [Registry]. Its zero value is ready for use.
type Config struct {
	// Logger receives a message when an API asks for a pause, and when that cannot be written to
	// the store, each at most once a minute per API; and what [stint.WithLogger] logs. The default
	// is slog.Default().
	Logger *slog.Logger
	// Observer receives a [*Call] for every call and a [*Cooldown] for every pause. It may be nil.
	Observer stint.Observer
}

// Registry holds APIs by name. Registries over one store, in however many processes, share the
// limits and the pauses of the APIs that have the same name. It is safe for concurrent use.
//
// The zero value is not usable; see [New].
type Registry struct {
	store    stint.Store
	logger   *slog.Logger
	observer stint.Observer
	start    time.Time

	// table holds what is registered. It is replaced, never changed: calls take no lock.
	table atomic.Pointer[map[string]*entry]

	mu      sync.Mutex         // of what follows
	clients map[string]*Client // of all names that ever were registered
	closed  bool

	done       chan struct{} // closed by Close
	background sync.WaitGroup
}

// entry is an API as it is now, and the client that outlives its changes.
type entry struct {
	api     API
	limiter *stint.Limiter
	client  *Client
	usage   *tokens.Rules // nil: calls are counted
}

// New returns a registry of APIs over a store. Close it to end what goes on in the background.
// Every mistake is reported in one [*stint.InvalidError].
func New(store stint.Store, apis []API, c Config) (*Registry, error) {
	if store == nil {
		return nil, &stint.InvalidError{Err: errors.New("the store is nil; want one such as stores.Open returns")}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	r := &Registry{
		store: store, logger: c.Logger, observer: c.Observer, start: time.Now(),
		clients: map[string]*Client{}, done: make(chan struct{}),
	}
	if err := r.Update(apis); err != nil {
		return nil, err
	}
	return r, nil
}

// Update replaces the APIs, all at once or, if there is a mistake in them, not at all. The next
// call of each applies its new limits, with the history kept; one that waits keeps the place that
// it has. Clients stay valid: those of a name that is gone fail with a [*stint.InvalidError] until
// it is back. Every mistake is reported in one [*stint.InvalidError].
func (r *Registry) Update(apis []API) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	table := make(map[string]*entry, len(apis))
	for i := range apis {
		e := &entry{api: apis[i].clone()}
		mistakes := e.api.mistakes()
		if len(mistakes) == 0 {
			var err error
			if e.limiter, err = e.api.limiter(r.store, r.logger); err != nil {
				return err
			}
			if e.api.Usage != "" {
				if e.usage, err = tokens.New(tokens.Config{Format: tokens.Presets()[e.api.Usage]}); err != nil {
					return err
				}
			}
		}
		if table[e.api.Name] != nil {
			mistakes = append(mistakes, errors.New("the name is that of an earlier API; want each once"))
		}
		for _, m := range mistakes {
			errs = append(errs, fmt.Errorf("API %d (%q): %w", i, e.api.Name, m))
		}
		table[e.api.Name] = e
	}
	if len(errs) > 0 {
		return &stint.InvalidError{Err: errors.Join(errs...)}
	}
	for name, e := range table {
		if r.clients[name] == nil {
			r.clients[name] = &Client{registry: r, name: name, subject: e.api.subject()}
		}
		e.client = r.clients[name]
	}
	r.table.Store(&table)
	return nil
}

// API returns the client of an API, or a [*stint.InvalidError] that lists those there are.
func (r *Registry) API(name string) (*Client, error) {
	e, err := r.find(name)
	if err != nil {
		return nil, err
	}
	return e.client, nil
}

func (r *Registry) find(name string) (*entry, error) {
	if e := (*r.table.Load())[name]; e != nil {
		return e, nil
	}
	known := slices.Sorted(maps.Keys(*r.table.Load()))
	if len(known) == 0 {
		return nil, &stint.InvalidError{Err: fmt.Errorf("there is no API %q; none is registered", name)}
	}
	return nil, &stint.InvalidError{
		Err: fmt.Errorf("there is no API %q%s; known: %s", name, nearest.Hint(name, known), strings.Join(known, ", "))}
}

// Close ends the background work and waits for it. A pause that is not in the store yet is written
// one last time, for which Close waits a second or two if the store does not answer. Clients still
// work, but write no pauses, and estimates that are held last for five minutes.
func (r *Registry) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.done)
	}
	r.mu.Unlock()
	r.background.Wait()
}

// run starts a goroutine, unless the registry has been closed.
func (r *Registry) run(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.background.Go(what)
	}
}

// now is the time since the start, by the clock that does not step.
func (r *Registry) now() time.Duration { return time.Since(r.start) }

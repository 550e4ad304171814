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
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/tokens"
)

// Config configures a [Registry]. Its zero value is ready for use.
type Config struct {
	// Logger receives a message when an API asks for a pause, and another when the pause cannot be
	// written to the store. It receives each of them at most once a minute per API. It also
	// receives the log records described at [stint.WithLogger]. The default is slog.Default().
	Logger *slog.Logger
	// Observer receives a [*Call] for every call and a [*Cooldown] for every pause. It may be nil.
	Observer stint.Observer
}

// Registry holds APIs by name. Registries that use the same store, in any number of processes,
// share the limits and the pauses of APIs with the same name. A Registry is safe for concurrent
// use.
//
// The zero value is not usable; see [New].
type Registry struct {
	store    stint.Store
	logger   *slog.Logger
	observer stint.Observer
	start    time.Time

	// table holds the registered APIs. It is replaced, never changed, so calls take no lock.
	table atomic.Pointer[map[string]*entry]

	mu      sync.Mutex         // guards the fields below
	clients map[string]*Client // clients of all APIs that were ever registered, by name
	closed  bool

	done       chan struct{} // closed by Close
	background sync.WaitGroup
}

// entry holds the current version of an API, and the client, which stays the same when the API
// changes.
type entry struct {
	api     API
	limiter *stint.Limiter
	client  *Client
	usage   *tokens.Rules // nil if only calls are counted, not tokens
}

// New returns a registry of APIs whose limits are counted in store. Call Close to end its
// background work. Every mistake is reported in one [*stint.InvalidError].
func New(store stint.Store, apis []API, c Config) (*Registry, error) {
	if store == nil {
		return nil, &stint.InvalidError{Err: errors.New("the store is nil; want a store, such as one from stores.Open")}
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

// Update replaces the APIs: all of them or, if there is a mistake, none. The new limits apply from
// the next call to each API, and usage is kept. A call that is waiting keeps its turn. Clients stay
// valid. Clients of a removed API fail with a [*stint.InvalidError] until it is registered again.
// Every mistake is reported in one [*stint.InvalidError].
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
			mistakes = append(mistakes, errors.New("duplicate name; want a different one for each API"))
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
			r.clients[name] = &Client{registry: r, name: name, subject: name + ":api"}
		}
		e.client = r.clients[name]
	}
	r.table.Store(&table)
	return nil
}

// API returns the client of an API, or a [*stint.InvalidError] that lists the registered names.
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
		Err: fmt.Errorf("there is no API %q%s; known: %s", name, messages.Hint(name, known), strings.Join(known, ", "))}
}

// Close ends the background work and waits for it. If a pause is not in the store yet, Close makes
// a last attempt to write it. This takes a second or two if the store does not answer. Clients
// still work afterwards, but write no pauses, and their estimates are held for only five minutes.
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

// now returns the time since the registry was created, by the monotonic clock.
func (r *Registry) now() time.Duration { return time.Since(r.start) }

package outbound

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tokens"
)

const (
	defaultMaxCooldown = 15 * time.Minute
	maxRetries         = 10
)

// API describes a third-party API and the limits on calls to it.
type API struct {
	// Name is the name by which callers look up the API. It may contain letters, digits and "_-.",
	// as in "igdb". In the store, the subject is the name followed by ":api", as in this error:
	// rate limit exceeded for key 'igdb:api'.
	Name string
	// Limits are the limits of the API. They must not include concurrency limits, because nothing
	// reports when a call has ended.
	Limits []stint.Limit
	// Usage is the format of a language model's API, "openai", "anthropic" or "gemini", for the
	// transport of package httplimit. Limits with the name "tokens", "input_tokens" or
	// "output_tokens" then count tokens, and all others count calls. Each call is first charged an
	// estimate that is made from its request. The charge is corrected when the response reports the
	// actual usage. If Usage is "", all limits count calls.
	Usage string
	// FailFast makes a call that would have to wait fail at once, with a [*stint.DeniedError]. By
	// default, the call waits.
	FailFast bool
	// MaxWait is the longest time that a call waits, pauses included; zero means that only the
	// context limits the wait. A call that would have to wait longer fails at once.
	MaxWait time.Duration
	// MaxCooldown is the longest pause that the API may impose; zero means 15 minutes. It does not
	// limit pauses that other processes write to the store.
	MaxCooldown time.Duration
	// Retries is the maximum number of times that a transport repeats an idempotent request after
	// an answer that asks clients to slow down; 0 to 10. Each repeat waits for its turn, so Retries
	// cannot be combined with FailFast.
	Retries int
	// Failure determines what happens to calls when the store fails. If it is nil, the
	// configuration of the store applies.
	Failure *stint.FailurePolicy
}

// clamp returns the pause that applies when the API asks for a pause of d. It is a whole number of
// microseconds, because stores measure time in microseconds.
func (a *API) clamp(d time.Duration) time.Duration {
	longest := a.MaxCooldown
	if longest == 0 {
		longest = defaultMaxCooldown
	}
	d = min(max(d, stint.MinWindow), longest)
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// Validate reports all mistakes in the API in one [*stint.InvalidError].
func (a *API) Validate() error {
	if errs := a.mistakes(); len(errs) > 0 {
		return &stint.InvalidError{Err: errors.Join(errs...)}
	}
	return nil
}

func (a *API) mistakes() []error {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if a.Name == "" {
		mistake("the name is empty; the names in outbound.Presets() are %s",
			strings.Join(slices.Sorted(maps.Keys(Presets())), ", "))
	} else if !syntax.IsShortName(a.Name) {
		mistake("the name is %q; want 1 to %d letters, digits, '_', '-' or '.'", a.Name, syntax.MaxName)
	}
	if a.MaxCooldown != 0 && (a.MaxCooldown < stint.MinWindow || a.MaxCooldown > stint.MaxWindow) {
		mistake("the longest pause is %v; want 0, or %v to %v", a.MaxCooldown, stint.MinWindow, stint.MaxWindow)
	}
	switch {
	case a.Retries < 0 || a.Retries > maxRetries:
		mistake("%d retries; want 0 to %d", a.Retries, maxRetries)
	case a.Retries > 0 && a.FailFast:
		mistake("%d retries of calls that fail at once; want 0, because a repeat has to wait", a.Retries)
	}
	for _, l := range a.Limits {
		if l.Algorithm == stint.AlgorithmConcurrency {
			mistake("%s is a concurrency limit; want none, because nothing reports when a call has ended", l)
		}
	}
	if _, ok := tokens.Presets()[a.Usage]; !ok && a.Usage != "" {
		mistake("unknown usage format %q; %s", a.Usage, messages.Want(a.Usage, tokens.Names()))
	} else if ok && !slices.ContainsFunc(a.Limits, func(l stint.Limit) bool { return countsTokens(l.Name) }) {
		mistake("no limit counts tokens; want one with the name %s, as in tokens: 30000/1m", messages.OneOf(tokenNames))
	}
	if a.MaxWait < 0 {
		mistake("the longest wait is %v; want 0 or more", a.MaxWait)
	}
	r := stint.Request{Claims: []stint.Claim{{Subject: "any", Limits: a.Limits}}, MaxWait: max(a.MaxWait, 0),
		Failure: a.Failure}
	return append(errs, contract.EachMistake(r.Validate())...)
}

// limiter returns a limiter for the API, which must be valid.
func (a *API) limiter(store stint.Store, logger *slog.Logger) (*stint.Limiter, error) {
	options := []stint.Option{stint.WithBans(stint.BanPolicy{}), stint.WithLogger(logger)}
	for _, l := range a.Limits {
		options = append(options, l)
	}
	if a.Failure != nil {
		options = append(options, stint.WithFailure(*a.Failure))
	}
	return stint.New(noting{store}, options...)
}

// clone returns a copy that shares no memory with a.
func (a *API) clone() API {
	own := *a
	own.Limits = slices.Clone(a.Limits)
	if a.Failure != nil {
		own.Failure = new(*a.Failure)
	}
	return own
}

// Presets returns well-known APIs by name, with the limits that their owners publish: igdb with
// 4/1s, musicbrainz with 1/1s, spotify with 180/1m, tmdb with 40/10s. The RCSB PDB publishes no
// figure but asks for a few requests per second, so rcsb has 3/1s. Calls to these APIs wait for
// their turn, because FailFast is false. The caller may change the APIs.
func Presets() map[string]API {
	presets := map[string]API{}
	for name, limit := range map[string]stint.Limit{
		"igdb":        stint.PerSecond(4),
		"musicbrainz": stint.PerSecond(1),
		// https://www.rcsb.org/docs/programmatic-access/web-apis-overview: start with a few
		// requests per second, and slow down on a 429. Downloads from files.wwpdb.org are not
		// limited.
		"rcsb":    stint.PerSecond(3),
		"spotify": stint.PerMinute(180),
		"tmdb":    stint.Per(40, 10*time.Second),
	} {
		presets[name] = API{Name: name, Limits: []stint.Limit{limit}}
	}
	return presets
}

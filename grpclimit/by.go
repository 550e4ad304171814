package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/bykey"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/words"
	"github.com/stint-limiter/stint/policy"
)

// By returns interceptors that limit calls per key, without a configuration:
//
//	unary, stream := grpclimit.By(userOf, stint.PerMinute(100))
//	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
//
// Each call costs one unit of every limit, or what [WithCost] says; a stream costs as much when it
// is opened. The key says whose calls are counted together, from the context that the interceptors
// before these have made. A nil key counts the calls of each client's address together, as
// httplimit.ByIP does: By takes no proxies to trust, so there is nothing to choose. A peer without
// an address, as on a Unix socket, has no key: pass a function there. A call whose key is "" ends
// with Internal: no one shares a count by accident. Under a concurrency limit, see [stint.AtOnce],
// a call keeps its place until the handler returns. Health checks and reflection are calls like any
// other: to leave some out, call the interceptors from one of your own.
//
// The options are one or more limits, other options of package stint such as [stint.WithBans], and
// those of this package that name By. Without [WithStore] the calls are counted in the memory of
// this process, and every call of By counts by itself, in 64 MiB at most. Calls that cannot be
// decided are logged to slog.Default(), at most five per second.
//
// A mistake in the arguments is a mistake in the program: By panics, and lists every mistake.
func By(key func(context.Context) string, options ...stint.Option) (
	grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	own, others := bykey.Split[byOption](options)
	k := &keyed{key: key}
	c := bykey.Config{Logger: slog.Default(), Parts: []bykey.Part{{Options: others}}}
	for _, o := range own {
		o.set(k, &c)
	}
	var err error
	k.Limits, err = bykey.New(c)
	if err != nil {
		panic("grpclimit: By: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if k.ip, err = clientip.New(clientip.Config{}); err != nil {
		panic("grpclimit: By: " + err.Error())
	}
	s := &server{guard: k, random: rand.Float64}
	return s.unary(), s.stream()
}

// WithStore says where [By] counts, such as in a store that package stores has opened. In one
// store, calls with equal keys are counted together if they have the same name ([WithName]), or no
// name and the same limits, in all processes, and together with requests of httplimit.By. To keep
// counts when you change the limits, give them a name.
func WithStore(store stint.Store) stint.Option {
	return byOption{set: func(_ *keyed, c *bykey.Config) { c.Store, c.Stored = store, true }}
}

// WithName is the scope in which [By] counts in a store that is shared ([WithStore]), and the name
// of its limits: letters, digits and "_-.".
func WithName(name string) stint.Option {
	if !words.IsName(name) {
		panic(fmt.Sprintf("grpclimit: WithName(%q): want letters, digits and _-.", name))
	}
	return byOption{set: func(_ *keyed, c *bykey.Config) { c.Parts[0].Name = name }}
}

// WithLimits lets [By] hold each call to limits of its own, such as those of the customer. If it
// returns none, the limits that By was given apply; if there are none of these either, the call is
// not limited. In a store that is shared the limits need a name ([WithName]). It is called for
// every call, with the context that the interceptors before these have made. Limits that are not
// valid are a mistake: the call ends with Internal.
func WithLimits(limits func(ctx context.Context) []stint.Limit) stint.Option {
	if limits == nil {
		panic("grpclimit: WithLimits: the function is nil")
	}
	return byOption{set: func(k *keyed, c *bykey.Config) { k.limits, c.Parts[0].Varies = limits, true }}
}

// WithCost says how many units of every limit a call costs under [By]: one unless set. A cost of 0
// charges nothing; one below 0 is a mistake, and the call ends with Internal.
func WithCost(cost func(ctx context.Context) int64) stint.Option {
	if cost == nil {
		panic("grpclimit: WithCost: the function is nil")
	}
	return byOption{set: func(k *keyed, _ *bykey.Config) { k.cost = cost }}
}

// byOption is a [stint.Option] so that [By] takes it next to limits. [stint.New] reports it as a
// mistake.
type byOption struct {
	stint.Option // nil
	set          func(*keyed, *bykey.Config)
}

var errNoKey = errors.New("the call has no key to count it by; give By a key that every call has")

// keyed decides by limits alone.
type keyed struct {
	*bykey.Limits
	key    func(context.Context) string        // nil: the client's address
	limits func(context.Context) []stint.Limit // nil: those that By was given
	cost   func(context.Context) int64         // nil: 1
	ip     *clientip.Resolver
}

// Decide charges the key of a call.
func (k *keyed) Decide(ctx context.Context, in *policy.Input, v *policy.Verdict) error {
	key := ""
	if k.key != nil {
		key = k.key(ctx)
	} else if client := k.ip.Client(in.Peer, http.Header(nil)); client.IsValid() {
		key = string(k.ip.AppendSubject([]byte("ip:"), client))
	}
	err := errNoKey
	if key != "" {
		ask := [1]bykey.Ask{{Key: key, Cost: 1}}
		if k.limits != nil {
			ask[0].Limits = k.limits(ctx)
		}
		if k.cost != nil {
			ask[0].Cost = k.cost(ctx)
		}
		err = k.Limits.Decide(ctx, ask[:], v)
	}
	k.Failed(ctx, key, err)
	return err
}

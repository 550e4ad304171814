package grpclimit

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/bykey"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/policy"
)

// By returns interceptors that limit calls per key, without a configuration:
//
//	unary, stream := grpclimit.By(userOf, stint.PerMinute(100))
//	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
//
// Each call costs one unit of every limit; a stream costs one when it is opened. The key says whose
// calls are counted together, from the context that the interceptors before these have made. A nil
// key counts the calls of each client's address together, as httplimit.ByIP does: By takes no
// proxies to trust, so there is nothing to choose. A peer without an address, as on a Unix socket,
// has no key: pass a function there. A call whose key is "" ends with Internal: no one shares a
// count by accident. Under a concurrency limit, see [stint.AtOnce], a call keeps
// its place until the handler returns. Health checks and reflection are calls like any other: to
// leave some out, call the interceptors from one of your own.
//
// The options are one or more limits, other options of package stint such as [stint.WithBans], and
// [WithStore]; without it the calls are counted in the memory of this process, and every call of By
// counts by itself, in 64 MiB at most. Calls that cannot be decided are logged to slog.Default(),
// at most five per second.
//
// A mistake in the arguments is a mistake in the program: By panics, and lists every mistake.
func By(key func(context.Context) string, options ...stint.Option) (
	grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	own, others := bykey.Split[withStore](options)
	c := bykey.Config{Logger: slog.Default(), Options: others}
	for _, o := range own {
		c.Store, c.Stored = o.store, true
	}
	limits, err := bykey.New(c)
	if err != nil {
		panic("grpclimit: By: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	resolver, err := clientip.New(clientip.Config{})
	if err != nil {
		panic("grpclimit: By: " + err.Error())
	}
	s := &server{guard: &keyed{limits, key, resolver}, random: rand.Float64}
	return s.unary(), s.stream()
}

// WithStore says where [By] counts, such as in a store that package stores has opened. In one
// store, calls with equal keys and equal limits are counted together, in all processes, and
// together with requests of httplimit.By. To count them separately, give the limits names
// ([stint.Limit.WithName]). When you change the limits, counting starts over.
func WithStore(store stint.Store) stint.Option { return withStore{store: store} }

// withStore is a [stint.Option] so that [By] takes it next to limits. [stint.New] reports it as a
// mistake.
type withStore struct {
	stint.Option // nil
	store        stint.Store
}

var errNoKey = errors.New("the call has no key to count it by; give By a key that every call has")

// keyed decides by limits alone.
type keyed struct {
	*bykey.Limits
	key func(context.Context) string // nil: the client's address
	ip  *clientip.Resolver
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
		err = k.Limits.Decide(ctx, key, false, v)
	}
	k.Failed(ctx, key, err)
	return err
}

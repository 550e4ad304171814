package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/grpclimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// The examples share these: a quiet guard, and a health service to call.

func exampleGuard(text string) (guard *policy.Guard, stop func()) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		panic(err)
	}
	conf, err := config.Parse("stint.yaml", []byte(text))
	if err != nil {
		panic(err)
	}
	guard, err = policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	return guard, func() { store.Close() }
}

func exampleService(server *grpc.Server, options ...grpc.DialOption) (client healthpb.HealthClient, stop func()) {
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(),
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		panic(err)
	}
	return healthpb.NewHealthClient(conn), func() {
		_ = conn.Close()
		server.Stop()
	}
}

func ExampleUnaryServerInterceptor() {
	guard, stop := exampleGuard(`
tiers:
  - {name: anonymous, identity: ip, limits: 100/1m}
policies:
  - {name: health, match: {path: /grpc.health.v1.Health/*}, limits: 2/1h}
headers: {retry_after_jitter: 0%}
`)
	defer stop()
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(guard)),
		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(guard)),
	)
	client, stop := exampleService(server)
	defer stop()

	for range 3 {
		var trailer metadata.MD
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
		fmt.Println(status.Code(err), "pushback:", len(trailer.Get("grpc-retry-pushback-ms")) > 0)
	}
	// Output:
	// OK pushback: false
	// OK pushback: false
	// ResourceExhausted pushback: true
}

func ExampleUnaryClientInterceptor() {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	apis, err := outbound.New(store, []outbound.API{{
		Name:    "health",
		Limits:  []stint.Limit{stint.PerHour(2)},
		MaxWait: time.Second, // by default only the context bounds the wait
	}}, outbound.Config{})
	if err != nil {
		panic(err)
	}
	defer apis.Close()
	api, err := apis.API("health")
	if err != nil {
		panic(err)
	}
	client, stop := exampleService(grpc.NewServer(),
		grpc.WithChainUnaryInterceptor(grpclimit.UnaryClientInterceptor(api)),
		grpc.WithChainStreamInterceptor(grpclimit.StreamClientInterceptor(api)),
	)
	defer stop()

	for range 3 {
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		var denied *stint.DeniedError
		fmt.Println(status.Code(err), "not even sent:", errors.As(err, &denied))
	}
	// Output:
	// OK not even sent: false
	// OK not even sent: false
	// ResourceExhausted not even sent: true
}

// userKey is where authenticate leaves who is calling.
type userKey struct{}

func authenticate(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(context.WithValue(ctx, userKey{}, "42"), req) // as the caller's token says
}

// Wrong: the interceptor that authenticates callers comes after the one that limits them. When a
// call is judged nobody knows yet who is calling, and everybody is held to the limits of the
// anonymous.
func ExampleWithClaims_wrong() {
	guard, stop := exampleGuard(`
tiers:
  - {name: members, identity: user, limits: 100/1m}
  - {name: anonymous, identity: ip, limits: 1/1h}
`)
	defer stop()
	limit := grpclimit.UnaryServerInterceptor(
		guard, grpclimit.WithClaims(func(ctx context.Context, name string) string {
			user, _ := ctx.Value(userKey{}).(string)
			return map[string]string{"user": user}[name]
		}))
	for _, chain := range [][]grpc.UnaryServerInterceptor{
		{limit, authenticate}, // wrong
		{authenticate, limit}, // right
	} {
		client, stop := exampleService(grpc.NewServer(grpc.ChainUnaryInterceptor(chain...)))
		_, first := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		_, second := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(first), status.Code(second))
		stop()
	}
	// Output:
	// OK ResourceExhausted
	// OK OK
}

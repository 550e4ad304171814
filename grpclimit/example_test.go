package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/grpclimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// Two calls a minute from each address, unary calls and streams together.
func ExampleByIP() {
	unary, stream := grpclimit.ByIP(stint.PerMinute(2))
	call(3, grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream)))
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// Rules from a configuration: two calls a minute from each address.
func ExampleUnaryServerInterceptor() {
	guard, stop := exampleGuard("tiers: [{name: anyone, identity: ip, limits: 2/1m}]")
	defer stop()
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(guard)))
	call(3, server)
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// A client that makes two calls an hour, together with all processes that share the store.
func ExampleUnaryClientInterceptor() {
	store, _ := memorystore.New(memorystore.Config{}) // or one in Redis: see package stores
	defer store.Close()
	health := outbound.API{Name: "health", Limits: []stint.Limit{stint.PerHour(2)}, MaxWait: time.Second}
	apis, err := outbound.New(store, []outbound.API{health}, outbound.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer apis.Close()
	api, _ := apis.API("health")
	call(3, grpc.NewServer(), grpc.WithChainUnaryInterceptor(grpclimit.UnaryClientInterceptor(api)))
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// A stream counts once, when it is opened.
func ExampleStreamServerInterceptor() {
	guard, stop := exampleGuard("tiers: [{name: anyone, identity: ip, limits: 1/1m}]")
	defer stop()
	conn, stop := serve(grpc.NewServer(grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(guard))))
	defer stop()
	for range 2 {
		stream, err := healthpb.NewHealthClient(conn).Watch(context.Background(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}

// A client's stream waits for its turn when it is opened.
func ExampleStreamClientInterceptor() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	apis, _ := outbound.New(store, []outbound.API{
		{Name: "health", Limits: []stint.Limit{stint.PerMinute(1)}, FailFast: true},
	}, outbound.Config{Logger: quiet})
	defer apis.Close()
	api, _ := apis.API("health")
	conn, stop := serve(grpc.NewServer(), grpc.WithChainStreamInterceptor(grpclimit.StreamClientInterceptor(api)))
	defer stop()
	for range 2 {
		_, err := healthpb.NewHealthClient(conn).Watch(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}

// Each message of a stream counts: here the third ends it.
func ExampleMessageServerInterceptor() {
	guard, stop := exampleGuard("tiers: [{name: anyone, identity: ip, limits: 2/1m}]")
	defer stop()
	limit := grpclimit.MessageServerInterceptor(guard)
	conn, stop := serve(grpc.NewServer(grpc.ChainStreamInterceptor(limit)))
	defer stop()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	list := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	for range 3 {
		_ = stream.Send(list)
		_, err := stream.Recv()
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// The trailer shows callers how many calls they have left.
func ExampleWithTrailer() {
	guard, stop := exampleGuard("tiers: [{name: anyone, identity: ip, limits: 100/1m}]")
	defer stop()
	limit := grpclimit.UnaryServerInterceptor(guard, grpclimit.WithTrailer())
	conn, stop := serve(grpc.NewServer(grpc.ChainUnaryInterceptor(limit)))
	defer stop()
	var trailer metadata.MD
	client := healthpb.NewHealthClient(conn)
	_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
	fmt.Println(trailer["ratelimit-limit"], trailer["ratelimit-remaining"], err)
	// Output:
	// [100] [99] <nil>
}

// userKey is the context key of the caller that authenticate found.
type userKey struct{}

func authenticate(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(context.WithValue(ctx, userKey{}, "42"), req) // from the caller's token
}

// Wrong: the interceptor that authenticates callers comes after the one that limits them. When a
// call is decided, the caller is still unknown: all callers get the limits of anonymous ones.
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
		call(2, grpc.NewServer(grpc.ChainUnaryInterceptor(chain...)))
	}
	// Output:
	// OK
	// ResourceExhausted
	// OK
	// OK
}

// call serves a health service, calls it a few times and prints the codes.
func call(times int, server *grpc.Server, options ...grpc.DialOption) {
	conn, stop := serve(server, options...)
	defer stop()
	for range times {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
}

var quiet = slog.New(slog.DiscardHandler)

// exampleGuard returns a guard over a store in memory.
func exampleGuard(text string) (guard *policy.Guard, stop func()) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	conf, err := config.Parse("stint.yaml", []byte(text))
	if err != nil {
		log.Fatal(err)
	}
	guard, err = policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	return guard, func() { _ = store.Close() }
}

// serve gives the server a health service and reflection, and connects to it.
func serve(server *grpc.Server, options ...grpc.DialOption) (conn *grpc.ClientConn, stop func()) {
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	conn, err = grpc.NewClient(listener.Addr().String(),
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	return conn, func() {
		_ = conn.Close()
		server.Stop()
	}
}

// Command grpc allows each address two calls per minute to a gRPC server. It starts the server,
// calls it three times, and prints:
//
//	call 1: <nil>
//	call 2: <nil>
//	call 3: rpc error: code = ResourceExhausted desc = rate limited by policy default, retry in 1m0s
package main

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/grpclimit"
)

func main() {
	// ByIP limits each client address. For several servers, add grpclimit.WithStore, with a store
	// as in ../redis.
	unary, stream := grpclimit.ByIP(stint.PerMinute(2))
	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	healthpb.RegisterHealthServer(server, health.NewServer()) // stands for your own service
	listener, err := net.Listen("tcp", "localhost:0")
	check(err)
	go func() { check(server.Serve(listener)) }()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	client := healthpb.NewHealthClient(conn)
	for i := range 3 {
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Printf("call %d: %v\n", i+1, err)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

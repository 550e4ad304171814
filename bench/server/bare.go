package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// bareCommand makes the program run a server that makes no decisions, instead of measuring. A
// server that decides cannot be faster.
const bareCommand = "bare"

func runBare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(bareCommand, flag.ContinueOnError)
	overGRPC := flags.String("grpc", "", "`address` for Envoy's rate limit service")
	overHTTP := flags.String("http", "", "`address` for HTTP")
	allowed := flags.String("allowed", "", "`file` with the response to every request: a message for gRPC, a body for HTTP")
	streams := flags.Bool("stream", false, "answer every request with a stream, as a language model does")
	pace := flags.Duration("pace", 0, "`time` between the events of a stream")
	denied := flags.String("denied", "", "`file` with the response to requests for the key \"denied\"")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *streams:
		return serveHTTP(ctx, *overHTTP, streamHandler(*pace))
	case *overHTTP != "":
		return serveHandler(ctx, *overHTTP, *allowed)
	}
	e := &echo{}
	if err := errors.Join(readMessage(*allowed, &e.allowed), readMessage(*denied, &e.denied)); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *overGRPC)
	if err != nil {
		return err
	}
	srv := grpc.NewServer()
	rls.RegisterRateLimitServiceServer(srv, e)
	defer context.AfterFunc(ctx, srv.Stop)()
	return srv.Serve(listener)
}

// echo is a rate limit service that sends recorded responses of stint.
type echo struct {
	rls.UnimplementedRateLimitServiceServer
	allowed, denied rls.RateLimitResponse
}

// ShouldRateLimit implements [rls.RateLimitServiceServer].
func (e *echo) ShouldRateLimit(_ context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	if r.GetDescriptors()[0].GetEntries()[0].GetKey() == deniedKey {
		return &e.denied, nil
	}
	return &e.allowed, nil
}

func readMessage(path string, m proto.Message) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, m)
}

// serveHandler responds to every request with the text of a file, after reading the request's body.
func serveHandler(ctx context.Context, address, path string) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return serveHTTP(ctx, address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
}

func serveHTTP(ctx context.Context, address string, handler http.Handler) error {
	srv := &http.Server{Addr: address, Handler: handler}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

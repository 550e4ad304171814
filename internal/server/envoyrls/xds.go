package envoyrls

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/tlsfiles"
)

// XDSConfig configures an [XDS]: the server that sends the rules, and what to do with them.
type XDSConfig struct {
	// Server is the host:port of an aggregated discovery service, such as Envoy Gateway's.
	Server string
	// NodeID and NodeMetadata identify this client to the server, which sends different rules to
	// different nodes.
	NodeID       string
	NodeMetadata map[string]string
	// Headers is the metadata of the gRPC call.
	Headers map[string]string
	// TLS encrypts the connection. Files are read again for every connection. ServerName is the
	// name that the server's certificate must have. By default, it is the host in Server.
	TLS        bool
	Files      tlsfiles.Files
	ServerName string
	// MaxMessage is the maximum size of a message from the server, in bytes. The default is 16 MiB.
	MaxMessage int
	// MergeDomains has the same meaning as in [Read].
	MergeDomains bool

	// Use puts a configuration in force.
	Use func(*Config) reload.InForce
	// Reloaded is called after every change to the rules and after every refused change. The first
	// rules count as a change.
	Reloaded func(reload.Result)
	Logger   *slog.Logger
}

// XDS receives rules from a server, as a client of the state-of-the-world xDS protocol. If rules
// have mistakes, it refuses them and reports the mistakes to the server. The last good rules stay
// in force, even without a connection. It is safe for concurrent use.
type XDS struct {
	c        XDSConfig
	received atomic.Pointer[[]reload.File]
	rules    *reload.Watcher
	begun    bool // whether any rules have been put in force
	dial     func(ctx context.Context, address string) (net.Conn, error)

	mu     sync.Mutex
	broken error // why there is no connection; nil if connected
	losses logsample.Sampler
}

// NewXDS returns a client. It does not connect until [XDS.Run] is called.
func NewXDS(c XDSConfig) *XDS {
	c.MaxMessage = cmp.Or(c.MaxMessage, maxSize)
	x := &XDS{c: c, dial: dial, broken: errors.New("not connected yet")}
	x.rules = reload.New(reload.Config{
		Name:  "server: the configuration of Envoy's service",
		Paths: []string{x.Path()},
		Whole: true,
		Open: func() ([]reload.File, error) {
			if files := x.received.Load(); files != nil {
				return *files, nil
			}
			return nil, fmt.Errorf("%s has sent no rate limit configuration yet", x.Path())
		},
		Read: func(files []reload.File) (func() reload.InForce, error) {
			rules, err := readResources(files, c.MergeDomains)
			return func() reload.InForce { return c.Use(rules) }, err
		},
		Logger:   c.Logger,
		Reloaded: c.Reloaded,
	})
	return x
}

// Path returns a name for the server, for logs.
func (x *XDS) Path() string { return "xds://" + x.c.Server }

// Reload reads the last received rules again.
func (x *XDS) Reload() reload.Result { return x.rules.Reload() }

// Last returns the result of reading the rules that were received last. If they have no mistakes
// but there is no connection, the error says why.
func (x *XDS) Last() reload.Result {
	r := x.rules.Last()
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.Err == nil {
		r.Err = x.broken
	}
	return r
}

const (
	// minRetry and maxRetry bound the wait before the next connection. One attempt per second costs
	// the server little. If rules change during an outage, they take effect within a second after
	// the outage.
	minRetry = 100 * time.Millisecond
	maxRetry = 800 * time.Millisecond
	// connectTime is the timeout for connecting, including TLS.
	connectTime = 5 * time.Second
	// lasting is how long a connection must last for the next wait to be minRetry again. Otherwise,
	// a server that closes each connection right after it has sent the rules would get a new
	// connection every minRetry.
	lasting = time.Second
	// refusedTime is the wait before rules are refused for the same mistakes again. Some servers
	// send rules again as soon as they are refused.
	refusedTime = 500 * time.Millisecond
)

// Run connects, and reconnects whenever the connection is lost, until the context ends. It returns
// the context's error.
func (x *XDS) Run(ctx context.Context) error {
	wait := minRetry
	for ctx.Err() == nil {
		began := time.Now()
		err := x.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		x.lost(err)
		if time.Since(began) > lasting {
			wait = minRetry
		}
		pause(ctx, wait/2+rand.N(wait/2+1))
		wait = min(2*wait, maxRetry)
	}
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// lost records why there is no connection, and logs it at most once per minute.
func (x *XDS) lost(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.broken = fmt.Errorf("no connection to %s, the last configuration stays in force: %w", x.Path(), err)
	if unlogged, ok := x.losses.Allow(1, time.Minute); ok {
		x.c.Logger.Error("server: no connection to the server of Envoy's rate limit configuration; the last configuration stays in force",
			"server", x.c.Server, "cause", err, "unlogged", unlogged)
	}
}

func (x *XDS) connected() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken != nil {
		x.c.Logger.Info("server: connected to the server of Envoy's rate limit configuration", "server", x.c.Server)
	}
	x.broken = nil
}

// follow opens a connection, and answers the server's messages until the connection is lost.
func (x *XDS) follow(ctx context.Context) error {
	options, err := x.dialOptions()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+x.c.Server, options...)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(x.c.Headers))
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	// A server sends rules only if their version differs from the version in the request. So the
	// version in the first request of a connection must not be one that the server may use. It
	// cannot be the last acknowledged version, because a restarted server may use it for other
	// rules. It cannot be "", because go-control-plane uses it when there are no rules.
	request := &discoveryv3.DiscoveryRequest{Node: x.node(), TypeUrl: resourceType, VersionInfo: "none"}
	for {
		// If Send returns io.EOF, Recv returns the error that ended the stream.
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if is := response.GetTypeUrl(); is != resourceType {
			return fmt.Errorf("the server sent resources of the type %q; want %s", is, resourceType)
		}
		x.connected()
		x.answer(ctx, response, request)
	}
}

// answer puts the received rules in force or refuses them, and updates the next request to the
// server accordingly.
func (x *XDS) answer(ctx context.Context, response *discoveryv3.DiscoveryResponse, next *discoveryv3.DiscoveryRequest) {
	refused := next.GetErrorDetail().GetMessage()
	next.ResponseNonce, next.ErrorDetail = response.GetNonce(), nil
	files := filesOf(response.GetResources())
	x.received.Store(&files)
	r := x.rules.Reload()
	if r.Err == nil {
		next.VersionInfo = response.GetVersionInfo()
		if !x.begun { // the watcher does not report the first rules as a change
			x.begun, r.Changed = true, true
			x.c.Logger.Info("server: the first configuration of Envoy's service is in force", "path", x.Path(),
				"resources", len(files))
			x.c.Reloaded(r)
		}
		return
	}
	reasons := mistakes(r.Err)
	next.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: reasons}
	if reasons == refused {
		pause(ctx, refusedTime)
	} else if !x.begun {
		x.c.Logger.Error("server: refused the configuration of Envoy's service, and there was none before",
			"path", x.Path(), "mistakes", strings.Split(r.Err.Error(), "\n"))
		x.c.Reloaded(r)
	}
}

// maxReasons is the maximum size, in bytes, of the mistakes in a refusal.
const maxReasons = 64 << 10

// mistakes returns the mistakes in err, one per line. It leaves out mistakes beyond maxReasons
// bytes, and appends their number.
func mistakes(err error) string {
	wrong, ok := errors.AsType[*config.Error](err)
	if !ok {
		return err.Error()
	}
	var b strings.Builder
	for i := range wrong.Mistakes {
		line := (&config.Error{Mistakes: wrong.Mistakes[i : i+1]}).Error()
		if b.Len()+len(line) > maxReasons {
			fmt.Fprintf(&b, "and %d more mistakes\n", len(wrong.Mistakes)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (x *XDS) node() *corev3.Node {
	fields := make(map[string]*structpb.Value, len(x.c.NodeMetadata))
	for key, value := range x.c.NodeMetadata {
		fields[key] = structpb.NewStringValue(value)
	}
	return &corev3.Node{Id: x.c.NodeID, Metadata: &structpb.Struct{Fields: fields}, UserAgentName: "stint"}
}

func (x *XDS) dialOptions() ([]grpc.DialOption, error) {
	secure := insecure.NewCredentials()
	if x.c.TLS {
		config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: x.c.ServerName}
		if err := x.c.Files.Apply(config); err != nil {
			return nil, err
		}
		secure = credentials.NewTLS(config)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithContextDialer(x.dial),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTime}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(x.c.MaxMessage)),
		grpc.WithDisableServiceConfig(),
		// Servers refuse pings that are less than five minutes apart unless configured otherwise.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 20 * time.Second}),
	}, nil
}

// dial connects over TCP. TCP keep-alive probes detect a dead host sooner than gRPC pings do. The
// pings detect a server that hangs, or that is dead behind a proxy.
func dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}}
	return dialer.DialContext(ctx, "tcp", address)
}

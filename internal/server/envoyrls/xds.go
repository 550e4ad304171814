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

// XDSConfig says which server sends the rules, and what becomes of them.
type XDSConfig struct {
	// Server is host:port of an aggregated discovery service, such as Envoy Gateway's.
	Server string
	// NodeID and NodeMetadata tell the server who asks. It sends each node its own rules.
	NodeID       string
	NodeMetadata map[string]string
	// Headers are added to the call.
	Headers map[string]string
	// TLS has the connection encrypted. Every connection reads the files again. ServerName is the
	// name that the server's certificate must have, unless it is that of Server.
	TLS        bool
	Files      tlsfiles.Files
	ServerName string
	// MaxMessage is how large an answer of the server may be in bytes, 16 MiB unless set.
	MaxMessage int
	// MergeDomains is as for [Read].
	MergeDomains bool

	// Use puts rules in force.
	Use func(*Config) reload.InForce
	// Reloaded is called after every change and every refused one, the first rules included.
	Reloaded func(reload.Result)
	Logger   *slog.Logger
}

// XDS follows the rules that a server sends: a client of the state-of-the-world protocol. Rules
// with a mistake are refused, all mistakes are reported to the server, and the last good ones stay
// in force; so they do while there is no connection. It is safe for concurrent use.
type XDS struct {
	c        XDSConfig
	received atomic.Pointer[[]resource]
	rules    *reload.Watcher
	begun    bool // rules have been in force
	dial     func(ctx context.Context, address string) (net.Conn, error)

	mu     sync.Mutex
	broken error // why there is no connection; nil if there is one
	losses logsample.Sampler
}

// NewXDS returns a client that has not yet connected: [XDS.Run] does.
func NewXDS(c XDSConfig) *XDS {
	c.MaxMessage = cmp.Or(c.MaxMessage, maxSize)
	x := &XDS{c: c, dial: dial, broken: errors.New("not connected yet")}
	var opened []resource // what Open has seen is what Read reads
	x.rules = reload.New(reload.Config{
		Name:  "server: the configuration of Envoy's service",
		Paths: []string{x.Path()},
		Whole: true,
		Open: func() ([]reload.File, error) {
			list := x.received.Load()
			if list == nil {
				return nil, fmt.Errorf("%s has sent no rate limit configuration yet", x.Path())
			}
			opened = *list
			return filesOf(opened), nil
		},
		Read: func([]reload.File) (func() reload.InForce, error) {
			rules, err := readResources(opened, c.MergeDomains)
			return func() reload.InForce { return c.Use(rules) }, err
		},
		Logger:   c.Logger,
		Reloaded: c.Reloaded,
	})
	return x
}

// Path names the server in logs.
func (x *XDS) Path() string { return "xds://" + x.c.Server }

// Reload looks again at what was received last.
func (x *XDS) Reload() reload.Result { return x.rules.Reload() }

// Last returns what came of the last rules. Its error is that of the connection if there is none.
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
	// minRetry and maxRetry are how long to wait before the next connection. An attempt a second is
	// cheap for the server, and rules that changed while it was away are in force a second after.
	minRetry = 100 * time.Millisecond
	maxRetry = 800 * time.Millisecond
	// connectTime is how long a connection may take, TLS included.
	connectTime = 5 * time.Second
	// lasting is how long a connection has to last so that the next one is made soon. There are
	// servers that send rules and then close.
	lasting = time.Second
	// refusedTime is how long to wait before the same rules are refused again: there are servers
	// that send them again at once.
	refusedTime = 500 * time.Millisecond
)

// Run connects, and connects again whenever the connection is lost, until the context ends. It
// returns the context's error.
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

// lost notes that there is no connection. The log says so once a minute.
func (x *XDS) lost(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.broken = fmt.Errorf("no connection to %s, the last configuration stays in force: %w", x.Path(), err)
	if unlogged, ok := x.losses.Allow(1, time.Minute); ok {
		x.c.Logger.Error("server: no connection to the server of Envoy's rate limit configuration; what it sent last stays in force",
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

// follow makes one connection and answers what arrives, until it is lost.
func (x *XDS) follow(ctx context.Context) error {
	options, err := x.dialOptions()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+x.c.Server, options...)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is lost with it
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(x.c.Headers))
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	// The server sends what it has to a client that has another version. One that was acknowledged
	// may be used again for other rules if the server has been restarted, and "" is the version of
	// go-control-plane for no rules at all.
	request := &discoveryv3.DiscoveryRequest{Node: x.node(), TypeUrl: resourceType, VersionInfo: "none"}
	for {
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) { // Recv says why it ended
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

// answer puts what has arrived in force, or refuses it, and says so in the next request.
func (x *XDS) answer(ctx context.Context, response *discoveryv3.DiscoveryResponse, next *discoveryv3.DiscoveryRequest) {
	refused := next.GetErrorDetail().GetMessage()
	next.ResponseNonce, next.ErrorDetail = response.GetNonce(), nil
	list := openResources(response.GetResources())
	x.received.Store(&list)
	r := x.rules.Reload()
	if r.Err == nil {
		next.VersionInfo = response.GetVersionInfo()
		if !x.begun { // the watcher does not count the first ones as a change
			x.begun, r.Changed = true, true
			x.c.Logger.Info("server: the first configuration of Envoy's service is in force", "path", x.Path(),
				"resources", len(list))
			x.c.Reloaded(r)
		}
		return
	}
	reasons := mistakes(r.Err)
	next.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: reasons}
	if reasons == refused {
		pause(ctx, refusedTime)
	} else if !x.begun {
		x.c.Logger.Error("server: the configuration of Envoy's service is refused, and there was none before",
			"path", x.Path(), "mistakes", strings.Split(r.Err.Error(), "\n"))
		x.c.Reloaded(r)
	}
}

// maxReasons is how many bytes the reasons of a refusal may have.
const maxReasons = 64 << 10

// mistakes returns every mistake, one to a line.
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
		// Servers refuse pings that are less than five minutes apart unless they are set up for it.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 20 * time.Second}),
	}, nil
}

// dial connects over TCP. Its probes find a host that is gone sooner than pings of gRPC, which find
// a server that hangs, or is gone behind a proxy.
func dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}}
	return dialer.DialContext(ctx, "tcp", address)
}

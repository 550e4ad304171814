package envoyrls_test

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/testkit"
)

// The codes that answers have.
const (
	ok   = rlsv3.RateLimitResponse_OK
	over = rlsv3.RateLimitResponse_OVER_LIMIT
)

// parse reads a configuration of one or more files that has to be good.
func parse(t testing.TB, texts ...string) *envoyrls.Config {
	t.Helper()
	var files []reload.File
	for i, text := range texts {
		files = append(files, reload.File{Name: fmt.Sprintf("%d.yaml", i), Text: []byte(text)})
	}
	return testkit.Must(envoyrls.Read(files, false))(t)
}

func newService(t testing.TB, store stint.Store, config *envoyrls.Config, o envoyrls.Options) *envoyrls.Service {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Public, o.NegativeHits = true, true // what others may do has tests of its own
	s := envoyrls.NewService(store, config, o)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// serve runs a service and returns a client of it.
func serve(t testing.TB, service *envoyrls.Service) rlsv3.RateLimitServiceClient {
	t.Helper()
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer(envoyrls.Codec())
	service.Register(server)
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(listener) })
	conn := testkit.Must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		work.Wait()
	})
	return rlsv3.NewRateLimitServiceClient(conn)
}

// ask is a request of a domain and its descriptors, each such as "key=value,key=value".
func ask(domain string, descriptors ...string) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{Domain: domain}
	for _, text := range descriptors {
		d := &commonv3.RateLimitDescriptor{}
		for entry := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// entries is a request with a descriptor of these keys and values.
func entries(domain string, pairs ...string) *rlsv3.RateLimitRequest {
	d := &commonv3.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return &rlsv3.RateLimitRequest{Domain: domain, Descriptors: []*commonv3.RateLimitDescriptor{d}}
}

// hits sets the hits of the request.
func hits(n uint32, r *rlsv3.RateLimitRequest) *rlsv3.RateLimitRequest {
	r.HitsAddend = n
	return r
}

// own sets the hits of the ith descriptor. Negative ones are a refund.
func own(i int, n int64, r *rlsv3.RateLimitRequest) *rlsv3.RateLimitRequest {
	d := r.Descriptors[i]
	d.IsNegativeHits = n < 0
	d.HitsAddend = wrapperspb.UInt64(uint64(max(n, -n)))
	return r
}

// bring gives the ith descriptor a limit of its own.
func bring(i int, n uint32, unit typev3.RateLimitUnit, r *rlsv3.RateLimitRequest) *rlsv3.RateLimitRequest {
	r.Descriptors[i].Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return r
}

// show is an answer as the tables write it: the overall code, then each status as code, limit and
// what is left of it:
//
//	OVER: OVER 0 of 5/MINUTE as login; OK
func show(r *rlsv3.RateLimitResponse) string {
	code := func(c rlsv3.RateLimitResponse_Code) string {
		if c == over {
			return "OVER"
		}
		return c.String()
	}
	var b strings.Builder
	b.WriteString(code(r.GetOverallCode()) + ":")
	for i, s := range r.GetStatuses() {
		if i > 0 {
			b.WriteString(";")
		}
		b.WriteString(" " + code(s.GetCode()))
		l := s.GetCurrentLimit()
		if l == nil {
			if n := s.GetLimitRemaining(); n != 0 {
				fmt.Fprintf(&b, " %d", n)
			}
			continue
		}
		fmt.Fprintf(&b, " %d of %d/%s", s.GetLimitRemaining(), l.GetRequestsPerUnit(), l.GetUnit())
		if n := l.GetUnitMultiplier().GetValue(); n > 1 {
			fmt.Fprintf(&b, "×%d", n)
		}
		if l.GetName() != "" {
			b.WriteString(" as " + l.GetName())
		}
		if s.GetDurationUntilReset() == nil {
			b.WriteString(" without a reset")
		}
	}
	return b.String()
}

// decide returns the answer of a service.
func decide(t testing.TB, s *envoyrls.Service, r *rlsv3.RateLimitRequest) *rlsv3.RateLimitResponse {
	t.Helper()
	return testkit.Must(s.ShouldRateLimit(t.Context(), r))(t)
}

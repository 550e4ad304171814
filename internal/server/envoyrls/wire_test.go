package envoyrls_test

import (
	"bytes"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// FuzzDecode decodes requests as package proto does, one after the other in the same memory, and
// fails for the same messages.
func FuzzDecode(f *testing.F) {
	for _, r := range []*rlsv3.RateLimitRequest{
		{}, ask("d", "k=1"), hits(1<<31, ask("d", "k=1,l=2", "m=3")), ask("d", "=", "a="), empty(2, 1),
		ask("d", "a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=8"), ask("d", "a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=8,i=9"),
		ask("d", "a=1", "a=2", "a=3"), ask("été", "a="+strings.Repeat("long ", 1000)),
		own(0, 3, ask("d", "k=1")), own(0, -3, ask("d", "k=1")), bring(0, 5, 2, ask("d", "k=1")), empty(100_000, 0),
	} {
		message, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
		f.Add(append(message, message...))        // the last of a field counts
		f.Add(append(message, "\x22\x01x"...))    // with a field of some later version
		f.Add(append(message, "\x0a\x01\xff"...)) // with a text that is not UTF-8
		f.Add(message[:len(message)/2])
	}
	decode := envoyrls.Decoder()
	plain, err := proto.Marshal(hits(2, ask("d", "k=1,l=2", "m=3")))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		if _, err := decode(plain); err != nil {
			t.Fatal(err)
		}
		got, err := decode(message)
		if status.Code(err) == codes.InvalidArgument { // too many parts
			return
		}
		var want rlsv3.RateLimitRequest
		if wrong := proto.Unmarshal(message, &want); (err != nil) != (wrong != nil) {
			t.Fatalf("got %v, want %v", err, wrong)
		} else if err == nil && !proto.Equal(got, &want) {
			t.Errorf("got %v\nwant %v", got, &want)
		}
	})
}

// TestEncode encodes answers as package proto does.
func TestEncode(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{"who": "a"})
	if err != nil {
		t.Fatal(err)
	}
	limit := &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: 5, Unit: rlsv3.RateLimitResponse_RateLimit_HOUR}
	named := &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: 1 << 31, Unit: rlsv3.RateLimitResponse_RateLimit_DAY,
		Name: strings.Repeat("name", 5000), UnitMultiplier: wrapperspb.UInt32(300)}
	zero := &rlsv3.RateLimitResponse_RateLimit{UnitMultiplier: wrapperspb.UInt32(0)}
	for _, r := range []*rlsv3.RateLimitResponse{
		{},
		{OverallCode: ok, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{
			{}, {Code: ok, CurrentLimit: limit, LimitRemaining: 4,
				DurationUntilReset: &durationpb.Duration{Seconds: 1 << 40}},
		}},
		{OverallCode: over, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{
			{Code: over, CurrentLimit: named, DurationUntilReset: &durationpb.Duration{}},
			{Code: over, CurrentLimit: zero},
		}},
		{OverallCode: ok, DynamicMetadata: metadata, ResponseHeadersToAdd: []*corev3.HeaderValue{
			{Key: "A", Value: "1"}, {Key: "B"}, {Key: "C", Value: strings.Repeat("c", 127)},
		}},
	} {
		got, err := envoyrls.AppendResponse(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		want, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%v:\ngot  %x\nwant %x", r, got, want)
		}
	}
}

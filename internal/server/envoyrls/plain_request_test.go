package envoyrls_test

import (
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

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

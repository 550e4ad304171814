package clientip_test

import (
	"fmt"
	"net/http"

	"github.com/stint-limiter/stint/internal/clientip"
)

func Example() {
	trusted, unix, err := clientip.ParsePrefixes([]string{"private", "loopback", "unix"})
	if err != nil {
		fmt.Println(err)
		return
	}
	resolver, err := clientip.New(clientip.Config{Trusted: trusted, TrustUnix: unix})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The client wrote the first address itself; the proxy added the second.
	h := http.Header{"X-Forwarded-For": {"198.51.100.66, 2001:db8:1:2::3"}}

	client := resolver.Client(clientip.ParsePeer("10.0.0.7:40123"), h)
	fmt.Println(client, "limited as", string(resolver.AppendSubject(nil, client)))

	// Without a proxy in between, the header is not trusted.
	client = resolver.Client(clientip.ParsePeer("192.0.2.1:40123"), h)
	fmt.Println(client, "limited as", string(resolver.AppendSubject(nil, client)))
	// Output:
	// 2001:db8:1:2::3 limited as 2001:db8:1:2::/64
	// 192.0.2.1 limited as 192.0.2.1
}

// A proxy list that was meant to be one machine.
func ExampleParsePrefixes_mistake() {
	_, _, err := clientip.ParsePrefixes([]string{"10.1.2.3/8"})
	fmt.Println(err)
	// Output:
	// entry 1 is 10.1.2.3/8, which has bits set beyond its length; want 10.0.0.0/8 for the network, or 10.1.2.3/32 for the address
}

package envoyrls

import (
	"context"
	"net"
)

// DialWith replaces TCP.
func (x *XDS) DialWith(dial func(ctx context.Context, address string) (net.Conn, error)) {
	x.dial = dial
}

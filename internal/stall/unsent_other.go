//go:build !linux

package stall

import "net"

// LimitUnsent does nothing on systems other than Linux.
func LimitUnsent(net.Conn) {}

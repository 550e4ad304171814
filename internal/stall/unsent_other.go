//go:build !linux

package stall

import "net"

// LimitUnsent does nothing on this system.
func LimitUnsent(net.Conn) {}

//go:build !linux

package stall

import "net"

// LimitUnsent does nothing here.
func LimitUnsent(net.Conn) {}

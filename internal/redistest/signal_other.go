//go:build !unix

package redistest

import "syscall"

// Stop and Continue have no counterpart on this system: sending them fails.
const (
	Stop     = syscall.Signal(19)
	Continue = syscall.Signal(18)
)

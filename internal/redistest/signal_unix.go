//go:build unix

package redistest

import "syscall"

// Stop and Continue are the signals that pause a process and resume it.
const (
	Stop     = syscall.SIGSTOP
	Continue = syscall.SIGCONT
)

//go:build unix

package redistest

import "syscall"

// Stop and Continue are the signals that pause and resume a process.
const (
	Stop     = syscall.SIGSTOP
	Continue = syscall.SIGCONT
)

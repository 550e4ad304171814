package redistest

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the system kill the child when this process dies, however it dies.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// asNobody has a command run as a user without rights. Only root can do it.
func asNobody(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

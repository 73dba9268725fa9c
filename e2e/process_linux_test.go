package e2e

import "syscall"

// withParent ends a process with the test, also when that is killed.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

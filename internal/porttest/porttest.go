// Package porttest chooses the ports of tests that start processes with a fixed address.
//
// It must never return an address twice in one process, and only tests may import it.
package porttest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The ports are below the kernel's ports for outgoing connections, which begin at 32768.
const first, count = 10_000, 20_000

var calls atomic.Uint32 //nolint:gochecknoglobals // all tests of a process choose from the same ports

// Free returns a new loopback address at each call, on which no process listens. No outgoing connection gets the port
// before the process of the test listens, or while that process restarts, and no other test process chooses the port: a
// UDP socket with the port's number reserves it until the end of the test. Each test process begins at another port.
func Free(t testing.TB) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", first+(uint32(os.Getpid())*7919+calls.Add(1))%count)
		reserved, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		require.NoError(t, err)
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			require.NoError(t, reserved.Close())
			continue
		}
		require.NoError(t, err)
		require.NoError(t, l.Close())
		t.Cleanup(func() { assert.NoError(t, reserved.Close()) })
		return address
	}
}

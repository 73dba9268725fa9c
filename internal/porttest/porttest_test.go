package porttest_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/internal/porttest"
)

// Each address stays reserved for its test, also while nobody listens.
func TestAnAddressIsReserved(t *testing.T) {
	t.Parallel()
	var address string
	t.Run("its test runs", func(t *testing.T) {
		address = porttest.Free(t)
		_, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", address)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	})
	l, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", address)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

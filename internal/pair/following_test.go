package pair

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// A session that ends before its first message must not confirm the heartbeats that have arrived: a standby without
// data has no tail.
func TestASessionThatEndsBeforeItsFirstMessageConfirmsNothing(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for range 100 { // select takes any of the channels that are ready
		conn, other := net.Pipe()
		standby := &Standby{cfg: StandbyConfig{Log: zap.NewNop(), Timing: Timing{}.withClock()}, role: &Role{Mode: ModeSeeding}}
		f := &following{standby: standby, link: newLink(conn, time.Minute), received: make(chan message, 8)}
		for range cap(f.received) {
			f.received <- message{msgBeat, make([]byte, 8)}
		}
		require.ErrorIs(t, f.handle(ended), context.Canceled)
		require.NoError(t, other.Close())
		require.NoError(t, conn.Close())
	}
}

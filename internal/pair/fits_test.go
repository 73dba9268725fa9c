package pair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/stream"
)

// hellos returns the hellos of a primary that is alone and of a standby, with secrets and a difference of their clocks.
func hellos(primary, standby string, ahead time.Duration) (own, peer Hello) {
	now := time.Now()
	own = Hello{Protocol: protocol, Disk: "one", Role: RolePrimary, Mode: ModeAlone}.proves(primary)
	peer = Hello{Protocol: protocol, Disk: "two", Role: RoleStandby, Mode: ModeSeeding, Clock: now.Add(ahead).UnixMilli(), arrived: now}.proves(standby)
	own.FrameFormat, peer.FrameFormat = stream.Format, stream.Format
	return own, peer
}

func TestTwoMachinesOfAPairHaveOneSecret(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		one, two string
		want     error
	}{{"", "", nil}, {"a", "a", nil}, {"a", "b", ErrSecret}, {"a", "", ErrSecret}, {"", "a", ErrSecret}} {
		own, peer := hellos(c.one, c.two, 0)
		assert.Equal(t, c.want, checkPeer(own, peer), "%q and %q", c.one, c.two)
		assert.Equal(t, c.want, checkPeer(peer, own), "%q and %q", c.two, c.one)
	}
	own, peer := hellos("a", "a", 0)
	assert.NotEqual(t, own.Secret, peer.Secret, "a machine without the secret cannot repeat the proof of the other machine")
}

// Clocks decide only whether two machines become a pair. A pair that exists must not stop because of a clock.
func TestWrongClocksRefuseANewPair(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{2 * time.Minute, -2 * time.Minute} {
		own, peer := hellos("", "", ahead)
		assert.ErrorIs(t, clockFits(own, peer), ErrClock)
		own.Mode = ModePaired
		assert.NoError(t, clockFits(own, peer))
	}
	own, peer := hellos("", "", 30*time.Second)
	assert.NoError(t, clockFits(own, peer))
}

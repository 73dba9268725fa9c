package daemon_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/pair"
)

// A stop ends without an error while the standby and the register are away, even if writes wait for the standby.
func TestAPrimaryStopsWithoutItsStandby(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	ann := tokens(t, one.dir)(t, "ann")
	called(t, one.at.HTTP, ann, "paired")
	one.register.SetAway(true)
	require.NoError(t, two.stop())
	code, err := rename(t, one.at.HTTP, ann, "unconfirmed")
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, code)
	require.NoError(t, one.stop())

	one.register.SetAway(false)
	one.start(false) // the stores were closed, so the process opens them again
	text := one.profile(ann)
	assert.Contains(t, text, "ann")
	require.NoError(t, one.stop())
}

// Each of two standbys learns the role of the other machine, so that its log and a start show that role.
func TestAStandbyAnswersWhatItIs(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	two.start(true)
	cfg := settings(t, one.dir, one.env...)
	keys := pair.Keys{Cert: cfg.PeerCert, Key: cfg.PeerKey, CA: cfg.PeerCA}
	dial := func(ctx context.Context) (net.Conn, error) { return keys.Dial(ctx, cfg.Peer) }
	hello, err := pair.Ask(t.Context(), dial, pair.AskingHello(nil, 0, "test"))
	require.NoError(t, err)
	assert.Equal(t, pair.RoleStandby, hello.Role)
	assert.Equal(t, pair.ModeSeeding, hello.Mode)
}

// A token of one machine is valid on the other machine.
func TestAPairHasOneSecret(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	two.env = append(two.env, "FANFARE_DEV_SECRET="+strings.Repeat("s", 32))
	one.start(false)
	two.start(true)
	err := <-two.ended
	two.ended = nil
	require.ErrorIs(t, err, pair.ErrSecret)
	called(t, one.at.HTTP, tokens(t, one.dir)(t, "ann"), "the primary serves")
}

// A switch waits only a short time for a slow request.
func TestASwitchDoesNotWaitForASlowRequest(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	two.untilPaired()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", one.at.HTTP)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "PUT /v1/me HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", one.at.HTTP, tokens(t, one.dir)(t, "ann"))
	require.NoError(t, err)
	soon, cancel := context.WithTimeout(t.Context(), 15*time.Second) // the server waits for 20 s for the rest of the request
	defer cancel()
	_, err = admin.Promote().Do(soon, two.client(), admin.Promotion{})
	require.NoError(t, err)
	two.await(false)
	one.await(true)
}

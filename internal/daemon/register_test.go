package daemon_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/daemon"
	"fanfare/internal/objects/objectstest"
	"fanfare/internal/pair"
)

// newQuick returns two machines that do not run yet, and whose standby becomes the primary by itself.
func newQuick(t *testing.T) (b *objectstest.Bucket, one, two *machine) {
	t.Helper()
	one, two = newPair(t)
	for _, m := range []*machine{one, two} {
		m.env = append(m.env, "FANFARE_FAILOVER_AFTER=3s")
	}
	return one.register, one, two
}

// The register is away, then the standby, then the primary: each time the pair continues by itself, and no answered write is lost.
func TestAPairLosesNothing(t *testing.T) {
	t.Parallel()
	register, one, two := newQuick(t)
	one.start(false)
	ann := tokens(t, one.dir)(t, "ann")
	two.start(true)
	one.untilPaired()
	two.untilPaired()
	until(t, "the entry", func() bool {
		s := one.status()
		return s.Register != nil && s.Register.Mode == pair.ModePaired && s.Register.Standby != ""
	})

	register.SetAway(true)
	until(t, "the register does not answer", func() bool {
		s := two.status()
		return s.Register != nil && s.Register.Age.Duration > 2500*time.Millisecond
	})
	assert.Equal(t, pair.ModePaired, one.status().Mode)
	called(t, one.at.HTTP, ann, "without the register")
	register.SetAway(false)

	require.NoError(t, two.stop())
	until(t, "alone", func() bool { return one.status().Mode == pair.ModeAlone })
	called(t, one.at.HTTP, ann, "alone")
	assert.Positive(t, metric(t, one.at.Admin, "fanfare_pair_alone_seconds_total"))
	two.start(true)
	one.untilPaired()
	two.untilPaired()
	called(t, one.at.HTTP, ann, "paired again")

	require.NoError(t, one.stop())
	two.await(false) // by itself
	text := two.profile(ann)
	assert.Contains(t, text, "paired again")
	called(t, two.at.HTTP, ann, "by the second machine")
	one.start(true) // the register names the other machine
	one.untilPaired()
	assert.Equal(t, pair.RoleStandby, one.status().Role)
	s, err := admin.Promote().Do(t.Context(), one.client(), admin.Promotion{})
	require.NoError(t, err)
	assert.Equal(t, pair.RolePrimary, s.Role)
	one.await(false)
	text = one.profile(ann)
	assert.Contains(t, text, "by the second machine")
}

// P17: without an answer of the register a start serves nothing, and a stop of this start is no failure.
func TestAStartAsksTheRegister(t *testing.T) {
	t.Parallel()
	register, one, two := newQuick(t)
	register.SetAway(true)
	one.begin(false)
	require.NoError(t, one.stop())
	register.SetAway(false)
	one.start(false)
	old, err := os.ReadFile(filepath.Join(one.dir, pair.RoleFile))
	require.NoError(t, err)
	require.NoError(t, one.stop())

	// Other data cannot use the register, and the directory is in no pair.
	other := t.TempDir()
	err = daemon.Run(withAWS(t.Context(), register), daemon.Options{Config: settings(t, other, two.env...), Log: zap.NewNop()})
	require.ErrorIs(t, err, pair.ErrLineage)
	require.ErrorContains(t, err, "--standby")
	require.NoFileExists(t, filepath.Join(other, pair.RoleFile))

	one.start(false) // takes the next term
	require.NoError(t, one.stop())
	require.NoError(t, os.WriteFile(filepath.Join(one.dir, pair.RoleFile), old, 0o600))
	one.begin(false)
	err = <-one.ended
	one.ended = nil
	require.ErrorIs(t, err, pair.ErrOldCopy, "the directory was put back")
}

// The register of a primary that is alone may be away for five leases.
func TestALonePrimaryNeedsItsRegister(t *testing.T) {
	t.Parallel()
	register, one, _ := newQuick(t)
	one.start(false)
	ann := tokens(t, one.dir)(t, "ann")
	called(t, one.at.HTTP, ann, "alone")
	register.SetAway(true)
	began := time.Now()
	until(t, "no answers", func() bool {
		code, _ := one.get("/v1/me", ann)
		return code == http.StatusServiceUnavailable
	})
	t.Logf("it answered for %v", time.Since(began))
	register.SetAway(false)
	until(t, "answers", func() bool {
		code, _ := one.get("/v1/me", ann)
		return code == http.StatusOK
	})
}

package config_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

// paired returns the environment of a machine of a pair, and vars.
func paired(vars ...string) []string {
	return append([]string{"FANFARE_PEER=10.0.0.2:7070", "FANFARE_PEER_ADDR=:7070", "FANFARE_PEER_CERT=/c", "FANFARE_PEER_KEY=/k", "FANFARE_PEER_CA=/a", "FANFARE_REGISTER=s3://bucket/pair"}, vars...)
}

// Each refusal of a pair's settings names the setting and a way out.
func TestSettingsOfAPairThatContradictEachOtherAreRefused(t *testing.T) {
	const register = "FANFARE_REGISTER=s3://bucket/pair"
	const aws = ": it is of the embedded engine: remove it"
	local := func(vars ...string) []string {
		return append([]string{"FANFARE_PEER=127.0.0.1:1", "FANFARE_PEER_ADDR=127.0.0.1:2", register}, vars...)
	}
	for name, row := range map[string]struct{ env, want []string }{
		"on aws": {paired("FANFARE_ENGINE=aws", "FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=https://i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_FAILOVER_AFTER=9s"), []string{
			"FANFARE_PEER" + aws, "FANFARE_PEER_ADDR" + aws, "FANFARE_PEER_CERT" + aws, "FANFARE_PEER_KEY" + aws, "FANFARE_PEER_CA" + aws, "FANFARE_REGISTER" + aws, "FANFARE_FAILOVER_AFTER" + aws,
		}},
		"half a pair":                {[]string{"FANFARE_PEER=127.0.0.1:1", register}, []string{"FANFARE_PEER_ADDR is missing: the other machine calls this address"}},
		"the other half":             {[]string{"FANFARE_PEER_ADDR=127.0.0.1:1"}, []string{"FANFARE_PEER is missing: FANFARE_PEER_ADDR is for a pair"}},
		"addresses":                  {paired("FANFARE_PEER=:7070", "FANFARE_PEER_ADDR=7070"), []string{`FANFARE_PEER: ":7070" is not the HOST:PORT`, `FANFARE_PEER_ADDR: "7070" is not HOST:PORT, such as 127.0.0.1:8080 or :7070`}},
		"no keys":                    {[]string{"FANFARE_PEER=10.0.0.2:7070", "FANFARE_PEER_ADDR=127.0.0.1:7070", register}, []string{"FANFARE_PEER_CERT, FANFARE_PEER_KEY and FANFARE_PEER_CA are missing"}},
		"no keys, for strangers":     {[]string{"FANFARE_PEER=localhost:7071", "FANFARE_PEER_ADDR=:7070", register}, []string{"FANFARE_PEER_CERT, FANFARE_PEER_KEY and FANFARE_PEER_CA are missing"}},
		"some keys":                  {local("FANFARE_PEER_CERT=/c", "FANFARE_PEER_CA=/a"), []string{"FANFARE_PEER_CERT, FANFARE_PEER_KEY and FANFARE_PEER_CA belong together: set all three"}},
		"no register":                {[]string{"FANFARE_PEER=127.0.0.1:1", "FANFARE_PEER_ADDR=127.0.0.1:2"}, []string{"FANFARE_REGISTER is missing: a dead machine and a cut network look the same to the other machine of a pair, so a register has to decide. Set FANFARE_REGISTER to the same s3://bucket/prefix on both machines"}},
		"an archive is no register":  {[]string{"FANFARE_PEER=127.0.0.1:1", "FANFARE_PEER_ADDR=127.0.0.1:2", "FANFARE_ARCHIVE=s3://bucket/archive"}, []string{"FANFARE_REGISTER is missing"}},
		"off":                        {local("FANFARE_REGISTER=off"), []string{`FANFARE_REGISTER: "off" has an unknown scheme: write s3://bucket/prefix`}},
		"former settings":            {local("FANFARE_FAILOVER=auto", "FANFARE_ALONE=never"), []string{"FANFARE_FAILOVER is no setting any more", "FANFARE_ALONE is no setting any more"}},
		"a directory":                {local("FANFARE_REGISTER=file:///mnt/pair"), []string{"FANFARE_REGISTER: a directory cannot decide between two machines: name a bucket that both machines reach, s3://bucket/prefix"}},
		"a directory of another":     {local("FANFARE_REGISTER=file://host/pair"), []string{"FANFARE_REGISTER: a directory cannot decide"}},
		"no store":                   {local("FANFARE_REGISTER=pair"), []string{`FANFARE_REGISTER: "pair" has an unknown scheme: write s3://bucket/prefix`}},
		"credentials":                {local("FANFARE_REGISTER=s3://key:hunter2@bucket/pair"), []string{"FANFARE_REGISTER: it has credentials"}},
		"a quick failover":           {local("FANFARE_FAILOVER_AFTER=2999ms"), []string{"FANFARE_FAILOVER_AFTER: 2.999s is not between 3s and 1h"}},
		"a late failover":            {local("FANFARE_FAILOVER_AFTER=61m"), []string{"FANFARE_FAILOVER_AFTER: 1h1m0s is not between 3s and 1h"}},
		"a newline in the AWS names": {paired("AWS_REGION=eu-central-1\n"), []string{"AWS_REGION: it ends in a newline"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(row.env, config.API)
			fault, ok := errors.AsType[*config.Error](err)
			require.Truef(t, ok, "error %v", err)
			for _, want := range row.want {
				assert.ErrorContains(t, err, want)
			}
			assert.Len(t, fault.Faults, len(row.want), "%q", fault.Faults)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestDefaultsOfAPair(t *testing.T) {
	alone, err := config.Load(nil, config.API)
	require.NoError(t, err)
	c, err := config.Load(paired(), config.API)
	require.NoError(t, err)
	assert.Equal(t, []bool{false, true}, []bool{alone.HasPair(), c.HasPair()})
	assert.Equal(t, []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second}, []time.Duration{c.StandbyTimeout, c.Lease, c.FailoverAfter})
}

// A time that a standby waits for its primary has room for a lease and for a write that waits for the standby, and a lease has
// four heartbeats. So a short cut of the network changes no role.
func TestTimesOfAPairFollowTheTimeOfAFailover(t *testing.T) {
	for after, want := range map[string][]time.Duration{
		"3s": {1800 * time.Millisecond, 1200 * time.Millisecond}, "4s": {2400 * time.Millisecond, 1600 * time.Millisecond},
		"5s": {3 * time.Second, 2 * time.Second}, "1h": {3 * time.Second, 2 * time.Second},
	} {
		c, err := config.Load(paired("FANFARE_FAILOVER_AFTER="+after), config.API)
		require.NoError(t, err)
		assert.Equal(t, want, []time.Duration{c.Lease, c.StandbyTimeout}, after)
		assert.LessOrEqual(t, c.Lease+c.StandbyTimeout, c.FailoverAfter, after)
		assert.GreaterOrEqual(t, c.Lease, 4*c.Heartbeat(), after)
		assert.GreaterOrEqual(t, c.StandbyTimeout, 2*c.Heartbeat(), after)
	}
}

// A setting without an effect does not stop the start.
func TestUselessSettingsOfAPairAreNamed(t *testing.T) {
	for want, env := range map[string][]string{
		"FANFARE_REGISTER, FANFARE_FAILOVER_AFTER have no effect without FANFARE_PEER": {"FANFARE_REGISTER=s3://bucket/pair", "FANFARE_FAILOVER_AFTER=9s"},
		"FANFARE_PEER_ADDR is the address of another listener of this process":         paired("FANFARE_PEER_ADDR=:8080"),
	} {
		c, err := config.Load(env, config.API)
		require.NoError(t, err)
		assert.True(t, slices.ContainsFunc(c.Contradictions(), func(found config.Contradiction) bool {
			return found.Says == want && found.Mend != ""
		}), "%s: %v", want, c.Contradictions())
	}
}

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/objects/objectstest"
	"fanfare/internal/porttest"
)

var pairRounds = flag.Int("pair-rounds", 1, "losses of a primary that has a standby")

// twins returns two servers that are a pair, with keys and a register. The standby becomes the primary only by an operator.
func twins(t *testing.T) (one, two *upright) {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	one, two = newUp(t), newUp(t)
	one.fanfare(t, "pair", "keys", keys)
	addresses, register := []string{porttest.Free(t), porttest.Free(t)}, objectstest.NewBucket(t)
	for i, name := range []string{"one", "two"} {
		u := []*upright{one, two}[i]
		u.env = append(u.env, "FANFARE_PEER_ADDR="+addresses[i], "FANFARE_PEER="+addresses[1-i], "FANFARE_PEER_CA="+filepath.Join(keys, "ca.crt"),
			"FANFARE_PEER_CERT="+filepath.Join(keys, name+".crt"), "FANFARE_PEER_KEY="+filepath.Join(keys, name+".key"),
			"FANFARE_REGISTER=s3://bucket/pair", "FANFARE_FAILOVER_AFTER=1h")
		for variable, value := range register.Env() {
			u.env = append(u.env, variable+"="+value)
		}
	}
	return one, two
}

// standby starts a server whose role its data directory decides, or that begins as a standby.
func (u *upright) standby(t *testing.T) *process {
	t.Helper()
	return start(t, u.env, "fanfare", "up", "--standby", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
}

// paired waits until the server is paired, and returns its term.
func (u *upright) paired(t *testing.T, role string) (term uint64) {
	t.Helper()
	await(t, "paired", func() bool {
		stdout, _, err := fanfare(t, u.env, "pair", "status", "--json", "--admin", u.admin)
		var s struct {
			Role, Mode string
			Connected  bool
			Term       uint64
		}
		if err != nil || json.Unmarshal([]byte(stdout), &s) != nil {
			return false
		}
		term = s.Term
		return s.Role == role && s.Mode == "paired" && s.Connected
	})
	return term
}

// answers waits until the server answers, and returns the time of the answer.
func (u *upright) answers(t *testing.T) time.Time {
	t.Helper()
	await(t, "an answer", func() bool {
		resp, err := (&http.Client{Timeout: time.Second}).Get("http://" + u.http + "/readyz")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	return time.Now()
}

// times are the times that something took in each round.
type times []time.Duration

// report writes the median, the 99th percentile and the maximum.
func (l times) report(t *testing.T, what string) {
	t.Helper()
	slices.Sort(l)
	n := len(l)
	t.Logf("%s, %d rounds: p50 %v, p99 %v, maximum %v", what, n, l[n/2], l[n*99/100], l[n-1])
}

// TestALostPrimaryLosesNothing kills the primary of a pair under load and deletes its data directory, several times. The
// promoted standby has each answered call. The lost machine comes back as the standby, and then both machines exchange
// their roles.
func TestALostPrimaryLosesNothing(t *testing.T) {
	t.Parallel()
	primary, other := twins(t)
	p := primary.start(t)
	s := other.standby(t)
	random := rand.New(rand.NewPCG(1, 1))
	var losses, switches times
	for round := range *pairRounds {
		term := primary.paired(t, "primary")
		assert.Equal(t, term, other.paired(t, "standby"))
		file := filepath.Join(t.TempDir(), "journal")
		player := start(t, primary.env, "fanfare", primary.replay("--graph", graph, "--max-users", "40", "--posts", "400", "--likes", "4000",
			"--rate", "500", "--journal", file, "--seed", fmt.Sprint(round))...)
		player.plays(t, file, 3000+random.IntN(3000)) // users and follows precede the posts
		p.kill(t)
		lost := time.Now()
		player.kill(t)
		require.NoError(t, os.RemoveAll(primary.data))
		other.fanfare(t, "promote", "--primary-is-gone", "--yes", "--admin", other.admin)
		losses = append(losses, other.answers(t).Sub(lost))
		journal := wholeLines(t, file)
		known := filepath.Join(t.TempDir(), "known")
		require.NoError(t, os.WriteFile(known, journal, 0o600))
		stdout, stderr, err := fanfare(t, other.env, other.replay("--check", known)...)
		assert.NotZero(t, verdict(t, stdout, stderr, err).Posts, "the check is of nothing")
		other.sound(t, false)
		t.Logf("round %d: the standby answers %v after the loss, 0 of %d answered calls are lost", round, losses[round], linesOf(journal)-linesOf(unanswered(journal)))

		p = primary.standby(t)
		next := other.paired(t, "primary")
		assert.Greater(t, next, term)
		primary.paired(t, "standby")
		began := time.Now()
		primary.fanfare(t, "promote", "--yes", "--admin", primary.admin)
		switches = append(switches, primary.answers(t).Sub(began))
		assert.Greater(t, primary.paired(t, "primary"), next)
		stdout, stderr, err = fanfare(t, primary.env, primary.replay("--check", known)...)
		verdict(t, stdout, stderr, err)
	}
	losses.report(t, "promotions after a loss")
	switches.report(t, "switches")
	s.stop(t)
	p.stop(t)
}

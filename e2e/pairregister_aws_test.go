//go:build e2e

package e2e

import (
	"crypto/rand"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
	objectstore "fanfare/internal/objects"
)

var registerRounds = flag.Int("register-rounds", 1, "losses of a primary whose standby takes over by itself")

// registered returns a pair with a register in moto, which each machine reaches through a network of its own.
func registered(t *testing.T) (one, two *upright, networks [2]*toxiproxy.Proxy) {
	t.Helper()
	return inBucket(t, false)
}

// inBucket returns a pair whose register is in moto, as well as an archive if it has one. Each machine reaches moto through a network of its own.
func inBucket(t *testing.T, archive bool) (one, two *upright, networks [2]*toxiproxy.Proxy) {
	t.Helper()
	cfg, err := awsclient.Load(t.Context())
	require.NoError(t, err)
	moto := os.Getenv("E2E_MOTO_URL")
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.BaseEndpoint = &moto }, objectstore.ForEndpoint)
	bucket := "pair-" + strings.ToLower(rand.Text()[:10])
	_, err = client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)})
	require.NoError(t, err)
	one, two = twins(t)
	for i, u := range []*upright{one, two} {
		networks[i] = newProxy(t, "register", moto)
		u.env = append(u.env, "FANFARE_REGISTER=s3://"+bucket+"/pair", "FANFARE_FAILOVER_AFTER=5s", "AWS_ENDPOINT_URL_S3=http://"+networks[i].Listen)
	}
	if archive {
		one.env, two.env = append(one.env, "FANFARE_ARCHIVE=s3://"+bucket+"/up"), append(two.env, "FANFARE_ARCHIVE=s3://"+bucket+"/up")
	}
	return one, two, networks
}

// The archive is in the bucket of the register.
func TestAnArchiveBesideTheRegisterOfItsPair(t *testing.T) {
	t.Parallel()
	one, two, _ := inBucket(t, true)
	outlives(t, one, two, func() {}) // the standby takes over by itself
}

// playing starts a replay, and waits until it has some posts. It returns the journal.
func (u *upright) playing(t *testing.T, seed int, atLeast int) (player *process, journal string) {
	t.Helper()
	journal = filepath.Join(t.TempDir(), "journal")
	player = start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "40", "--posts", "9000", "--likes", "90000",
		"--rate", "200", "--journal", journal, "--seed", fmt.Sprint(seed))...)
	player.plays(t, journal, atLeast)
	return player, journal
}

// holds checks that a server has each answered call of a journal.
func (u *upright) holds(t *testing.T, journal string) {
	t.Helper()
	text := wholeLines(t, journal)
	known := filepath.Join(t.TempDir(), "known")
	require.NoError(t, os.WriteFile(known, text, 0o600))
	stdout, stderr, err := fanfare(t, u.env, u.replay("--check", known)...)
	assert.NotZero(t, verdict(t, stdout, stderr, err).Posts, "the check is of nothing")
	t.Logf("0 of %d answered calls are lost", linesOf(text)-linesOf(unanswered(text)))
}

// restarts stops and starts a standby in order, while its primary answers calls.
func (u *upright) restarts(t *testing.T, standby *process, answers func()) *process {
	t.Helper()
	answers()
	standby.stop(t)
	answers()
	standby = u.standby(t)
	u.paired(t, "standby")
	return standby
}

// TestAStandbyTakesOverByItself kills the primary of a pair under load, several times. Its standby takes over without an operator, and has each
// answered call. Before that, the register is away, and later the standby, which is killed once and restarted in order twice: the primary
// answers all the time.
func TestAStandbyTakesOverByItself(t *testing.T) {
	t.Parallel()
	primary, other, networks := registered(t)
	p := primary.start(t)
	s := other.standby(t)
	random := mathrand.New(mathrand.NewPCG(2, 2))
	var losses, switches times
	for round := range *registerRounds {
		primary.paired(t, "primary")
		other.paired(t, "standby")
		player, journal := primary.playing(t, round, 2500)

		for _, network := range networks {
			addFault(t, network, fault{kind: "timeout", attributes: `"timeout": 0`}, "downstream")
		}
		player.plays(t, journal, lines(t, journal)+2000)
		assert.InDelta(t, 1, readings(t.Context(), primary.admin)["fanfare_pair_paired"], 0, "the register is away, and nothing happens")
		for _, network := range networks {
			require.NoError(t, network.Toxics.RemoveToxic(t.Context(), "fault"))
		}

		s.kill(t)
		await(t, "the primary goes alone", func() bool {
			values := readings(t.Context(), primary.admin)
			return values != nil && values["fanfare_pair_paired"] == 0
		})
		player.plays(t, journal, lines(t, journal)+200)
		s = other.standby(t)
		primary.paired(t, "primary")
		other.paired(t, "standby")
		for range 2 {
			s = other.restarts(t, s, func() { player.plays(t, journal, lines(t, journal)+random.IntN(200)) })
		}

		player.plays(t, journal, lines(t, journal)+random.IntN(1000))
		p.kill(t)
		lost := time.Now()
		player.kill(t)
		losses = append(losses, other.answers(t).Sub(lost))
		t.Logf("round %d: the standby answers %v after the loss", round, losses[round])
		other.holds(t, journal)
		other.sound(t, false)

		p = primary.standby(t)
		other.paired(t, "primary")
		primary.paired(t, "standby")
		began := time.Now()
		primary.fanfare(t, "promote", "--yes", "--admin", primary.admin)
		switches = append(switches, primary.answers(t).Sub(began))
		primary.holds(t, journal)
	}
	losses.report(t, "failovers")
	switches.report(t, "switches")
	s.stop(t)
	p.stop(t)
}

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
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
	objectstore "fanfare/internal/objects"
)

var (
	storeRounds = flag.Int("store-rounds", 1, "losses of a machine whose archive has a bad network")
	storeToxics = flag.Int("store-toxics", 2, "faults of the network in a round")
	storeSeed   = flag.Uint64("store-seed", 0, "the seed of the faults; 0 draws one")
)

// farStore is a bucket for an archive, behind a network that a test can damage.
type farStore struct {
	proxy   *toxiproxy.Proxy
	objects objectstore.Store // not behind the network
	address string
}

func newFarStore(t *testing.T) *farStore {
	t.Helper()
	cfg, err := awsclient.Load(t.Context())
	require.NoError(t, err)
	client := s3.NewFromConfig(cfg, objectstore.ForEndpoint)
	bucket := "archive-" + strings.ToLower(rand.Text()[:10])
	_, err = client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	require.NoError(t, err)
	return &farStore{newProxy(t, "store", os.Getenv("AWS_ENDPOINT_URL")), objectstore.NewBucket(client, bucket, "up"), "s3://" + bucket + "/up"}
}

// archived returns a server with an archive in the store.
func (s *farStore) archived(t *testing.T, vars ...string) *upright {
	t.Helper()
	u := newUp(t)
	u.env = append(append(u.env, "FANFARE_ARCHIVE="+s.address, "AWS_ENDPOINT_URL_S3=http://"+s.proxy.Listen), vars...)
	return u
}

// segments returns the number of segments that the writer of the newest term wrote. Its first one is the seal of the
// previous term.
func (s *farStore) segments(t *testing.T) (n int) {
	t.Helper()
	newest := ""
	for object, err := range s.objects.List(t.Context(), "t/", "") {
		require.NoError(t, err)
		if term, name, _ := strings.Cut(strings.TrimPrefix(object.Name, "t/"), "/"); strings.HasPrefix(name, "s/") {
			if term != newest {
				if newest, n = term, 0; term != fmt.Sprintf("%016x", 1) {
					n = 1
				}
			}
			n++
		}
	}
	return n
}

// hasBases waits until the archive has a number of bases.
func (s *farStore) hasBases(t *testing.T, atLeast int) {
	t.Helper()
	await(t, fmt.Sprintf("the archive has %d bases", atLeast), func() bool {
		n := 0
		for _, err := range s.objects.List(t.Context(), "b/", "") {
			require.NoError(t, err)
			n++
		}
		return n >= atLeast
	})
}

// toxic is a fault in one direction. bites reports whether the metrics before and since show an effect of the fault.
// unheard is true if a PUT has its effect, and its answer is lost.
type toxic struct {
	fault
	direction string
	bites     func(before, since map[string]float64) bool
	unheard   bool
}

func grows(name string) func(before, since map[string]float64) bool {
	return func(before, since map[string]float64) bool { return since[name] > before[name] }
}

// takes reports whether the PUTs since took a time in the mean.
func takes(mean time.Duration) func(before, since map[string]float64) bool {
	const sum, count = "fanfare_archive_put_seconds_sum", "fanfare_archive_put_seconds_count"
	return func(before, since map[string]float64) bool {
		n := since[count] - before[count]
		return n > 0 && inSeconds((since[sum]-before[sum])/n) >= mean
	}
}

func late(_, since map[string]float64) bool {
	return inSeconds(since["fanfare_archive_lag_seconds"]) > 3*archiveEvery
}

// toxics returns every kind of fault, with drawn numbers.
func toxics(random *mathrand.Rand) []toxic {
	const up, down = "upstream", "downstream"
	away, stored := grows(`fanfare_archive_puts_total{result="away"}`), grows(`fanfare_archive_puts_total{result="stored"}`)
	either := []string{up, down}[random.IntN(2)]
	drawn := func(kind, format string, number int) fault {
		return fault{kind: kind, attributes: fmt.Sprintf(format, number)}
	}
	return []toxic{
		{drawn("latency", `"latency": %d, "jitter": 100`, 200+random.IntN(800)), either, takes(90 * time.Millisecond), false},
		{drawn("slow_close", `"delay": %d`, 200+random.IntN(2000)), either, stored, false},
		{drawn("reset_peer", `"timeout": %d`, random.IntN(50)), either, away, false},
		{drawn("bandwidth", `"rate": %d`, 1), up, late, false},
		{drawn("limit_data", `"bytes": %d`, 300+random.IntN(3000)), up, away, false}, // a request is cut
		{drawn("limit_data", `"bytes": %d`, random.IntN(100)), down, away, true},
		{drawn("timeout", `"timeout": %d`, 0), either, late, false}, // no byte passes, and no connection ends
	}
}

// TestABadNetworkToTheArchiveLosesNoMoreThanTheLag damages the network between `fanfare up` and its archive while a
// replay runs, kills the process, in every other round within a fault, and restores its directory on a machine with
// a sound network.
func TestABadNetworkToTheArchiveLosesNoMoreThanTheLag(t *testing.T) {
	t.Parallel()
	seed := *storeSeed
	if seed == 0 {
		seed = mathrand.Uint64()
	}
	t.Logf("-store-seed %d", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 1))
	var all losses
	for first := 0; first < *storeRounds; first += machineRounds {
		s := newFarStore(t)
		u := s.archived(t)
		p := u.start(t)
		for round := first; round < min(first+machineRounds, *storeRounds); round++ {
			p = s.loses(t, u, p, random, round, &all)
		}
		p.stop(t)
	}
	t.Logf("%d losses: %s of time, %s of answered calls. In %d looks the lag was %s", len(all.spans), medianOf(all.spans), medianOf(all.calls), len(all.looks), medianOf(all.looks))
}

// loses damages the network of the process p, kills it, and restores its directory. It returns the process that
// continues.
func (s *farStore) loses(t *testing.T, u *upright, p *process, random *mathrand.Rand, round int, all *losses) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "journal")
	journal, looks := watch(t, file), u.looks(t, p)
	player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "40", "--posts", "20000", "--likes", "200000",
		"--rate", "150", "--journal", file, "--seed", fmt.Sprint(round))...)
	s.hasBases(t, 1)
	player.plays(t, file, 2000) // the replay has reached the posts
	kinds := toxics(random)
	order := random.Perm(len(kinds))[:min(*storeToxics, len(kinds))]
	within := random.IntN(2) == 0
	for i, kind := range order {
		s.damaged(t, u, player, file, kinds[kind])
		if i < len(order)-1 || !within {
			require.NoError(t, s.proxy.Toxics.RemoveToxic(t.Context(), "fault"))
			await(t, "the archive catches up", func() bool {
				return !late(nil, readings(t.Context(), u.admin))
			})
		}
	}
	player.plays(t, file, lines(t, file)+random.IntN(300))
	values := readings(t.Context(), u.admin)
	assert.Zero(t, values["fanfare_archive_gaps_total"]+values["fanfare_archive_fenced"])
	p.kill(t)
	lost := time.Now()
	player.kill(t)
	if within {
		require.NoError(t, s.proxy.Toxics.RemoveToxic(t.Context(), "fault"))
	}
	l := u.restored(t, journal, lost, looks())
	t.Logf("round %d: %v", round, l)
	all.add(l)
	p, _ = u.continues(t, l.known)
	return p
}

// damaged damages the network until the process notices. Calls are answered meanwhile.
func (s *farStore) damaged(t *testing.T, u *upright, player *process, journal string, f toxic) {
	t.Helper()
	before := readings(t.Context(), u.admin)
	require.NotNil(t, before)
	addFault(t, s.proxy, f.fault, f.direction)
	t.Logf("%s %s %s after %d lines", f.direction, f.kind, f.attributes, lines(t, journal))
	began := lines(t, journal)
	await(t, f.kind+" has an effect", func() bool {
		since := readings(t.Context(), u.admin)
		return since != nil && f.bites(before, since)
	})
	if f.unheard {
		await(t, "the store has a segment of which the process does not know", func() bool {
			stored := readings(t.Context(), u.admin)[`fanfare_archive_puts_total{result="stored"}`] // first: the store gets more
			return s.segments(t) > int(stored)
		})
	}
	player.plays(t, journal, max(began, lines(t, journal))+20)
}

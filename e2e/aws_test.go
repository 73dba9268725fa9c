//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fanfare/internal/porttest"
	"fanfare/internal/stormtest"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cluster is a deployment of Fanfare as in production: one api, three competing fanout processes and two
// competing likeagg processes, on a table and queues of its own.
type cluster struct {
	env     []string
	http    string
	name    string // the name of the table, and the prefix of the queues' names
	members []*member
}

// member is one process of a cluster. A test may kill the process and start it again.
type member struct {
	*process
	kind, admin string
	env         []string
}

// newCluster starts a cluster. Only the daemons get env.
func newCluster(t *testing.T, env ...string) *cluster {
	t.Helper()
	return newClusterOf(t, productionShape(), env...)
}

// productionShape returns the daemons of a cluster, with several daemons of the kinds that compete.
func productionShape() []string {
	return []string{"api", "fanout", "fanout", "fanout", "likeagg", "likeagg"}
}

// newClusterOf starts a cluster with these daemons.
func newClusterOf(t *testing.T, kinds []string, env ...string) *cluster {
	t.Helper()
	c := emptyCluster(t)
	c.add(t, env, kinds...)
	return c
}

// tableURL returns the address of the engine that has the tables of most clusters. The engine keeps the
// same contract as LocalStack's table, and uses less CPU time.
func tableURL() string { return cmp.Or(os.Getenv("E2E_DYNOXIDE_URL"), os.Getenv("AWS_ENDPOINT_URL")) }

// besideTheQueues puts the table of a cluster on the engine of its queues.
const besideTheQueues = "AWS_ENDPOINT_URL_DYNAMODB="

// emptyCluster makes the table and the queues of a cluster. All processes of the cluster get env.
func emptyCluster(t *testing.T, env ...string) *cluster {
	t.Helper()
	require.NotEmpty(t, os.Getenv("AWS_ENDPOINT_URL"),
		"AWS_ENDPOINT_URL is not set: run this with scripts/with-emulators.sh, or against docker compose's LocalStack")
	name := "e2e-" + strings.ToLower(rand.Text()[:10])
	c := &cluster{http: porttest.Free(t), name: name}
	c.env = environment("AWS_ENDPOINT_URL_DYNAMODB="+tableURL(), "FANFARE_ENGINE=aws", "FANFARE_TABLE="+name, "FANFARE_QUEUE_PREFIX="+name, "FANFARE_LOG_LEVEL=warn",
		"FANFARE_AUTH=dev", "FANFARE_DEV_AUTH_ON_AWS=allow", "FANFARE_DEV_SECRET="+rand.Text()+rand.Text())
	c.env = append(c.env, env...)
	for _, what := range []string{"table", "queues"} {
		for range 2 { // the second time, the table exists already
			stdout, stderr, err := fanfare(t, c.env, what, "create")
			require.NoErrorf(t, err, "%s create:\n%s%s", what, stdout, stderr)
		}
	}
	return c
}

// add starts daemons.
func (c *cluster) add(t *testing.T, env []string, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		m := &member{kind: kind, admin: porttest.Free(t)}
		m.env = append(append([]string(nil), c.env...), "FANFARE_HTTP_ADDR="+c.http, "FANFARE_ADMIN_ADDR="+m.admin)
		m.env = append(m.env, env...)
		c.members = append(c.members, m)
		m.start(t)
	}
	for _, m := range c.members {
		m.ready(t, m.admin)
	}
}

// askDoctor runs fanfare doctor. A busy emulator may answer after the timeout of the doctor, so askDoctor
// then repeats the run.
func askDoctor(t *testing.T, env []string, flags ...string) (stdout, stderr string, err error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		stdout, stderr, err = fanfare(t, env, append([]string{"doctor"}, flags...)...)
		if late := strings.Contains(stdout, context.DeadlineExceeded.Error()); !late || time.Now().After(deadline) {
			return stdout, stderr, err
		}
	}
}

// isSound checks that fanfare doctor finds no fault in the table and the queues that fanfare made, and warns
// only of dev tokens and of a table without backups.
func (c *cluster) isSound(t *testing.T) {
	t.Helper()
	stdout, stderr, err := askDoctor(t, c.env)
	require.NoErrorf(t, err, "doctor:\n%s%s", stdout, stderr)
	for line := range strings.Lines(stdout) {
		assert.Regexp(t, `^(ok|warning +(configuration +anyone|deletion protection|point-in-time)| +mend)`, line)
	}
}

// start starts the member. FANFARE_DRAIN=0s turns the drain off, because no balancer is in front of the
// member. The former release does not know this setting.
func (m *member) start(t *testing.T) {
	t.Helper()
	env := m.env
	if !filepath.IsAbs(m.kind) {
		env = append([]string{"FANFARE_DRAIN=0s"}, env...) // env may set another drain
	}
	m.process = start(t, env, m.kind)
}

func (c *cluster) stop(t *testing.T) {
	t.Helper()
	for _, m := range c.members {
		m.stop(t)
	}
}

func (c *cluster) replay(more ...string) []string {
	var admin []string
	for _, m := range c.members {
		admin = append(admin, m.admin)
	}
	return append([]string{"replay", "--json", "--target", "http://" + c.http, "--admin", strings.Join(admin, ","), "--concurrency", "16"}, more...)
}

// deadLetters returns the number of dead letters.
func (c *cluster) deadLetters(t *testing.T) int {
	t.Helper()
	stdout, stderr, err := fanfare(t, c.env, "dlq", "ls", "--json")
	require.NoError(t, err, stderr)
	var found struct {
		Items []json.RawMessage `json:"items"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &found), stdout)
	return len(found.Items)
}

func TestSeparateBinariesDeliverARealGraphExactly(t *testing.T) {
	t.Parallel()
	// LocalStack does 100 to 250 single operations a second, and the follows use up this rate. Each page
	// of a returning reader reads some hundred lists, so only a few readers are away.
	users, posts, likes := 150, 300, 1500
	if testing.Short() {
		users, posts, likes = 50, 150, 750
	}
	c := emptyCluster(t, besideTheQueues)
	c.add(t, nil, productionShape()...)
	c.isSound(t)
	stdout, stderr, err := fanfare(t, c.env, c.replay("--graph", graph, "--max-users", fmt.Sprint(users), "--posts", fmt.Sprint(posts), "--likes", fmt.Sprint(likes),
		"--away", "0.02", "--rebuilt-after", "0s")...)
	t.Log(stderr)
	r := verdict(t, stdout, stderr, err)
	if r.Users != users || r.Posts != posts || r.Likes != likes || r.WCUPerDelivery == nil || r.WCUPerLike == nil ||
		r.Away != users/50 || r.Skipped == nil || *r.Skipped == 0 {
		t.Errorf("report %s", stdout)
	}
	c.stop(t)
}

// TestCrashOfADaemonLosesNothing kills one process a round in the middle of a replay, and all six
// processes at once in every third round. It takes the kinds of processes in turn, and starts killed
// processes again. The messages of a killed process are redelivered after the visibility timeout of a
// minute. The rounds have separate clusters and run in parallel, so they wait for this minute at the same
// time.
func TestCrashOfADaemonLosesNothing(t *testing.T) {
	t.Parallel()
	for round := range stormtest.Runs(*crashRounds) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := mathrand.New(mathrand.NewPCG(uint64(round), 2))
			engine := []string{"AWS_ENDPOINT_URL_DYNAMODB=" + tableURL(), besideTheQueues}[round%2]
			c := emptyCluster(t, engine)
			c.add(t, nil, productionShape()...)
			victims := c.members
			if round%3 != 2 {
				one := []int{1, 4, 0, 2, 5, 3}[(round-round/3)%6]
				victims = c.members[one : one+1]
			}
			journal := filepath.Join(t.TempDir(), "journal")
			player := start(t, c.env, "fanfare", c.replay("--graph", graph, "--max-users", "20", "--posts", "40", "--likes", "200",
				"--journal", journal, "--seed", fmt.Sprint(round))...)
			// A call has two lines. 20 profiles and 230 follows precede the posts.
			player.plays(t, journal, 300+random.IntN(650))
			for _, m := range victims { // kill all of them at once
				m.signal(t, syscall.SIGKILL)
			}
			for _, m := range victims {
				<-m.exited
				m.start(t)
			}
			for _, m := range victims {
				m.ready(t, m.admin)
			}
			player.ends(t)
			stdout, stderr, err := fanfare(t, c.env, c.replay("--check", journal)...)
			verdict(t, stdout, stderr, err)
			c.stop(t)
		})
	}
}

// TestFollowsAreLinearizableOnAWS plays follows on the transactions of DynamoDB Local. Some transactions
// conflict, and Fanfare repeats them.
func TestFollowsAreLinearizableOnAWS(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t, besideTheQueues)
	c.add(t, nil, productionShape()...)
	assert.True(t, playFollows(t, c.http, 1, 20, nil).linearizable(t, followModel()),
		"the calls have no order that explains their answers")
}

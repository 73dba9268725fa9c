//go:build e2e

package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSeparateBinariesDeliverExactlyOnMoto is small: moto copies the whole table for each
// transaction.
func TestSeparateBinariesDeliverExactlyOnMoto(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("E2E_MOTO_URL"), "E2E_MOTO_URL is not set: run this with scripts/with-emulators.sh")
	c := emptyCluster(t, besideTheQueues, "AWS_ENDPOINT_URL="+os.Getenv("E2E_MOTO_URL"))
	c.add(t, nil, "api", "fanout", "likeagg")
	stdout, stderr, err := fanfare(t, c.env, c.replay("--graph", graph, "--max-users", "4", "--posts", "5", "--likes", "10")...)
	r := verdict(t, stdout, stderr, err)
	assert.Equal(t, 5, r.Posts)
	assert.Equal(t, 10, r.Likes)
	hasNoDamage(t, c.env)
	c.stop(t)
}

//go:build e2e

package e2e

import (
	"bufio"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDaemonsStoppedUnderLoadLoseNothing stops the api and then all consumers by SIGTERM in the middle of
// a replay, and starts them again. Consumers return their messages to SQS at once, so that no message has
// to wait for its visibility timeout.
func TestDaemonsStoppedUnderLoadLoseNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	api, consumers := c.members[0], c.members[1:]
	journal := filepath.Join(t.TempDir(), "journal")
	player := start(t, c.env, "fanfare", c.replay("--graph", graph, "--max-users", "20", "--posts", "60", "--likes", "300",
		"--rate", "30", "--journal", journal)...)
	// A call has two lines. 20 profiles and 230 follows precede the posts.
	player.plays(t, journal, 400)
	api.stop(t)
	api.start(t)
	api.ready(t, api.admin)
	player.plays(t, journal, 800)
	var stopping sync.WaitGroup
	for _, m := range consumers {
		stopping.Go(func() { m.stop(t) })
	}
	stopping.Wait()
	// A message whose first try failed is redelivered after a second. An abandoned message is redelivered
	// after a minute.
	within(t, "nothing is in flight", 30*time.Second, func() bool {
		n, known := api.inFlight(t)
		return known && n == 0
	})
	for _, m := range consumers {
		m.start(t)
		m.ready(t, m.admin)
	}
	player.ends(t)
	stdout, stderr, err := fanfare(t, c.env, c.replay("--check", journal)...)
	verdict(t, stdout, stderr, err)
	c.stop(t)
}

// inFlight returns the number of unanswered messages of all queues. known is false while a queue does not
// answer in time.
func (m *member) inFlight(t *testing.T) (n int, known bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.admin+"/metrics", http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	depth := regexp.MustCompile(`^fanfare_queue_depth\{.*state="in_flight".*\} (\d+)$`)
	topics := 0
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		if match := depth.FindStringSubmatch(s.Text()); match != nil {
			of, err := strconv.Atoi(match[1])
			require.NoError(t, err)
			topics++
			n += of
		}
	}
	return n, topics == 5
}

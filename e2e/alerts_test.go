//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"fanfare/client"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/queue/embedded"
	"fanfare/messages"
)

// promtool runs Prometheus's own tool, which make test installs, on a file of rule tests.
func promtool(t *testing.T, file string) (string, error) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	require.NoError(t, err, "run scripts/need.sh promtool:prometheus")
	out, err := exec.CommandContext(t.Context(), tool, "test", "rules", file).CombinedOutput()
	return string(out), err
}

func TestEachAlertFiresAndASoundDeploymentIsSilent(t *testing.T) {
	t.Parallel()
	out, err := promtool(t, "../deploy/prometheus/fanfare.rules.test.yml")
	assert.NoError(t, err, out)
}

const (
	// purgeWait is how long a deletion waits by design (fanout.purgeAfter).
	purgeWait = messages.MaxAhead + time.Minute
	// purges is the number of deletions that fall due while the demo is scraped, purgeEvery the
	// time between two of them.
	purges, purgeEvery = 40, 500 * time.Millisecond
	// leastScrapes are enough for 20 minutes of the rules' time.
	leastScrapes = 50
	// stretched is the time between two scrapes as the rules see it.
	stretched = 24 * time.Second
)

// A demo with its canary and with deletions raises no alert, and none is pending.
//
// The rules look at five to ten minutes, so the time axis of the scrapes is stretched. That
// changes no answer: the rules compare ratios and quantiles, in which the unit of time cancels
// out, with thresholds, and rates with 0 alone. The durations after which an alert fires do not
// matter, because a pending one fails the test, too.
//
// A deletion waits for six minutes. So the deletions that fall due in the test were asked for
// before it began: each event is one that the API published, but six minutes older.
func TestADemoRaisesNoAlert(t *testing.T) {
	t.Parallel()
	u, p := newDemo(t)
	ada := u.as(t, "ada")
	var deleted []string
	for i := range purges {
		post, err := ada.CreatePost(t.Context(), client.PostInput{Text: fmt.Sprint("Deleted soon, number ", i)})
		require.NoError(t, err)
		require.NoError(t, ada.DeletePost(t.Context(), post.ID))
		deleted = append(deleted, post.ID)
	}
	p.stop(t)
	u.askedToDelete(t, "ada", deleted)
	p = start(t, u.env, "fanfare", "up", "--demo", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
	p.ready(t, u.admin)

	series, scrapes := u.scrapes(t)
	p.stop(t)
	delayed := strings.Fields(series[`fanfare_queue_depth{state="delayed",topic="backfills"}`])
	assert.NotContains(t, delayed, "0", "the other deletions wait all the time")

	out, err := promtool(t, alertsOf(t, series, scrapes, nil))
	assert.NoError(t, err, out)

	// The same scrapes with the age of the deletions counted from their events raise the alert.
	for name := range series {
		if strings.HasPrefix(name, "fanfare_message_age_seconds_bucket") && strings.Contains(name, `topic="backfills"`) && !strings.Contains(name, `le="+Inf"`) {
			series[name] = strings.Repeat("0 ", scrapes)
		}
	}
	late := map[string]any{"labels": `{alertname="FanfareMessagesLate", alertstate="firing"}`, "value": 1}
	out, err = promtool(t, alertsOf(t, series, scrapes, late))
	assert.NoError(t, err, out)
}

// askedToDelete puts the events of deletions into the queue of a server that does not run. The
// first falls due five seconds from now.
func (u *upright) askedToDelete(t *testing.T, author string, posts []string) {
	t.Helper()
	broker, err := embedded.Open(filepath.Join(u.data, "queue"), embedded.Options{})
	require.NoError(t, err)
	first := time.Now().Add(5*time.Second - purgeWait)
	msgs := make([]*message.Message, len(posts))
	for i, post := range posts {
		asked := first.Add(time.Duration(i) * purgeEvery)
		event, err := id.NewGenerator(func() time.Time { return asked }).New()
		require.NoError(t, err)
		msgs[i], err = queue.Message(t.Context(), &messages.PostDeleted{Header: messages.Header{EventID: event, Time: asked.UTC()}, PostID: post, AuthorID: author})
		require.NoError(t, err)
	}
	require.NoError(t, broker.Publish(queue.TopicBackfills, msgs...))
	require.NoError(t, broker.Close())
}

// scrapes reads the metrics, twice a second, until all deletions that fall due are made. It
// returns the values of each series, as promtool reads them, and their number.
func (u *upright) scrapes(t *testing.T) (series map[string]string, number int) {
	t.Helper()
	series = map[string]string{}
	tick, deadline := time.NewTicker(500*time.Millisecond), time.After(3*time.Minute)
	defer tick.Stop()
	for done := 0.0; done < purges || number < leastScrapes; number++ {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%v of %d deletions are made after %d scrapes", done, purges, number)
		}
		for name, value := range u.fanfareMetrics(t) {
			if series[name] == "" {
				series[name] = strings.Repeat("_ ", number)
			}
			series[name] += strconv.FormatFloat(value, 'f', -1, 64) + " "
			if name == `fanfare_message_age_seconds_count{topic="backfills"}` {
				done = value
			}
		}
	}
	return series, number
}

// fanfareMetrics reads the product's own metrics once.
func (u *upright) fanfareMetrics(t *testing.T) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+u.admin+"/metrics", http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if space := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, "fanfare_") {
			values[line[:space]], err = strconv.ParseFloat(strings.TrimSpace(line[space:]), 64)
			require.NoError(t, err, line)
		}
	}
	return values
}

// alertsOf writes a file of rule tests: at each minute of the scrapes no alert fires or is
// pending, or last is the only one at their end.
func alertsOf(t *testing.T, series map[string]string, scrapes int, last map[string]any) string {
	t.Helper()
	rules, err := filepath.Abs("../deploy/prometheus/fanfare.rules.yml")
	require.NoError(t, err)
	var input, tests []any
	for name, values := range series {
		input = append(input, map[string]any{"series": name, "values": strings.TrimSpace(values)})
	}
	for at := time.Minute; at < time.Duration(scrapes)*stretched; at += time.Minute {
		test := map[string]any{"expr": "count by (alertname, alertstate) (ALERTS)", "eval_time": at.String()}
		if last != nil {
			test["exp_samples"] = []any{last}
			tests = nil
		}
		tests = append(tests, test)
	}
	text, err := yaml.Marshal(map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": stretched.String(), "input_series": input, "promql_expr_test": tests}},
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "alerts.yml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

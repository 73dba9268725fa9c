package obs_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/obs"
	"fanfare/internal/queue"
)

var update = flag.Bool("update", false, "write the table of metrics in docs/METRICS.md")

// The pages on which operators find the metrics and the runbooks.
const (
	metricsPage  = "../../docs/METRICS.md"
	runbooksPage = "../../docs/OPERATIONS.md"
)

// metric is a metric as a row of the page.
type metric struct{ kind, labels, help string }

// listing is a registerer that only records the registered metrics.
type listing map[string]metric

var described = regexp.MustCompile(`fqName: "(.*?)", help: "(.*?)", unit: ".*?", constLabels: \{(.*?)\}, variableLabels: \{(.*?)\}`)

func (l listing) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 100)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		found := described.FindStringSubmatch(desc.String())
		if found == nil || !strings.HasPrefix(found[1], "fanfare_") {
			continue // the metrics of Go itself
		}
		var labels []string
		for label := range strings.SplitSeq(found[3]+","+found[4], ",") {
			if name, _, _ := strings.Cut(label, "="); name != "" {
				labels = append(labels, name)
			}
		}
		slices.Sort(labels)
		kind := "gauge"
		_, one := c.(interface{ Observe(value float64) })
		_, many := c.(*prometheus.HistogramVec)
		if one || many {
			kind = "histogram"
		} else if strings.HasSuffix(found[1], "_total") {
			kind = "counter"
		}
		l[found[1]] = metric{kind, strings.Join(slices.Compact(labels), ", "), found[2]}
	}
	return nil
}

func (l listing) MustRegister(...prometheus.Collector) { panic("not used") }
func (l listing) Unregister(prometheus.Collector) bool { panic("not used") }

// metrics returns all metrics of the product, by name.
func metrics(t *testing.T) listing {
	t.Helper()
	l := listing{}
	_, err := obs.NewMetrics(l)
	require.NoError(t, err)
	_, err = obs.NewAudit(l, nil)
	require.NoError(t, err)
	_, err = obs.NewCanary(l, nil)
	require.NoError(t, err)
	archived, err := obs.NewArchive(l)
	require.NoError(t, err)
	require.NoError(t, archived.Watch(nil))
	require.NoError(t, obs.RegisterClock(l, nil))
	require.NoError(t, obs.RegisterTokens(l, nil))
	require.NoError(t, obs.RegisterAuthors(l, nil))
	require.NoError(t, obs.RegisterEvents(l, nil))
	require.NoError(t, obs.RegisterThrottle(l, nil, nil))
	require.NoError(t, obs.RegisterKeys(l, nil))
	require.NoError(t, obs.RegisterStore(l, "table", func() disk.Stats { return disk.Stats{} }))
	_, err = obs.NewPair(l, nil)
	require.NoError(t, err)
	require.NoError(t, obs.RegisterDepth(l, func(context.Context, string) (queue.Depth, error) { return queue.Depth{}, nil }))
	return l
}

// movers returns the daemons in which a metric changes, by the longest matching prefix of the metric's
// name. The command up runs all daemons.
func movers(name string) string {
	by := map[string]string{
		"fanfare_": "all", "fanfare_posts": "api", "fanfare_unread": "api", "fanfare_likes": "api", "fanfare_http": "api", "fanfare_stream": "api", "fanfare_key": "api",
		"fanfare_remembered": "api", "fanfare_known_author": "api", "fanfare_shared_heads": "api", "fanfare_like_": "likeagg", "fanfare_notice": "fanout", "fanfare_deliveries": "fanout", "fanfare_post_visible": "fanout",
		"fanfare_message": "fanout, likeagg", "fanfare_dead_letters": "fanout, likeagg", "fanfare_table_write_limit": "api, fanout", "fanfare_table_hot_keys": "fanout",
		"fanfare_archive": "up", "fanfare_events": "up", "fanfare_pair": "up", "fanfare_stream_spool": "up", "fanfare_store": "up", "fanfare_disk": "up", "fanfare_canary": "api", "fanfare_write_stalls": "up", "fanfare_failed_compactions": "up",
	}
	best := ""
	for beginning := range by {
		if strings.HasPrefix(name, beginning) && len(beginning) > len(best) {
			best = beginning
		}
	}
	return by[best]
}

func TestThePageHasEachMetric(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("| metric | type | labels | meaning | moves in |\n|---|---|---|---|---|\n")
	all := metrics(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s | %s |\n", name, m.kind, m.labels, m.help, movers(name))
	}
	const begin, end = "<!-- metrics: go test ./internal/obs -update -->\n", "<!-- end of the metrics -->"
	text, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, "the page lacks %s", begin)
	now, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "the page lacks %s", end)
	if *update {
		require.NoError(t, os.WriteFile(metricsPage, []byte(before+begin+rows.String()+end+after), 0o600))
		return
	}
	assert.Equal(t, rows.String(), now, "write it: go test ./internal/obs -update")
}

// A rule or a panel for a metric that does not exist would be silent forever.
func TestRulesAndPanelsNameMetricsThatExist(t *testing.T) {
	all := metrics(t)
	for _, file := range []string{"prometheus/fanfare.rules.yml", "prometheus/fanfare.rules.test.yml", "grafana/fanfare.json"} {
		text, err := os.ReadFile("../../deploy/" + file)
		require.NoError(t, err)
		named := regexp.MustCompile(`\bfanfare_[a-z0-9_]+`).FindAllString(string(text), -1)
		require.NotEmpty(t, named, file)
		for _, name := range named {
			whole := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
			_, known := all[name]
			m := all[whole]
			assert.True(t, known || m.kind == "histogram", "%s: there is no metric %s", file, name)
		}
		if strings.HasSuffix(file, ".json") {
			assert.True(t, json.Valid(text), file)
		}
	}
}

// A runbook is a section of the page that names its alert, and the day on which a person last
// followed the runbook.
func TestEachAlertHasARunbookThatWasFollowed(t *testing.T) {
	text, err := os.ReadFile(runbooksPage)
	require.NoError(t, err)
	sections := map[string]string{}
	for part := range strings.SplitSeq(string(text), "\n### ") {
		heading, body, _ := strings.Cut(part, "\n")
		body, _, _ = strings.Cut(body, "\n## ")
		sections[strings.ReplaceAll(strings.ToLower(heading), " ", "-")] = body
	}
	rules, err := os.ReadFile("../../deploy/prometheus/fanfare.rules.yml")
	require.NoError(t, err)
	alerts := strings.Split(string(rules), "- alert: ")[1:]
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		name, _, _ := strings.Cut(alert, "\n")
		runbook := regexp.MustCompile(`runbook: docs/OPERATIONS\.md#([a-z-]+)\n`).FindStringSubmatch(alert)
		if assert.Len(t, runbook, 2, name) {
			body, ok := sections[runbook[1]]
			assert.True(t, ok, "%s: the page has no section %s", name, runbook[1])
			assert.Contains(t, body, "`"+name+"`", runbook[1])
			assert.Regexp(t, `(?m)^- \*\*Followed\*\* on 20\d\d-\d\d-\d\d`, body, runbook[1])
		}
	}
}

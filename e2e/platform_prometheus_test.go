//go:build e2e && platform

package e2e

import (
	"encoding/json"
	"fanfare/internal/porttest"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// scale divides the windows of the rules. A canary takes ten seconds for a round, so the shortest
	// window has room for two rounds.
	scale = 10
	// scrapeEvery is longer than a scrape takes while a queue does not answer.
	scrapeEvery = 4 * time.Second
	rulesFile   = "../deploy/prometheus/fanfare.rules.yml"
)

// prometheus is a real Prometheus that scrapes processes and evaluates the rules each second.
type prometheus struct{ url string }

func newPrometheus(t *testing.T, targets ...string) *prometheus {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	require.NoError(t, err, "run scripts/need.sh prometheus:prometheus")
	dir, address := t.TempDir(), porttest.Free(t)
	for name, text := range map[string]string{
		"fanfare.yml": scaledRules(t),
		"clock.yml":   "groups: [{name: clock, rules: [{record: evaluation, expr: vector(1)}]}]",
		"prometheus.yml": fmt.Sprintf("global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: 1s}\n"+
			"rule_files: [fanfare.yml, clock.yml]\nscrape_configs: [{job_name: fanfare, static_configs: [{targets: ['%[2]s']}]}]\n",
			scrapeEvery, strings.Join(targets, "','")),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	startBinary(t, os.Environ(), binary, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--query.lookback-delta="+(5*time.Minute/scale).String(), "--log.level=warn")
	p := &prometheus{"http://" + address}
	await(t, "Prometheus is ready", func() bool { return strings.HasPrefix(get(t, address, "/-/ready", ""), "200") })
	return p
}

// scaledRules returns the rules with each duration divided by scale. Durations are ranges, offsets,
// "for", and thresholds of time in the form minutes * 60.
func scaledRules(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	duration := regexp.MustCompile(`(\[|for: |offset )(\d+)([smhd])\b`)
	require.Greater(t, len(duration.FindAll(raw, -1)), 20)
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	text := duration.ReplaceAllStringFunc(string(raw), func(found string) string {
		parts := duration.FindStringSubmatch(found)
		n, err := strconv.Atoi(parts[2])
		require.NoError(t, err)
		return fmt.Sprintf("%s%dms", parts[1], (time.Duration(n) * units[parts[3]] / scale).Milliseconds())
	})
	minutes := regexp.MustCompile(`> (\d+) \* 60\n`)
	require.Len(t, minutes.FindAllString(text, -1), 1)
	return minutes.ReplaceAllString(text, fmt.Sprintf("> $1 * 60 / %d\n", scale))
}

// alertNames returns the names of all alerts, in the order of the rules.
func alertNames(t *testing.T) (names []string) {
	t.Helper()
	raw, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	for _, found := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(raw), -1) {
		names = append(names, found[1])
	}
	require.NotEmpty(t, names)
	return names
}

// scraped is a series in an answer of Prometheus.
type scraped struct {
	Metric map[string]string
	Value  [2]any
	Values [][2]any
}

// ask returns the series that answer a query.
func (p *prometheus) ask(t *testing.T, path string, query url.Values) []scraped {
	t.Helper()
	var out struct {
		Status, Error string
		Data          struct{ Result []scraped }
	}
	answer := get(t, strings.TrimPrefix(p.url, "http://"), path+"?"+query.Encode(), "")
	_, body, _ := strings.Cut(answer, " ")
	require.NoError(t, json.Unmarshal([]byte(body), &out), answer)
	require.Equal(t, "success", out.Status, answer)
	return out.Data.Result
}

// number returns the value of a query with one series, or 0 if the query has no series.
func (p *prometheus) number(t *testing.T, query string) float64 {
	t.Helper()
	found := p.ask(t, "/api/v1/query", url.Values{"query": {query}})
	if len(found) == 0 {
		return 0
	}
	value, err := strconv.ParseFloat(fmt.Sprint(found[0].Value[1]), 64)
	require.NoError(t, err)
	return value
}

// passes waits until Prometheus has evaluated the scaled rules for the duration whole, divided by scale.
func (p *prometheus) passes(t *testing.T, whole time.Duration) {
	t.Helper()
	evaluations := (whole / scale).Seconds()
	within(t, fmt.Sprint("Prometheus evaluates the rules for ", whole), 2*whole/scale+time.Minute, func() bool {
		return p.number(t, "count_over_time(evaluation[1d])") >= evaluations
	})
}

// alerts returns the alerts that were in a state ("" for any state) after a time, with the delay of each
// alert in the rules' time.
func (p *prometheus) alerts(t *testing.T, since time.Time, state string) map[string]time.Duration {
	t.Helper()
	now := time.Now()
	if since.IsZero() {
		since = now.Add(-20 * time.Minute)
	}
	query := "ALERTS"
	if state != "" {
		query = fmt.Sprintf("ALERTS{alertstate=%q}", state)
	}
	first := map[string]time.Duration{}
	for _, series := range p.ask(t, "/api/v1/query_range", url.Values{
		"query": {query}, "start": {unix(since)}, "end": {unix(now)}, "step": {"1"},
	}) {
		at, ok := series.Values[0][0].(float64)
		require.True(t, ok)
		after := time.Duration((at - float64(since.UnixMilli())/1000) * scale * float64(time.Second))
		name := series.Metric["alertname"]
		if before, known := first[name]; !known || after < before {
			first[name] = after
		}
	}
	return first
}

func unix(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64) }

// disturbance is a proxy between one process and AWS. It passes requests on, or disturbs some of the
// requests.
type disturbance struct {
	url   string
	fault atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

func newDisturbance(t *testing.T) *disturbance {
	t.Helper()
	d := &disturbance{}
	d.url = startAWSProxy(t, func(rw http.ResponseWriter, r *http.Request) bool {
		fault := d.fault.Load()
		return fault != nil && (*fault)(rw, r)
	}, nil)
	return d
}

// set begins a fault. The fault reports whether it answered the request.
func (d *disturbance) set(fault func(http.ResponseWriter, *http.Request) bool) { d.fault.Store(&fault) }
